//! Where the profiles are: a directory, a ConfigMap, or a document at a URL.

use super::api_server::ApiServer;
use super::profiles;
use super::profiles::Files;
use super::profiles::Profiles;
use super::profiles::Stamp;
use crate::http::client;
use crate::http::client::Address;
use crate::http::client::Client;
use crate::http::naming::Naming;
use crate::http::trust::Trust;
use bytes::Bytes;
use hyper::Method;
use hyper::StatusCode;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// Largest document, bytes.
const MOST_BYTES: usize = 256 << 20;
const LONGEST_BODY: Duration = Duration::from_secs(60);

/// What `--profiles` names.
pub enum Source {
    /// Read again when a file of it changes.
    Directory(PathBuf),
    /// Read again every few seconds.
    ConfigMap { path: String, server: ApiServer },
    /// Read once.
    Url {
        address: Address,
        trust: Option<Trust>,
    },
}

/// What was read last, to tell whether it changed.
#[derive(Default, PartialEq)]
pub enum Seen {
    #[default]
    Nothing,
    Directory(Stamp),
    /// Its resource version.
    ConfigMap(String),
    Url,
}

impl Source {
    /// `DIR`, `configmap:NAMESPACE/NAME`, or `https://…`.
    ///
    /// # Errors
    /// A request error that names the flag.
    pub fn parse(text: &str, ca: Option<&Path>, server: &ApiServer) -> Result<Source> {
        let wrong = |problem: String| Naming::Flags.wrong("profiles", text, problem);
        if let Some(name) = text.strip_prefix("configmap:") {
            let plain = |part: &str| {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
                !part.is_empty() && part.chars().all(plain)
            };
            return match name.split_once('/') {
                Some((namespace, name)) if plain(namespace) && plain(name) => {
                    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
                    let server = server.clone();
                    Ok(Source::ConfigMap { path, server })
                }
                _ => Err(wrong("write configmap:NAMESPACE/NAME".into())),
            };
        }
        if text.contains("://") {
            let address = Address::parse(text).map_err(wrong)?;
            let trust = match (address.tls, ca) {
                (true, Some(ca)) => Some(Trust::load(Naming::Flags, ("profiles_ca", ca), None)?),
                (true, None) => return Err(wrong("https needs --profiles-ca FILE".into())),
                (false, _) => None,
            };
            return Ok(Source::Url { address, trust });
        }
        Ok(Source::Directory(text.into()))
    }

    /// The profiles, if they are others than those `seen`.
    ///
    /// # Errors
    /// They cannot be read, in words.
    pub async fn read(&self, seen: &mut Seen) -> Result<Option<Profiles>, String> {
        let (files, now) = match self {
            Source::Directory(directory) => {
                let named = |error| format!("{}: {error}", directory.display());
                let stamp = profiles::stamp(directory).map_err(named)?;
                if *seen == Seen::Directory(stamp.clone()) {
                    return Ok(None);
                }
                let files = profiles::read_directory(directory, &stamp);
                (files, Seen::Directory(stamp))
            }
            Source::ConfigMap { path, server } => {
                let mut client = server.client();
                let map: ConfigMap = server
                    .read(&mut client, path)
                    .await
                    .map_err(|fault| format!("{path}: {fault}"))?;
                let now = Seen::ConfigMap(map.metadata.resource_version.clone());
                if *seen == now {
                    return Ok(None);
                }
                (map.files(), now)
            }
            Source::Url { .. } if *seen == Seen::Url => return Ok(None),
            Source::Url { address, trust } => (download(address, trust).await?, Seen::Url),
        };
        *seen = now;
        Ok(Some(Profiles::of(&files)))
    }

    /// The same for the first time.
    ///
    /// # Errors
    /// A request error: they cannot be read, or there is none.
    pub async fn first(&self, text: &str, seen: &mut Seen) -> Result<Profiles> {
        let wrong = |problem: String| Error::request(format!("--profiles {problem}"));
        let found = self.read(seen).await.map_err(wrong)?.unwrap_or_default();
        if found.apps.is_empty() {
            return Err(Naming::Flags.wrong("profiles", text, "holds no profile (*.json)"));
        }
        Ok(found)
    }
}

#[derive(Deserialize)]
struct ConfigMap {
    metadata: super::protocol::Metadata,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

impl ConfigMap {
    fn files(self) -> Files {
        let data = self.data.unwrap_or_default().into_iter();
        let profiles = data.filter(|(name, _)| name.ends_with(".json"));
        profiles
            .map(|(name, text)| (name, text.into_bytes()))
            .collect()
    }
}

/// One JSON object: profiles by name.
async fn download(address: &Address, trust: &Option<Trust>) -> Result<Files, String> {
    let mut whole = address.clone();
    let path = std::mem::take(&mut whole.prefix);
    let shown = format!("{}:{}{path}", whole.host, whole.port);
    let named = |error: &dyn std::fmt::Display| format!("{shown}: {error}");
    let mut client = Client::new(whole, trust.clone());
    let answer = client.send(Method::GET, &path, None, Bytes::new()).await;
    let answer = answer.map_err(|error| named(&error))?;
    if answer.status() != StatusCode::OK {
        return Err(named(&answer.status()));
    }
    let body = client::body(answer, MOST_BYTES, LONGEST_BODY).await;
    let body = body.map_err(|error| named(&error))?;
    let all: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&body)
        .map_err(|error| named(&format!("no object of profiles by name: {error}")))?;
    let file = |(name, text): (String, Box<RawValue>)| (name, text.get().as_bytes().to_vec());
    Ok(all.into_iter().map(file).collect())
}
