//! TLS between agents and the extender. The keys are made for tests and good for
//! nothing else.

use crate::agent::Agent;
use crate::api_server::ApiServer;
use crate::api_server::node;
use crate::common::eventually;
use crate::common::root;
use crate::live::Extender;
use rustls::ClientConfig;
use rustls::ClientConnection;
use rustls::RootCertStore;
use rustls::StreamOwned;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn fixture(name: &str) -> String {
    let path = root().join("tests/fixtures/tls").join(name);
    path.to_str().unwrap().into()
}

/// On every address, for clients with a certificate and a token.
fn extender(api: &ApiServer, token_file: &str) -> Extender {
    let profiles = root().join("profiles");
    let (certificate, key, ca) = (
        fixture("server.pem"),
        fixture("server.key"),
        fixture("ca.pem"),
    );
    let flags = [
        "--profiles",
        profiles.to_str().unwrap(),
        "--certificate",
        &certificate,
        "--key",
        &key,
        "--client-ca",
        &ca,
        "--token-file",
        token_file,
    ];
    Extender::with("0.0.0.0:0", &flags, &api.url())
}

/// What it answers to `GET path`, asked with the certificate of a client.
fn get(port: u16, path: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(fixture("ca.pem")).unwrap())
        .unwrap();
    let chain = vec![CertificateDer::from_pem_file(fixture("client.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(fixture("client.key")).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    let name = "localhost".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn states_are_taken_from_agents_that_prove_who_they_are() {
    let api = ApiServer::start(vec![node("n1", 8, "a")]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    fs::write(&file, TOKEN).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let other = directory.path().join("other");
    fs::write(&other, TOKEN.replace('0', "1")).unwrap();
    let extender = extender(&api, file.to_str().unwrap());
    let port = extender.address.port();
    let url = format!("url = \"https://localhost:{port}\"\n");
    let key = |name: &str, file: &str| format!("{name} = \"{file}\"\n");
    let ca = key("ca", &fixture("ca.pem"));
    let identity = key("certificate", &fixture("client.pem")) + &key("key", &fixture("client.key"));
    let token = key("token_file", file.to_str().unwrap());
    let wrong_token = key("token_file", other.to_str().unwrap());
    let wrong_ca = key("ca", &fixture("stranger.pem"));
    eventually("the extender knows the node", || {
        get(port, "/readyz").starts_with("HTTP/1.1 200")
    });
    for (keys, words) in [
        (format!("{url}{wrong_ca}{identity}{token}"), "certificate"),
        (format!("{url}{ca}{token}"), ""),
        (format!("{url}{ca}{identity}{wrong_token}"), "401"),
        (format!("{url}{ca}{identity}"), "401"),
        (
            format!("{url}{ca}{identity}{token}").replace("localhost", "[::ffff:127.0.0.1]"),
            "certificate",
        ),
    ] {
        let agent = Agent::start(&keys);
        eventually("the agent says what is wrong", || {
            let log = agent.log();
            log.contains("states cannot be sent") && log.contains(words)
        });
    }
    let nodes = get(port, "/v1/nodes");
    assert!(nodes.contains("\"agent\":null"), "{nodes}");
    let _agent = Agent::start(&format!("{url}{ca}{identity}{token}"));
    eventually("the state arrives", || {
        get(port, "/v1/nodes").contains("\"stale\":false")
    });
}
