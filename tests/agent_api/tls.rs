//! TLS, and certificates of clients. The keys are made for these tests and good for
//! nothing else.

use crate::live::Live;
use crate::live::PATIENCE;
use crate::live::Reply;
use crate::live::exchange;
use rustls::ClientConfig;
use rustls::ClientConnection;
use rustls::RootCertStore;
use rustls::StreamOwned;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls");
    folder.join(name)
}

/// On every address, with a certificate and what `proof` adds.
fn serve(client_ca: bool, token: bool) -> Live {
    Live::with(|config, directory| {
        config.tcp = Some("0.0.0.0:0".into());
        config.certificate = Some(fixture("server.pem"));
        config.key = Some(fixture("server.key"));
        config.client_ca = client_ca.then(|| fixture("ca.pem"));
        config.token_file = token.then(|| {
            let path = directory.join("token");
            std::fs::write(&path, TOKEN).unwrap();
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&path, mode).unwrap();
            path
        });
    })
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(live: &Live, certificate: Option<&str>) -> Stream {
    let mut roots = RootCertStore::empty();
    for root in ["ca.pem", "renewed.pem"] {
        let root = CertificateDer::from_pem_file(fixture(root)).unwrap();
        roots.add(root).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let own = CertificateDer::from_pem_file(fixture(&format!("{name}.pem"))).unwrap();
            let key = PrivateKeyDer::from_pem_file(fixture(&format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(vec![own], key).unwrap()
        }
    };
    let name = "localhost".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", live.tcp().port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    StreamOwned::new(client, stream)
}

fn ask(stream: Stream, header: &str) -> Reply {
    let head = "GET /v1/node HTTP/1.1\r\nhost: node-7.example.org\r\nconnection: close\r\n";
    exchange(stream, format!("{head}{header}\r\n").as_bytes())
}

#[test]
fn a_token_goes_over_tls() {
    let live = serve(false, true);
    ask(connect(&live, None), "").error(401);
    let right = format!("authorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(connect(&live, None), &right).status, 200);
}

#[test]
fn certificates_of_clients_are_asked_for() {
    let live = serve(true, false);
    assert_eq!(ask(connect(&live, Some("client")), "").status, 200);
    for wrong in [None, Some("stranger")] {
        let mut stream = connect(&live, wrong);
        let _ = stream.write_all(b"GET /v1/node HTTP/1.1\r\nhost: x\r\n\r\n");
        let mut said = Vec::new();
        let ended = stream.read_to_end(&mut said);
        assert!(
            ended.is_err() && said.is_empty(),
            "{wrong:?}: {ended:?} {said:?}"
        );
    }
}

#[test]
fn plain_text_and_silence_do_not_hold_a_place() {
    let live = serve(false, true);
    let address = ("127.0.0.1", live.tcp().port());
    let plain = TcpStream::connect(address).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = Vec::new();
    (&plain)
        .write_all(b"GET /v1/node HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    let _ = (&plain).read_to_end(&mut said);
    assert!(!String::from_utf8_lossy(&said).contains("HTTP"), "{said:?}");
    let begin = Instant::now();
    let silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    let count = (&silent).read(&mut [0; 1]).unwrap();
    assert_eq!(count, 0);
    let took = begin.elapsed();
    assert!((4..9).contains(&took.as_secs()), "{took:?}");
    let right = format!("authorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(connect(&live, None), &right).status, 200);
}

/// The certificate that the server shows now.
fn shown(live: &Live) -> Option<Vec<u8>> {
    let mut stream = connect(live, None);
    let _ = stream.conn.complete_io(&mut stream.sock);
    let chain = stream.conn.peer_certificates()?;
    Some(chain[0].to_vec())
}

#[test]
fn renewed_certificates_are_used_and_wrong_ones_are_not() {
    let mut copies = None;
    let live = Live::with(|config, directory| {
        let (certificate, key) = (directory.join("tls.crt"), directory.join("tls.key"));
        std::fs::copy(fixture("server.pem"), &certificate).unwrap();
        std::fs::copy(fixture("server.key"), &key).unwrap();
        config.tcp = Some("127.0.0.1:0".into());
        config.certificate = Some(certificate.clone());
        config.key = Some(key.clone());
        copies = Some((certificate, key));
    });
    let (certificate, key) = copies.unwrap();
    let of = |name: &str| {
        CertificateDer::from_pem_file(fixture(name))
            .unwrap()
            .to_vec()
    };
    assert_eq!(shown(&live), Some(of("server.pem")));
    // A certificate that does not belong to the key is no reason to stop.
    std::fs::copy(fixture("renewed.pem"), &certificate).unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(shown(&live), Some(of("server.pem")));
    std::fs::copy(fixture("renewed.key"), &key).unwrap();
    let begin = Instant::now();
    while shown(&live) != Some(of("renewed.pem")) {
        assert!(begin.elapsed() < PATIENCE, "still the old one");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_file(&certificate).unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(shown(&live), Some(of("renewed.pem")));
}
