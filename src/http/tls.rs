//! Certificates and keys for TCP.

use super::naming::Naming;
use super::reloaded::Reloaded;
use jostle_measure::error::Result;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Shakes hands.
#[derive(Clone)]
pub struct Tls(Arc<Reloaded<TlsAcceptor>>);

impl Tls {
    /// With the PEM files at these paths; clients have to show a certificate signed
    /// by `client_ca` where that is given. Files that are replaced are read again.
    ///
    /// # Errors
    /// A request error that names key and file.
    pub fn load(
        naming: Naming,
        certificate: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Tls> {
        let (certificate, key) = (certificate.to_path_buf(), key.to_path_buf());
        let client_ca = client_ca.map(Path::to_path_buf);
        let mut files = vec![certificate.clone(), key.clone()];
        files.extend(client_ca.clone());
        let load = move || acceptor(naming, &certificate, &key, client_ca.as_deref());
        Ok(Tls(Arc::new(Reloaded::new(files, load)?)))
    }

    pub async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.0.get().accept(stream).await
    }
}

fn acceptor(
    naming: Naming,
    certificate: &Path,
    key: &Path,
    client_ca: Option<&Path>,
) -> Result<TlsAcceptor> {
    let wrong = |setting: &str, path: &Path, problem: &dyn Display| {
        naming.wrong(setting, path.display(), problem)
    };
    let chain = certificates(certificate).map_err(|it| wrong("certificate", certificate, &it))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong("key", key, &error))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("certificate", certificate, &error))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            let list = certificates(path).map_err(|it| wrong("client_ca", path, &it))?;
            for root in list {
                let added = roots.add(root);
                added.map_err(|error| wrong("client_ca", path, &error))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
            builder.with_client_cert_verifier(
                verifier.map_err(|error| wrong("client_ca", path, &error))?,
            )
        }
    };
    let mut config = builder
        .with_single_cert(chain, secret)
        .map_err(|error| wrong("key", key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// All certificates in a PEM file.
///
/// # Errors
/// In words.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(list) if list.is_empty() => Err("holds no certificate in PEM".into()),
        Ok(list) => Ok(list),
        Err(error) => Err(error.to_string()),
    }
}
