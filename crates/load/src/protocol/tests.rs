//! Answers in any cut, and bytes that are none.

use super::shown;
use super::*;
use crate::failure::Failure;
use proptest::prelude::*;

/// Feeds `bytes` in pieces of the given lengths (repeated), as a connection
/// does; the answers, and what was wrong at last.
fn read(
    kind: Kind,
    operations: &[Operation],
    bytes: &[u8],
    cuts: &[usize],
) -> (Vec<Reply>, Option<ProtocolError>) {
    let mut parser = Parser::new(kind);
    let mut operations = operations.iter().copied().cycle();
    let mut operation = operations.next().unwrap();
    let mut answers = Vec::new();
    let (mut held, mut rest) = (Vec::new(), bytes);
    let mut cuts = cuts.iter().copied().cycle();
    while !rest.is_empty() {
        let cut = cuts.next().unwrap_or(1).clamp(1, rest.len());
        held.extend_from_slice(&rest[..cut]);
        rest = &rest[cut..];
        loop {
            let parsed = match parser.advance(operation, &held) {
                Ok(parsed) => parsed,
                Err(wrong) => return (answers, Some(wrong)),
            };
            held.drain(..parsed.consumed);
            let more = parsed.consumed > 0 || parsed.answer.is_some();
            if let Some(answer) = parsed.answer {
                answers.push(answer);
                operation = operations.next().unwrap();
            }
            if !more || held.is_empty() {
                break;
            }
        }
        // A line or a head is all that is ever kept.
        assert!(held.len() <= (64 << 10) + cut, "{}", held.len());
    }
    answers.extend(parser.end());
    (answers, None)
}

fn whole(
    kind: Kind,
    operations: &[Operation],
    bytes: &[u8],
) -> (Vec<Reply>, Option<ProtocolError>) {
    read(kind, operations, bytes, &[bytes.len()])
}

fn failed(failure: Failure, text: &str) -> Reply {
    Reply::Failed(failure, text.into())
}

const REDIS: &[u8] =
    b"$5\r\nhello\r\n+OK\r\n$-1\r\n-ERR no\r\n$0\r\n\r\n+OK\r\n$4\r\n\r\n\r\n\r\n+OK\r\n";
const MEMCACHED: &[u8] =
    b"VALUE k 0 5\r\nEND\r\n\r\nEND\r\nSTORED\r\nEND\r\nSERVER_ERROR out of memory\r\n";
const HTTP: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n\r\n5;x=1\r\nhello\r\na\r\n0123456789\r\n0\r\nX: y\r\n\r\nHTTP/1.1 503 Too Busy\r\ncontent-length: 0\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\nuntil the end";

