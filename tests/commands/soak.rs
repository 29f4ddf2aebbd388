//! `scripts/soak`, for seconds: servers that bad clients keep busy still serve good ones, and
//! hold nothing when the bad ones have left. An hour of it is run by hand.

use crate::common::JOSTLE;
use crate::common::alone;
use crate::common::root;
use assert_cmd::Command;

#[test]
#[ignore = "full tier: takes long"]
fn servers_bear_bad_clients() {
    let _alone = alone();
    let output = Command::new("python3")
        .args(["scripts/soak", "--for", "10", "--quiet", "8", JOSTLE])
        .current_dir(root())
        .assert()
        .success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    for server in ["sink", "serve", "agent"] {
        let mut lines = text
            .lines()
            .filter(|line| line.contains(&format!("min {server}:")));
        let last = lines.next_back().unwrap();
        assert!(last.contains(", 0 failures, "), "{text}");
    }
}
