//! Whose certificates are believed when jostle asks others.

use super::naming::Naming;
use super::reloaded::Reloaded;
use super::tls::certificates;
use jostle_measure::error::Result;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Shakes hands with servers.
#[derive(Clone)]
pub struct Trust(Arc<Reloaded<TlsConnector>>);

impl Trust {
    /// Believes certificates signed by `ca`; shows `identity`, certificate and key,
    /// where that is given. PEM files; those that are replaced are read again.
    ///
    /// # Errors
    /// A request error that names the setting and the file.
    pub fn load(
        naming: Naming,
        (setting, ca): (&str, &Path),
        identity: Option<(&Path, &Path)>,
    ) -> Result<Trust> {
        let (setting, ca) = (setting.to_string(), ca.to_path_buf());
        let identity = identity.map(|(one, two)| (one.to_path_buf(), two.to_path_buf()));
        let mut files = vec![ca.clone()];
        files.extend(
            identity
                .iter()
                .flat_map(|(one, two)| [one.clone(), two.clone()]),
        );
        let load = move || {
            let identity = identity
                .as_ref()
                .map(|(one, two)| (one.as_path(), two.as_path()));
            connector(naming, (&setting, &ca), identity)
        };
        Ok(Trust(Arc::new(Reloaded::new(files, load)?)))
    }

    /// # Errors
    /// What the handshake met, as a certificate that is not believed.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
        self.0.get().connect(name, stream).await
    }
}

fn connector(
    naming: Naming,
    (setting, ca): (&str, &Path),
    identity: Option<(&Path, &Path)>,
) -> Result<TlsConnector> {
    let wrong = |setting: &str, path: &Path, problem: &dyn std::fmt::Display| {
        naming.wrong(setting, path.display(), problem)
    };
    let mut roots = RootCertStore::empty();
    for root in certificates(ca).map_err(|it| wrong(setting, ca, &it))? {
        roots.add(root).map_err(|it| wrong(setting, ca, &it))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|it| wrong(setting, ca, &it))?
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate);
            let chain = chain.map_err(|it| wrong("certificate", certificate, &it))?;
            let secret = PrivateKeyDer::from_pem_file(key);
            let secret = secret.map_err(|it| wrong("key", key, &it))?;
            let config = builder.with_client_auth_cert(chain, secret);
            config.map_err(|it| wrong("key", key, &it))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}
