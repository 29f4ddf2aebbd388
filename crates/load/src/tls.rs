//! Whose certificates are believed.

use crate::endpoint::Endpoint;
use crate::error::TlsError;
use crate::spec::LoadSpec;
use rustls::ClientConfig;
use rustls::ClientConnection;
use rustls::DigitallySignedStruct;
use rustls::Error;
use rustls::RootCertStore;
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring;
use rustls::crypto::verify_tls12_signature;
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use std::sync::Arc;

/// What a connection to one server is secured with.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// As `spec` says; `None` where its server is asked without TLS.
    ///
    /// # Errors
    /// The file of authorities, or the host's name.
    pub fn of(spec: &LoadSpec) -> Result<Option<Tls>, TlsError> {
        let Endpoint::Tcp { host, .. } = &spec.url.endpoint else {
            return Ok(None);
        };
        if !spec.url.tls {
            return Ok(None);
        }
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|_| TlsError::Name(host.clone()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::SetUp(error.to_string()))?;
        let mut config = match spec.tls.insecure {
            true => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(provider))),
            false => builder.with_root_certificates(match &spec.tls.ca {
                Some(path) => given(path)?,
                None => roots()?,
            }),
        }
        .with_no_client_auth();
        if spec.url.kind == crate::url::Kind::Http {
            let spoken: &[u8] = if spec.http2 { b"h2" } else { b"http/1.1" };
            config.alpn_protocols = vec![spoken.to_vec()];
        }
        Ok(Some(Tls {
            config: Arc::new(config),
            name,
        }))
    }

    /// A handshake that is about to begin.
    pub fn connection(&self) -> std::io::Result<ClientConnection> {
        let made = ClientConnection::new(self.config.clone(), self.name.clone());
        let mut made = made.map_err(std::io::Error::other)?;
        // A request is taken whole; the socket holds it back where it must.
        made.set_buffer_limit(None);
        Ok(made)
    }
}

/// The authorities of a PEM file.
fn given(path: &Path) -> Result<RootCertStore, TlsError> {
    let wrong = |problem: String| TlsError::Ca {
        path: path.into(),
        problem,
    };
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        let added = roots.add(certificate);
        added.map_err(|error| wrong(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("there is no certificate in it".into())),
        false => Ok(roots),
    }
}

/// The authorities that this system believes.
fn roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    match roots.is_empty() {
        true if reasons.is_empty() => Err(TlsError::NoRoots("there are none".into())),
        true => Err(TlsError::NoRoots(reasons.join("; "))),
        false => Ok(roots),
    }
}

/// Believes every certificate, but not a handshake that its key did not sign.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