/// What is spoken, what was asked in turn, the bytes, and what they mean.
type Sample = (Kind, Vec<Operation>, &'static [u8], Vec<Reply>);

fn samples() -> Vec<Sample> {
    use Reply::Missing;
    use Reply::Success;
    vec![
        (
            Kind::Redis,
            vec![Operation::Get, Operation::Set],
            REDIS,
            vec![
                Success,
                Success,
                Missing,
                failed(Failure::ErrorReply, "ERR no"),
                Success,
                Success,
                Success,
                Success,
            ],
        ),
        (
            Kind::Memcached,
            vec![Operation::Get, Operation::Set],
            MEMCACHED,
            vec![
                Success,
                Success,
                Missing,
                failed(Failure::ErrorReply, "SERVER_ERROR out of memory"),
            ],
        ),
        (
            Kind::Http,
            vec![Operation::Fetch],
            HTTP,
            vec![
                Success,
                Success,
                failed(Failure::Http5xx, "503 Too Busy"),
                Success,
                failed(Failure::Http4xx, "404 Not Found"),
            ],
        ),
    ]
}

#[test]
fn answers_are_read_whole_and_byte_by_byte() {
    for (kind, operations, bytes, expected) in samples() {
        assert_eq!(whole(kind, &operations, bytes), (expected.clone(), None));
        assert_eq!(read(kind, &operations, bytes, &[1]), (expected, None));
    }
}

#[test]
fn foreign_protocols_are_told_by_their_first_bytes() {
    let http = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    for (kind, operation, bytes) in [
        (Kind::Redis, Operation::Get, http.as_slice()),
        (Kind::Memcached, Operation::Get, http),
        (Kind::Redis, Operation::Get, b"ERROR\r\n"),
        (Kind::Memcached, Operation::Get, b"$-1\r\n"),
        (Kind::Http, Operation::Fetch, b"-ERR wrong\r\n"),
        (Kind::Http, Operation::Fetch, b"SSH-2.0-OpenSSH\r\n"),
    ] {
        let (answers, wrong) = whole(kind, &[operation], bytes);
        assert!(answers.is_empty());
        let text = wrong.expect("it is wrong").0;
        let first = shown(&bytes[..3]);
        assert!(text.contains(&first), "{text}");
    }
}

#[test]
fn answers_to_another_question_are_wrong() {
    for (kind, operation, bytes) in [
        (Kind::Redis, Operation::Get, b"+OK\r\n".as_slice()),
        (Kind::Redis, Operation::Set, b"$1\r\nx\r\n"),
        (Kind::Redis, Operation::Get, b"$-2\r\n"),
        (Kind::Redis, Operation::Get, b"$99999999999999999999\r\n"),
        (Kind::Redis, Operation::Get, b"$1\r\nxyz"),
        (Kind::Redis, Operation::Get, b"$1\n"),
        (Kind::Memcached, Operation::Get, b"STORED\r\n"),
        (Kind::Memcached, Operation::Set, b"END\r\n"),
        (Kind::Memcached, Operation::Get, b"VALUE k 0\r\n"),
        (Kind::Memcached, Operation::Get, b"VALUE k 0 1\r\nxVALUE"),
        (
            Kind::Http,
            Operation::Fetch,
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        ),
        (
            Kind::Http,
            Operation::Fetch,
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        ),
        (
            Kind::Http,
            Operation::Fetch,
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        ),
    ] {
        let (answers, wrong) = whole(kind, &[operation], bytes);
        assert!(answers.is_empty() && wrong.is_some(), "{}", shown(bytes));
    }
    // To HEAD a length is answered without a body.
    let heads = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 404 No\r\n\r\n";
    let (answers, wrong) = whole(Kind::Http, &[Operation::Head], heads);
    assert_eq!(wrong, None);
    let missing = failed(Failure::Http4xx, "404 No");
    assert_eq!(answers, [Reply::Success, missing]);
    // Endless lines and heads are not kept.
    let endless = [b"+".as_slice(), &[b'x'; 20_000]].concat();
    assert!(whole(Kind::Redis, &[Operation::Set], &endless).1.is_some());
    let endless = [b"HTTP/1.1 200 OK\r\nx: ".as_slice(), &[b'x'; 70_000]].concat();
    assert!(whole(Kind::Http, &[Operation::Fetch], &endless).1.is_some());
}

#[test]
fn requests_are_written_as_servers_read_them() {
    let write = |url: &str, operation| {
        let mut out = Vec::new();
        let spec = LoadSpec::new(url.parse().unwrap());
        Writer::new(&spec, 3).write(Request::of(operation, 42), &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        write("redis://h", Operation::Get),
        "*2\r\n$3\r\nGET\r\n$19\r\njostle:000000000042\r\n"
    );
    let set = write("redis://h", Operation::Set);
    let head = "*3\r\n$3\r\nSET\r\n$19\r\njostle:000000000042\r\n$3\r\n";
    assert_eq!(set.len(), head.len() + 3 + 2);
    assert!(set.starts_with(head) && set.ends_with("\r\n"));
    assert_eq!(
        write("memcached://h", Operation::Get),
        "get jostle:000000000042\r\n"
    );
    assert!(
        write("memcached://h", Operation::Set).starts_with("set jostle:000000000042 0 0 3\r\n")
    );
    assert_eq!(
        write("http://h:81/a?{key}=b", Operation::Fetch),
        "GET /a?42=b HTTP/1.1\r\nHost: h:81\r\nUser-Agent: jostle\r\n\r\n"
    );
    let url = "redis://me:secret@h/2".parse().unwrap();
    let said = greeting(&url).concat();
    assert_eq!(
        String::from_utf8(said).unwrap(),
        "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*1\r\n$4\r\nPING\r\n"
    );
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_answers(cuts in prop::collection::vec(1usize..40, 1..20)) {
        for (kind, operations, bytes, expected) in samples() {
            prop_assert_eq!(read(kind, &operations, bytes, &cuts), (expected, None));
        }
    }

    #[test]
    fn hostile_bytes_end_in_an_answer_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        from in 0usize..260,
        cuts in prop::collection::vec(1usize..90, 1..5),
    ) {
        for (kind, operations, good, _) in samples() {
            // A good start, so that the inner states are reached.
            let start = &good[..from.min(good.len())];
            let all = [start, &bytes].concat();
            let (answers, wrong) = read(kind, &operations, &all, &cuts);
            let (again, wrong_again) = whole(kind, &operations, &all);
            prop_assert_eq!(&answers, &again);
            prop_assert_eq!(wrong.is_some(), wrong_again.is_some());
        }
    }
}
