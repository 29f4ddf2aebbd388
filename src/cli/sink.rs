//! `jostle sink`: the remote end of the network source.

use crate::sink::Limits;
use crate::sink::Sink;
use clap::value_parser;
use jostle_kernels::network::protocol::PORT;
use jostle_kernels::network::secret::Secret;
use jostle_measure::console::note;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Receive what `network-bandwidth` sends, count it and throw it away
///
/// Runs on another host until it is ended (Ctrl-C, or SIGTERM, which is no
/// error). Name it to the source there with --peer HOST:PORT, and both must
/// be of the same version. What arrives, over TCP or UDP, is counted, reported
/// to the source every millisecond, and stored nowhere. The sink connects to
/// no other host and answers only on connections that were made to it; datagrams that
/// belong to no session are dropped without an answer. It listens to this host alone
/// until --listen names another address; --secret-file serves only sources that know
/// the secret.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address to listen on, TCP and UDP, like 192.0.2.7:7411 or [::1]:7411;
    /// may be repeated; port 0 takes a free one
    /// (0.0.0.0:7411: every IPv4 address of this host)
    /// [default: port 7411 of the loopback addresses]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// Sources served at a time
    #[arg(long, value_name = "N", default_value = "16", value_parser = value_parser!(u16).range(1..=1024))]
    sessions: u16,
    /// Sources of one host served at a time [default: half of --sessions, at least 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    sessions_per_host: Option<u16>,
    /// File with a secret of 16 to 128 characters: serve only sources that give it, with
    /// --peer-secret-file. It travels unencrypted
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// End a session to which nothing was sent for this long
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = super::duration::parse_duration)]
    idle: Duration,
}

pub fn run(args: Args) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Error::environment(format!("cannot watch for Ctrl-C: {error}")))?;
    let limits = Limits {
        sessions: args.sessions.into(),
        of_one_host: args
            .sessions_per_host
            .unwrap_or(args.sessions.div_ceil(2))
            .into(),
        idle: args.idle,
    };
    let secret = match &args.secret_file {
        None => None,
        Some(file) => Some(Secret::read(file).map_err(|error| {
            Error::request(format!("--secret-file {}: {error}", file.display()))
        })?),
    };
    let note = |text: &str| note!("jostle sink: {text}");
    let sink = match args.listen.is_empty() {
        false => Sink::start(&args.listen, limits, secret.as_ref(), note).map_err(refused),
        true => loopback(limits, secret.as_ref(), note),
    }?;
    for address in &sink.addresses {
        let all = match (address.ip().is_unspecified(), address.is_ipv4()) {
            (true, true) => ": every IPv4 address of this host",
            (true, false) => ": every IPv6 address of this host",
            (false, _) => "",
        };
        note(&format!("listening on {address}, TCP and UDP{all}"));
    }
    if secret.is_none() && sink.addresses.iter().any(|a| a.ip().is_unspecified()) {
        note(
            "any host that can reach this one may send here; --listen ADDR:PORT or --secret-file \
             narrows that",
        );
    }
    if args.listen.is_empty() {
        note("only this host can reach it; --listen ADDR:PORT opens it to others");
    }
    match signals.forever().next() {
        Some(SIGTERM) | None => Ok(()),
        Some(_) => Err(Error::Interrupted("; the sink is gone".into())),
    }
}

/// Both families; where the kernel has no IPv6, IPv4 alone.
fn loopback(limits: Limits, secret: Option<&Secret>, note: fn(&str)) -> Result<Sink> {
    let four = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, PORT));
    match Sink::start(&[four, six], limits, secret, note) {
        Err((address, error))
            if address == six
                && matches!(
                    error.raw_os_error(),
                    Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
                ) =>
        {
            note(&format!("no IPv6 here ({error})"));
            Sink::start(&[four], limits, secret, note)
        }
        result => result,
    }
    .map_err(refused)
}

fn refused((address, error): (SocketAddr, std::io::Error)) -> Error {
    Error::environment(match error.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "--listen {address}: the port is taken; end what listens there or name another port"
        ),
        _ => format!("--listen {address}: cannot listen there: {error}"),
    })
}
