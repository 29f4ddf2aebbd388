//! Where the API listens, and who may not.

use crate::live::Live;
use crate::live::exchange;
use jostle::agent::api;
use jostle::agent::board::Board;
use jostle::agent::config::ApiSection;
use jostle::agent::store::Store;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Why `config` is refused.
#[track_caller]
fn refused(config: &ApiSection) -> String {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&directory.path().join("profiles"), 1).unwrap());
    match api::serve(config, Arc::new(Board::default()), store) {
        Ok(_) => panic!("this should have been refused: {config:?}"),
        Err(error) => {
            assert_eq!(error.exit_code(), 2, "{error}");
            error.to_string()
        }
    }
}

fn tcp_only(address: &str) -> ApiSection {
    ApiSection {
        socket: "".into(),
        tcp: Some(address.into()),
        ..ApiSection::default()
    }
}

fn token_file(directory: &Path, mode: u32) -> std::path::PathBuf {
    let path = directory.join(format!("token-{mode:o}"));
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn the_socket_has_its_mode_and_group() {
    let gid = nix::unistd::getegid().as_raw();
    let live = Live::with(|config, _| {
        config.socket_mode = "0640".into();
        config.socket_group = Some(gid.to_string());
    });
    let facts = std::fs::metadata(&live.config.socket).unwrap();
    assert_eq!(facts.mode() & 0o777, 0o640);
    assert_eq!(facts.gid(), gid);
}

#[test]
fn two_agents_do_not_share_a_socket() {
    let live = Live::start();
    let error = refused(&live.config);
    let socket = live.config.socket.display().to_string();
    assert!(
        error.contains(&socket) && error.contains("another agent listens here"),
        "{error}"
    );
    // The first goes on.
    assert_eq!(live.get("/healthz").status, 200);
}

#[test]
fn what_a_dead_agent_left_is_replaced() {
    let live = Live::with(|config, directory| {
        config.socket = directory.join("stale.sock");
        drop(UnixListener::bind(&config.socket).unwrap());
        assert!(config.socket.exists());
    });
    assert_eq!(live.get("/healthz").status, 200);
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let config = |change: fn(&mut ApiSection)| {
        let mut config = ApiSection {
            socket: file.clone(),
            ..ApiSection::default()
        };
        change(&mut config);
        config
    };
    assert!(refused(&config(|_| {})).contains("no socket; remove it"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert!(refused(&config(|it| it.socket_mode = "rw".into())).contains("api.socket_mode"));
    let error = refused(&config(|it| it.socket_group = Some("no-such-group".into())));
    assert!(
        error.contains("api.socket_group = \"no-such-group\""),
        "{error}"
    );
    let error = refused(&config(|it| {
        it.socket = format!("/tmp/{}", "x".repeat(200)).into()
    }));
    assert!(error.contains("api.socket"), "{error}");
    // A foreign server that is alive is not replaced either.
    let foreign = directory.path().join("foreign");
    let _alive = UnixListener::bind(&foreign).unwrap();
    let mut config = config(|_| {});
    config.socket = foreign;
    assert!(refused(&config).contains("another agent"));
}

#[test]
fn stopping_removes_the_socket_and_answers_what_was_asked() {
    let mut live = Live::start();
    let idle = live.connect();
    let begin = Instant::now();
    live.handle.take().unwrap().stop();
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(!live.config.socket.exists());
    drop(idle);
    // And another can start where it was.
    let again = api::serve(&live.config, live.board.clone(), live.store.clone()).unwrap();
    live.handle = Some(again);
    assert_eq!(live.get("/readyz").status, 200);
}

#[test]
fn tcp_asks_for_protection() {
    let directory = tempfile::tempdir().unwrap();
    let error = refused(&tcp_only("0.0.0.0:0"));
    assert!(
        error.contains("needs TLS; give api.certificate and api.key"),
        "{error}"
    );
    assert!(refused(&tcp_only("localhost")).contains("write ADDRESS:PORT"));
    let mut half = tcp_only("127.0.0.1:0");
    half.certificate = Some("/nowhere.pem".into());
    assert!(refused(&half).contains("give both"));
    let mut ca = tcp_only("127.0.0.1:0");
    ca.client_ca = Some("/nowhere.pem".into());
    assert!(refused(&ca).contains("api.client_ca needs TLS"));
    let mut unused = tcp_only("127.0.0.1:0");
    unused.tcp = None;
    unused.token_file = Some("/nowhere".into());
    assert!(refused(&unused).contains("api.token_file: has no effect without api.tcp"));
    let mut readable = tcp_only("127.0.0.1:0");
    readable.token_file = Some(token_file(directory.path(), 0o644));
    assert!(refused(&readable).contains("chmod 600"));
    let mut short = tcp_only("127.0.0.1:0");
    let path = token_file(directory.path(), 0o600);
    std::fs::write(&path, "short").unwrap();
    short.token_file = Some(path);
    assert!(refused(&short).contains("openssl rand -hex 32"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = refused(&tcp_only(&address));
    assert!(
        error.contains(&address) && error.contains("in use"),
        "{error}"
    );
}

#[test]
fn on_loopback_only_its_names_are_accepted() {
    let live = Live::with(|config, _| config.tcp = Some("127.0.0.1:0".into()));
    let ask = |host: &str| {
        let text = format!("GET /v1/node HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        exchange(live.connect_tcp(), text.as_bytes())
    };
    assert_eq!(ask("127.0.0.1:7070").status, 200);
    assert_eq!(ask("localhost").status, 200);
    let error = ask("rebound.example.org").error(421);
    assert!(error.contains("localhost"), "{error}");
    // Over the socket any name will do.
    assert_eq!(live.get("/v1/node").status, 200);
}

#[test]
fn a_token_is_asked_for_over_tcp() {
    let live = Live::with(|config, directory| {
        config.tcp = Some("127.0.0.1:0".into());
        config.token_file = Some(token_file(directory, 0o600));
    });
    let ask = |path: &str, header: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        exchange(live.connect_tcp(), format!("{head}{header}\r\n").as_bytes())
    };
    let missing = ask("/v1/node", "");
    assert_eq!(
        missing.header("www-authenticate"),
        Some("bearer realm=\"jostle\"")
    );
    assert!(missing.error(401).contains("Authorization: Bearer TOKEN"));
    let wrong = "authorization: Bearer 0123456789abcdef0123456789abcdeF\r\n";
    for path in ["/v1/node", "/v1/profiles/x", "/nowhere", "/v1/events"] {
        ask(path, wrong).error(401);
    }
    let right = format!("authorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask("/v1/node", &right).status, 200);
    assert_eq!(ask("/nowhere", &right).status, 404);
    // Probes carry no token.
    assert_eq!(ask("/healthz", "").status, 200);
    assert_eq!(ask("/readyz", "").status, 200);
    // The socket asks for none: its permissions say who may.
    assert_eq!(live.get("/v1/node").status, 200);
}
