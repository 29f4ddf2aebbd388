//! What a fuzzer calls: answers of servers in any cut.

use crate::protocol::Operation;
use crate::protocol::Parser;
use crate::protocol::Reply;
use crate::url::Kind;
use crate::url::Url;

/// Most answers that are read of one input.
const MOST_ANSWERS: usize = 1000;

/// The first byte of `data` says what is spoken and what was asked, the second how the
/// rest is cut. The answers must be the same in one piece and in pieces.
pub fn answers(data: &[u8]) {
    let [what, cut, bytes @ ..] = data else {
        return;
    };
    let kind = [Kind::Http, Kind::Redis, Kind::Memcached][usize::from(what % 3)];
    let operation = match kind {
        Kind::Http => [Operation::Fetch, Operation::Head][usize::from(what / 3 % 2)],
        Kind::Redis => {
            [Operation::Greet, Operation::Get, Operation::Set][usize::from(what / 3 % 3)]
        }
        Kind::Memcached => [Operation::Get, Operation::Set][usize::from(what / 3 % 2)],
    };
    let whole = read(kind, operation, bytes, bytes.len().max(1));
    let pieces = read(kind, operation, bytes, usize::from(*cut).max(1));
    assert_eq!(whole, pieces, "the cut changes the answers");
}

/// The answers in `bytes`, which come `cut` at a time, and whether it ended in an error.
fn read(kind: Kind, operation: Operation, bytes: &[u8], cut: usize) -> (Vec<Reply>, bool) {
    let mut parser = Parser::new(kind);
    let mut answers = Vec::new();
    let (mut done, mut here) = (0, 0);
    while answers.len() < MOST_ANSWERS {
        let Ok(parsed) = parser.advance(operation, &bytes[done..here]) else {
            return (answers, true);
        };
        done += parsed.consumed;
        assert!(done <= here, "more consumed than there was");
        let moved = parsed.consumed > 0 || parsed.answer.is_some();
        answers.extend(parsed.answer);
        match (moved, here == bytes.len()) {
            (true, _) => {}
            (false, false) => here = (here + cut).min(bytes.len()),
            (false, true) => break,
        }
    }
    answers.extend(parser.end());
    (answers, false)
}

/// An address of a server.
pub fn url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(url) = text.parse::<Url>() else {
        return;
    };
    let other = Url {
        password: Some("another".into()),
        ..url.clone()
    };
    assert_eq!(url.to_string(), other.to_string(), "the password is shown");
    let greeting = crate::protocol::greeting(&url);
    assert!(greeting.iter().all(|request| request.ends_with(b"\r\n")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_corpus_is_read_without_a_fault() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        for (name, run) in [("answers", answers as fn(&[u8])), ("url", url)] {
            let files: Vec<_> = std::fs::read_dir(corpus.join(name))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            assert!(!files.is_empty(), "{name} has no corpus");
            for file in files {
                run(&std::fs::read(file).unwrap());
            }
        }
    }
}
