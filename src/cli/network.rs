//! From flags to the peer of the network source and its traffic.

use jostle_host::inject::traffic;
use jostle_kernels::network::Traffic;
use jostle_kernels::network::Transport;
use jostle_kernels::network::secret::Secret;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::net::SocketAddr;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::path::PathBuf;

/// Where the network source may send to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NetworkArgs {
    /// Where `jostle sink` runs; without it nothing is ever sent
    #[arg(long, value_name = "HOST:PORT")]
    pub peer: Option<String>,
    /// File with the secret of a sink that was started with --secret-file
    #[arg(long, value_name = "FILE", requires = "peer")]
    pub peer_secret_file: Option<PathBuf>,
    /// How the network source sends: tcp or udp [default: tcp]
    #[arg(long, value_parser = parse_transport, value_name = "HOW", requires = "peer")]
    pub network_protocol: Option<Transport>,
    /// Which messages are sent when: bulk, burst, web, or a TOML file with Markov
    /// chains of messages (see scripts/patterns/web.toml) [default: bulk]
    #[arg(long, value_name = "PATTERN", requires = "peer")]
    pub network_pattern: Option<String>,
    /// Most payload that is ever sent, like 100MB/s or 1Gbit/s
    /// [default: what the path takes]
    #[arg(long, value_parser = parse_rate, value_name = "RATE", requires = "peer")]
    pub network_cap: Option<u64>,
}

fn parse_transport(text: &str) -> std::result::Result<Transport, String> {
    match text {
        "tcp" => Ok(Transport::Tcp),
        "udp" => Ok(Transport::Udp),
        _ => Err("give tcp or udp".to_string()),
    }
}

impl NetworkArgs {
    /// Looks the peer up, once, and reads the pattern. `None` without a peer.
    ///
    /// # Errors
    /// A request error naming the flag or the file.
    pub fn resolve(&self) -> Result<Option<Traffic>> {
        let Some(peer) = &self.peer else {
            return Ok(None);
        };
        let secret_file = self.peer_secret_file.as_deref();
        let secret_file = secret_file.map(secret).transpose()?;
        let name = self.network_pattern.as_deref().unwrap_or(traffic::NAMES[0]);
        Ok(Some(Traffic {
            peer: look_up(peer)?,
            peer_name: peer.clone(),
            transport: self.network_protocol.unwrap_or_default(),
            secret_file,
            pattern: traffic::load(name)
                .map_err(|error| Error::request(format!("--network-pattern: {error}")))?,
            pattern_name: name.to_string(),
            cap_bytes_per_second: self.network_cap,
        }))
    }
}

/// The file as workers find it, whatever directory they run in. It holds a secret.
fn secret(file: &Path) -> Result<PathBuf> {
    let refuse =
        |what: String| Error::request(format!("--peer-secret-file {}: {what}", file.display()));
    Secret::read(file).map_err(refuse)?;
    std::path::absolute(file).map_err(|error| refuse(error.to_string()))
}

/// What may be sent where, for people.
pub fn describe(traffic: Option<&Traffic>) -> String {
    let Some(traffic) = traffic else {
        return "network: nothing is sent, no peer is named".to_string();
    };
    let cap = match traffic.cap_bytes_per_second {
        Some(bytes) => format!("at most {} MB/s", bytes as f64 / 1e6),
        None => "no cap".to_string(),
    };
    let own = match traffic.pattern.per_second(1) {
        Some((bytes, messages)) => format!(
            " ({:.3} MB/s in {messages:.0} messages/s at 100 %)",
            bytes / 1e6
        ),
        None => String::new(),
    };
    format!(
        "network: {} to {traffic}, pattern {}{own}, {cap}",
        traffic.transport.as_str(),
        traffic.pattern_name
    )
}

/// The first address of `peer`, as the system orders them.
fn look_up(peer: &str) -> Result<SocketAddr> {
    let refuse = |what: String| {
        Error::request(format!(
            "--peer {peer}: {what}; give HOST:PORT, for example 192.0.2.7:7411 or [2001:db8::7]:7411"
        ))
    };
    let mut addresses = peer
        .to_socket_addrs()
        .map_err(|error| refuse(error.to_string()))?;
    match addresses.next() {
        Some(address) if address.port() == 0 || address.ip().is_unspecified() => {
            Err(refuse("that address cannot be reached".to_string()))
        }
        Some(address) if address.ip().is_multicast() || is_broadcast(&address) => {
            Err(refuse("that is not one host".to_string()))
        }
        Some(address) => Ok(address),
        None => Err(refuse("that name has no address".to_string())),
    }
}

fn is_broadcast(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V4(address) if address.ip().is_broadcast())
}

/// Bytes per second: `100MB/s`, `64KiB/s`, `1Gbit/s`.
///
/// # Errors
/// In words, with an example.
pub fn parse_rate(text: &str) -> std::result::Result<u64, String> {
    let example = "write for example 100MB/s or 1Gbit/s";
    let amount = text
        .strip_suffix("/s")
        .ok_or_else(|| format!("'{text}' is not a rate; {example}"))?;
    let split = amount
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(amount.len());
    let (number, unit) = amount.split_at(split);
    let scale = match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "bit" => 1.0 / 8.0,
        "kbit" | "Kbit" => 1e3 / 8.0,
        "Mbit" => 1e6 / 8.0,
        "Gbit" => 1e9 / 8.0,
        _ => return Err(format!("'{unit}/s' is not a unit of rates; {example}")),
    };
    number
        .trim()
        .parse::<f64>()
        .map(|number| number * scale)
        .ok()
        .filter(|rate| (1.0..1e15).contains(rate))
        .map(|rate| rate as u64)
        .ok_or_else(|| format!("'{text}' is not a rate of at least 1B/s; {example}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_nonsense_is_not() {
        for (text, rate) in [
            ("100MB/s", 100_000_000),
            ("1Gbit/s", 125_000_000),
            ("2.5 Gbit/s", 312_500_000),
            ("64KiB/s", 65_536),
            ("8bit/s", 1),
        ] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for text in [
            "", "1", "1MB", "0B/s", "1bit/s", "-1MB/s", "nanMB/s", "1e99GB/s", "1Mb/s",
        ] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn peers_are_one_host_and_a_port() {
        for peer in ["127.0.0.1:7411", "[::1]:7411"] {
            assert_eq!(look_up(peer).unwrap().to_string(), peer);
        }
        for peer in [
            "",
            "127.0.0.1",
            "[::1]",
            "0.0.0.0:1",
            "127.0.0.1:0",
            "224.0.0.1:9",
            "255.255.255.255:9",
        ] {
            let reason = look_up(peer).unwrap_err().to_string();
            assert!(reason.contains("--peer"), "{reason}");
        }
    }
}
