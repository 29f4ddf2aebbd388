//! Whose certificates a page of metrics may show.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use std::sync::Arc;
use ureq::tls::Certificate;
use ureq::tls::RootCerts;
use ureq::tls::TlsConfig;

/// Believes the authorities in the PEM file `ca`, or those of the system. What is wrong
/// with them, in words.
pub(super) fn trust(ca: Option<&Path>) -> Result<TlsConfig, String> {
    let found = match ca {
        None => rustls_native_certs::load_native_certs().certs,
        Some(path) => CertificateDer::pem_file_iter(path)
            .and_then(|found| found.collect())
            .map_err(|error| format!("--metric-ca {}: {error}", path.display()))?,
    };
    let roots: Vec<_> = found
        .iter()
        .map(|der| Certificate::from_der(der).to_owned())
        .collect();
    match (roots.is_empty(), ca) {
        (true, Some(path)) => Err(format!(
            "--metric-ca {}: there is no certificate in it",
            path.display()
        )),
        (true, None) => {
            Err("this system has no certificate authorities; name one with --metric-ca".to_string())
        }
        (false, _) => Ok(TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build()),
    }
}
