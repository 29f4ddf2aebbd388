//! Serves made node states, to look at the dashboard or to load the API:
//! `cargo run --release --example agent_api -- 127.0.0.1:7070 [WORKLOADS]`. Ends when
//! standard input does.

#[cfg(feature = "server")]
#[path = "../tests/agent_api/made.rs"]
mod made;

#[cfg(feature = "server")]
fn main() {
    use jostle::agent::api;
    use jostle::agent::board::Board;
    use jostle::agent::config::ApiSection;
    use jostle::agent::store::Store;
    use jostle_profile::node::EventKind;
    use std::io::Read;
    use std::sync::Arc;
    use std::time::Duration;

    let mut arguments = std::env::args().skip(1);
    let config = ApiSection {
        socket: "".into(),
        tcp: Some(arguments.next().unwrap_or("127.0.0.1:7070".into())),
        ..ApiSection::default()
    };
    let workloads = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(6);
    let directory = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Store::open(directory.path(), 1).expect("a store"));
    let board = Arc::new(Board::default());
    let handle = api::serve(&config, board.clone(), store).expect("it can be served");
    eprintln!("http://{}/", handle.tcp_address().expect("TCP"));
    board.tell(EventKind::AgentStarted, None, "started");
    board.tell(EventKind::WorkloadAppeared, Some("gzip"), "appeared");
    board.tell(
        EventKind::CulpritFound,
        Some("redis.service"),
        "nightly-build slows it by 7 %",
    );
    let shown = board.clone();
    std::thread::spawn(move || {
        for refresh in 60.. {
            shown.publish(made::node(workloads, refresh));
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    for refresh in 0..60 {
        board.publish(made::node(workloads, refresh));
    }
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
    handle.stop();
}

#[cfg(not(feature = "server"))]
fn main() {
    eprintln!("needs the feature `server`");
}
