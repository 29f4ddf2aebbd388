//! Where the API server is, and requests to it.

use crate::http::client;
use crate::http::client::Address;
use crate::http::client::Client;
use crate::http::naming::Naming;
use crate::http::trust::Trust;
use bytes::Bytes;
use hyper::Method;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Incoming;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// What Kubernetes mounts into every pod with a service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Largest answer that is no stream, bytes: pages have 500 objects.
const MOST_BYTES: usize = 256 << 20;
const LONGEST_BODY: Duration = Duration::from_secs(60);

/// How to reach the API server.
#[derive(Clone)]
pub struct ApiServer {
    address: Address,
    trust: Option<Trust>,
    /// Read again for every request: Kubernetes renews it.
    token_file: Option<PathBuf>,
}

impl ApiServer {
    /// At `url`, or as the environment of a pod says.
    ///
    /// # Errors
    /// A request error that names the flag.
    pub fn find(url: Option<&str>, ca: Option<&Path>, token: Option<&Path>) -> Result<ApiServer> {
        let naming = Naming::Flags;
        let mounted = |file: &str| Path::new(SERVICE_ACCOUNT).join(file);
        let (url, ca, token_file) = match url {
            Some(url) => (
                url.to_string(),
                ca.map(PathBuf::from),
                token.map(PathBuf::from),
            ),
            None => {
                let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
                let host = variable("KUBERNETES_SERVICE_HOST").ok_or_else(|| {
                    Error::request("--api-server is missing: this is no pod of Kubernetes")
                })?;
                let host = match host.contains(':') {
                    true => format!("[{host}]"),
                    false => host,
                };
                let port = variable("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".into());
                let ca = ca.map_or_else(|| mounted("ca.crt"), PathBuf::from);
                let token = token.map_or_else(|| mounted("token"), PathBuf::from);
                (format!("https://{host}:{port}"), Some(ca), Some(token))
            }
        };
        let wrong = |problem: String| naming.wrong("api_server", &url, problem);
        let address = Address::parse(&url).map_err(wrong)?;
        let trust = match (address.tls, &ca) {
            (true, Some(ca)) => Some(Trust::load(naming, ("api_ca", ca), None)?),
            (true, None) => return Err(wrong("https needs --api-ca FILE".into())),
            (false, _) => None,
        };
        if let Some(path) = &token_file {
            std::fs::read_to_string(path)
                .map_err(|error| naming.wrong("api_token_file", path.display(), error))?;
        }
        Ok(ApiServer {
            address,
            trust,
            token_file,
        })
    }

    /// A connection of its own.
    pub fn client(&self) -> Client {
        Client::new(self.address.clone(), self.trust.clone())
    }

    /// # Errors
    /// As [`Client::send`]; an answer other than 200, in words.
    pub async fn get(&self, client: &mut Client, path: &str) -> Result<Response<Incoming>, Fault> {
        let token = self.token_file.as_ref().map(std::fs::read_to_string);
        let token = token.transpose().map_err(Fault::Io)?;
        let token = token.as_deref().map(str::trim);
        let answer = client.send(Method::GET, path, token, Bytes::new()).await;
        let answer = answer.map_err(Fault::Io)?;
        match answer.status() {
            StatusCode::OK => Ok(answer),
            status => Err(Fault::Status(status)),
        }
    }

    /// # Errors
    /// As [`Self::get`]; an answer that is not what was asked for.
    pub async fn read<T: DeserializeOwned>(
        &self,
        client: &mut Client,
        path: &str,
    ) -> Result<T, Fault> {
        let answer = self.get(client, path).await?;
        let body = client::body(answer, MOST_BYTES, LONGEST_BODY).await;
        let body = body.map_err(Fault::Io)?;
        serde_json::from_slice(&body).map_err(|error| Fault::Io(io::Error::other(error)))
    }
}

/// Why the API server did not answer as it should.
#[derive(Debug)]
pub enum Fault {
    Io(io::Error),
    Status(StatusCode),
    /// What was known is too old; everything has to be listed again.
    Expired,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Io(error) => write!(f, "{error}"),
            Fault::Status(status) if *status == StatusCode::FORBIDDEN => {
                write!(f, "{status}: may this service account list and watch them?")
            }
            Fault::Status(status) => write!(f, "{status}"),
            Fault::Expired => f.write_str("the version to go on from has expired"),
        }
    }
}
