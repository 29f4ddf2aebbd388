//! `jostle extender`: what kube-scheduler asks.

use crate::agent::log::Log;
use crate::serve::extender::Extender;
use crate::serve::extender::Options;
use clap::value_parser;
use jostle_measure::console::note;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use std::path::PathBuf;

/// Answer kube-scheduler: which nodes break a QoS target, and which is best
///
/// Implements the verbs filter and prioritize of scheduler extenders. A pod names its
/// profile with the annotation jostle.dev/profile; pods without it get no opinion.
/// Watches nodes and pods through the API server, and takes the states that agents
/// send. Ends with SIGTERM.
///
/// Examples:
///   jostle extender --profiles profiles/ --api-server http://127.0.0.1:8001
///   jostle extender --profiles configmap:jostle/profiles --listen 0.0.0.0:8443 \
///     --certificate tls.crt --key tls.key --client-ca ca.crt
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Profiles by the names that annotations use: a directory of NAME.json,
    /// configmap:NAMESPACE/NAME, or the URL of a JSON object {NAME: PROFILE}
    #[arg(long, value_name = "SOURCE")]
    profiles: String,
    /// CA of the URL of --profiles, PEM
    #[arg(long, value_name = "FILE")]
    profiles_ca: Option<PathBuf>,
    /// Address to listen on; other than loopback only with TLS
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8771")]
    listen: String,
    /// Certificate of this server, PEM
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Clients need a certificate signed by this CA, PEM
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Token that everybody but the scheduler sends, which cannot
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// API server [default: that of the pod in which this runs]
    #[arg(long, value_name = "URL")]
    api_server: Option<String>,
    /// CA of the API server, PEM [default: that of the pod]
    #[arg(long, value_name = "FILE")]
    api_ca: Option<PathBuf>,
    /// Token for the API server [default: that of the pod]
    #[arg(long, value_name = "FILE")]
    api_token_file: Option<PathBuf>,
    /// Know only nodes with these labels, like pool=a; the others are neutral
    #[arg(long, value_name = "LABELS")]
    node_selector: Option<String>,
    /// Refuse nodes that break a QoS target even if no other is left, so that
    /// the pod waits
    #[arg(long)]
    strict: bool,
    /// Largest request of the scheduler, MiB
    #[arg(long, value_name = "N", default_value = "128", value_parser = value_parser!(u64).range(1..=4096))]
    most_body_mib: u64,
    /// What to log: error, warn, info (every decision), debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug", "trace"])]
    log: String,
}

pub fn run(args: Args) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Error::environment(format!("cannot watch for signals: {error}")))?;
    let _log = Log::start(&args.log);
    jostle_host::sys::open_files::raise_open_files();
    let strict = args.strict;
    let extender = Extender::start(&Options {
        listen: args.listen,
        certificate: args.certificate,
        key: args.key,
        client_ca: args.client_ca,
        token_file: args.token_file,
        profiles: args.profiles,
        profiles_ca: args.profiles_ca,
        api_server: args.api_server,
        api_ca: args.api_ca,
        api_token_file: args.api_token_file,
        node_selector: args.node_selector,
        strict,
        most_body_bytes: (args.most_body_mib << 20) as usize,
    })?;
    let (count, version) = &extender.profiles;
    note!(
        "jostle extender: listening on {}; {count} profiles, version {version}",
        extender.address
    );
    let signal = signals.forever().next();
    extender.stop();
    match signal {
        Some(SIGINT) => Err(Error::Interrupted("; the extender is gone".into())),
        _ => Ok(()),
    }
}
