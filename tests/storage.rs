//! The storage sources end to end: what they reach, what carries them, and
//! what they say where they cannot work.

mod common;

use crate::common::JOSTLE;
use crate::common::alone;
use crate::common::near;
use crate::common::once_of_three;
use crate::common::skip::have;
use crate::common::skip::skip;
use assert_cmd::Command;
use jostle_host::inject::pattern;
use jostle_kernels::Environment;
use jostle_kernels::Failure;
use jostle_kernels::storage::pattern::Access;
use jostle_kernels::storage::pattern::Operation;
use jostle_kernels::storage::pattern::Transition;
use jostle_profile::resource::Resource;
use nix::sched::CloneFlags;
use nix::sched::unshare;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

const MAIL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/patterns/mail.toml");

/// Runs `jostle run` for a moment; its JSON, or its exit code and complaint.
fn run(process: std::process::Command, arguments: &[&str]) -> Result<Value, (i32, String)> {
    let mut process = process;
    process
        .arg("run")
        .args(arguments)
        .args(["--for", "700ms", "--json"])
        .stdin(Stdio::null());
    let output = Command::from_std(process)
        .timeout(Duration::from_secs(60))
        .output()
        .expect("jostle starts");
    match output.status.code() {
        Some(0) => Ok(serde_json::from_slice(&output.stdout).expect("one JSON document")),
        code => Err((
            code.unwrap_or(-1),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )),
    }
}

fn jostle() -> std::process::Command {
    std::process::Command::new(JOSTLE)
}

/// A directory here; `None`, said with the reason, where it takes no direct I/O.
fn disk() -> Option<TempDir> {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    have("direct-io", scratch(directory.path(), 1 << 20)).map(|()| directory)
}

/// What the source itself says to a scratch file of `bytes` in `directory`.
fn scratch(directory: &Path, bytes: u64) -> Result<(), String> {
    let environment = Environment {
        scratch_directory: Some(directory.to_path_buf()),
        scratch_bytes: bytes,
        ..Environment::default()
    };
    let spec = jostle_kernels::source(Resource::StorageCapacity);
    (spec.build)(&environment)
        .map(drop)
        .map_err(|Failure(reason)| reason)
}

fn number(outcome: &Value, key: &str) -> f64 {
    outcome[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} in {outcome}"))
}

#[test]
fn both_sources_reach_what_is_asked() {
    let Some(directory) = disk() else {
        return;
    };
    let _alone = alone();
    let asked = |source: &'static str, more: &[&str]| {
        let scratch = directory.path().to_str().unwrap();
        let base = [source, "--intensity", "40", "--scratch", scratch];
        let size = ["--scratch-size", "16MiB"];
        run(jostle(), &[&base[..], &size, more].concat()).unwrap()
    };
    let held = asked("storage-capacity", &[]);
    assert!(
        (number(&held, "achieved_percent") - 40.0).abs() < 0.1,
        "every segment of the share and no other: {held}"
    );
    assert!(number(&held, "requests_per_second") > 0.0);
    for pattern in ["sequential", "random", "mail", MAIL] {
        let chain = pattern::load(pattern).unwrap();
        let block = chain.mean(|kind| f64::from(kind.block_bytes));
        once_of_three(pattern, || {
            let paced = asked("storage-bandwidth", &["--storage-pattern", pattern]);
            let engine = paced["engine"].as_str().unwrap_or_default();
            assert!(!engine.is_empty(), "{paced}");
            let bytes = number(&paced, "transferred_bytes_per_second");
            let measured = bytes / number(&paced, "requests_per_second");
            near(measured / block, 0.9, 1.1)?;
            // Outside of the time given up as late it keeps to what was asked.
            let behind = number(&paced, "behind_percent");
            near(behind, 0.0, 90.0)?;
            let kept = 1.0 - behind / 100.0;
            near(number(&paced, "achieved_percent") / kept, 20.0, 60.0)
        });
    }
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 0, "the scratch files have no names");
}

/// Refuses io_uring_setup as container runtimes do.
fn refuse_io_uring(process: &mut std::process::Command) {
    let statement = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let program = [
        // The number of the system call is the first word.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        statement(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_ptr().cast_mut(),
        };
        // SAFETY: the program is valid, ends, and outlives the calls.
        let status = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter)
        };
        match status {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: two system calls on plain data, nothing else, between fork and exec.
    unsafe { process.pre_exec(install) };
}

#[test]
fn without_io_uring_threads_do_the_work_and_it_is_said() {
    let Some(directory) = disk() else {
        return;
    };
    let _alone = alone();
    for source in ["storage-bandwidth", "storage-capacity"] {
        let mut process = jostle();
        refuse_io_uring(&mut process);
        let scratch = directory.path().to_str().unwrap();
        let base = [source, "--intensity", "100", "--scratch", scratch];
        let outcome = run(process, &[&base[..], &["--scratch-size", "8MiB"]].concat()).unwrap();
        let engine = outcome["engine"].as_str().unwrap();
        assert!(
            engine.contains("threads") && engine.contains("seccomp"),
            "{engine}"
        );
        assert!(number(&outcome, "requests_per_second") > 0.0);
    }
}

/// File systems of the calling thread alone, gone when it ends. `None`, said
/// with the reason, where that is not allowed.
fn own_mounts() -> Option<TempDir> {
    let unshared = unshare(CloneFlags::CLONE_NEWNS).map_err(|error| error.to_string());
    have(
        "mounts",
        unshared.and_then(|()| shell("mount --make-rprivate /")),
    )?;
    Some(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
}

fn shell(script: &str) -> Result<(), String> {
    let output = std::process::Command::new("sh")
        .args(["-ec", script])
        .output()
        .map_err(|error| format!("sh: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Mounts a new ext4 of 16 MiB with `options` on `mnt` in `directory`.
fn ext4(directory: &Path, options: &str) -> bool {
    let script = format!(
        "cd {}; mkdir -p mnt; truncate -s 16M disk; mkfs.ext4 -q -m 0 -F disk; \
         mount -o loop,{options} disk mnt",
        directory.display()
    );
    have("mounts", shell(&script)).is_some()
}

fn refused(directory: &Path, size: &str, words: &[&str]) {
    let scratch = directory.to_str().unwrap();
    let base = [
        "storage-capacity",
        "--intensity",
        "10",
        "--scratch",
        scratch,
    ];
    let (code, text) = run(jostle(), &[&base[..], &["--scratch-size", size]].concat()).unwrap_err();
    assert_eq!(code, 3, "{text}");
    for word in words {
        assert!(text.contains(word), "'{word}' in: {text}");
    }
}

#[test]
fn memory_is_no_disk() {
    let Some(place) = own_mounts() else {
        return;
    };
    let mount = format!("mount -t tmpfs -o size=8m none {}", place.path().display());
    if have("mounts", shell(&mount)).is_none() {
        return;
    }
    refused(place.path(), "2MiB", &["tmpfs", "--scratch"]);
    let reason = scratch(place.path(), 2 << 20).unwrap_err();
    assert!(
        reason.contains("tmpfs") && reason.contains("--scratch"),
        "{reason}"
    );
}

#[test]
fn a_read_only_file_system_is_named() {
    let Some(place) = own_mounts() else {
        return;
    };
    if !ext4(place.path(), "ro") {
        return;
    }
    let mnt = place.path().join("mnt");
    refused(&mnt, "2MiB", &["read-only", "--scratch"]);
    let reason = scratch(&mnt, 2 << 20).unwrap_err();
    assert!(
        reason.contains("read-only") && reason.contains("--scratch"),
        "{reason}"
    );
}

#[test]
fn a_full_file_system_is_named() {
    let Some(place) = own_mounts() else {
        return;
    };
    if !ext4(place.path(), "rw") {
        return;
    }
    let mnt = place.path().join("mnt");
    scratch(&mnt, 2 << 20).expect("there is room for this one");
    // More than there is, by which the check before the start was passed.
    let reason = scratch(&mnt, 64 << 20).unwrap_err();
    assert!(
        reason.contains("no space") && reason.contains("--scratch-size"),
        "{reason}"
    );
    // Blocks of a file that is gone are free only after the journal's commit.
    let fill = "for i in 1 2 3 4 5; do sync; dd if=/dev/zero of=ballast$i bs=4k conv=fsync \
                2>/dev/null || true; sleep 0.2; done";
    shell(&format!("cd {}; {fill}", mnt.display())).unwrap();
    refused(&mnt, "2MiB", &["free", "--scratch"]);
    let reason = scratch(&mnt, 1 << 20).unwrap_err();
    assert!(reason.contains("no space"), "{reason}");
    assert_eq!(
        std::fs::read_dir(&mnt)
            .unwrap()
            .filter(|entry| entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("jostle"))
            .count(),
        0
    );
}

#[test]
fn a_file_system_without_direct_io_is_named() {
    let Some(place) = own_mounts() else {
        return;
    };
    // ext4 that journals its data takes O_DIRECT and does not do it.
    if !ext4(place.path(), "data=journal") {
        return;
    }
    match scratch(&place.path().join("mnt"), 2 << 20) {
        Err(reason) => {
            assert!(
                reason.contains("no direct I/O") && reason.contains("--scratch"),
                "{reason}"
            );
        }
        Ok(()) => skip("direct-io", "this kernel does not tell (statx before 6.1)"),
    }
}

#[test]
fn a_quota_that_is_too_small_is_named() {
    let Some(directory) = disk() else {
        return;
    };
    refused(directory.path(), "512KiB", &["too small", "--scratch-size"]);
    let narrow = directory.path().join("narrow.toml");
    std::fs::write(&narrow, SMALL.replace("[0, 100]", "[0, 0.1]")).unwrap();
    let scratch = directory.path().to_str().unwrap();
    let (code, text) = run(
        jostle(),
        &[
            "storage-bandwidth",
            "--intensity",
            "10",
            "--scratch",
            scratch,
            "--scratch-size",
            "1MiB",
            "--storage-pattern",
            narrow.to_str().unwrap(),
        ],
    )
    .unwrap_err();
    assert_eq!(code, 3, "{text}");
    for word in ["narrow.toml", "'all'", "range_percent", "--scratch-size"] {
        assert!(text.contains(word), "'{word}' in: {text}");
    }
}

/// A pattern to spoil.
const SMALL: &str = r#"
[[state]]
name = "all"
range_percent = [0, 100]

[[transition]]
from = "all"
to = "all"
probability = 1
block_bytes = 4096
operation = "read"
access = "random"
inter_arrival_us = 100
"#;

#[test]
fn a_bad_pattern_names_file_line_and_fix() {
    pattern::parse("good.toml", SMALL).unwrap();
    let second = "\n[[state]]\nname = \"more\"\nrange_percent = [50, 60]\n";
    let apart = "\n[[state]]\nname = \"more\"\nrange_percent = [60, 70]\n\n[[transition]]\n\
                 from = \"more\"\nto = \"more\"\nprobability = 1\nblock_bytes = 4096\n\
                 operation = \"read\"\naccess = \"random\"\ninter_arrival_us = 1\n";
    let halved = SMALL.replace("100]", "50]");
    let cases: Vec<(String, Option<usize>, &[&str])> = vec![
        (String::new(), None, &["no state", "[[state]]"]),
        ("seed = -1".into(), Some(1), &["0 or more"]),
        (
            SMALL.replace("= 1\n", "= 0.9\n"),
            Some(9),
            &["probability", "'all'", "0.9", "sum to 1"],
        ),
        (
            SMALL.replace("= 1\n", "= -1\n"),
            Some(9),
            &["probability = -1", "from 0 to 1"],
        ),
        (
            SMALL.replace("= 1\n", "= nan\n"),
            Some(9),
            &["probability = NaN"],
        ),
        (
            SMALL.replace("us = 100", "us = -5"),
            Some(13),
            &["inter_arrival_us = -5", "0 or more"],
        ),
        (
            SMALL.replace("us = 100", "us = nan"),
            Some(13),
            &["inter_arrival_us = NaN"],
        ),
        (
            SMALL.replace("us = 100", "us = inf"),
            Some(13),
            &["inter_arrival_us = inf"],
        ),
        (
            SMALL.replace("us = 100", "us = 0"),
            Some(13),
            &["inter_arrival_us", "above 0"],
        ),
        (
            SMALL.replace("us = 100", "us = \"1ms\""),
            Some(13),
            &["expected a number"],
        ),
        (
            SMALL.replace("[0, 100]", "[0, 101]"),
            Some(4),
            &["range_percent", "0 to 100"],
        ),
        (
            SMALL.replace("[0, 100]", "[-1, 50]"),
            Some(4),
            &["range_percent"],
        ),
        (
            SMALL.replace("[0, 100]", "[50, 50]"),
            Some(4),
            &["smaller first"],
        ),
        (
            SMALL.replace("[0, 100]", "[nan, 50]"),
            Some(4),
            &["range_percent"],
        ),
        (format!("{SMALL}{second}"), Some(17), &["overlaps", "'all'"]),
        (
            format!("{SMALL}{second}").replace("more", "all"),
            Some(16),
            &["two states named 'all'"],
        ),
        (
            format!("{halved}{second}"),
            None,
            &["no transition leaves state 'more'"],
        ),
        (
            format!("{halved}{apart}"),
            None,
            &["from 'all' no transitions lead to 'more'"],
        ),
        (
            SMALL.replace("to = \"all\"", "to = \"al\""),
            Some(8),
            &["to = \"al\"", "there are all"],
        ),
        (
            SMALL.replace("4096", "4000"),
            Some(10),
            &["block_bytes = 4000", "multiple of 512"],
        ),
        (SMALL.replace("4096", "0"), Some(10), &["block_bytes = 0"]),
        (
            SMALL.replace("4096", "1073741824"),
            Some(10),
            &["block_bytes"],
        ),
        (
            SMALL.replace("\"read\"", "\"erase\""),
            Some(11),
            &["erase", "read", "write"],
        ),
        (
            format!("{SMALL}spread = 0.2\n"),
            Some(14),
            &["spread", "normal", "remove it"],
        ),
        (
            format!("{SMALL}arrival = \"gamma\"\n"),
            Some(13),
            &["add spread"],
        ),
        (
            format!("{SMALL}arrival = \"normal\"\nspread = 0.5\n"),
            Some(15),
            &["spread = 0.5", "at most 0.34"],
        ),
        (SMALL.replace("access", "acess"), None, &["acess"]),
        (
            SMALL.replace("access = \"random\"\n", ""),
            None,
            &["access"],
        ),
        (SMALL.replace("[[state]]", "[state]"), None, &["[[state]]"]),
        ("[[state]".into(), Some(1), &[]),
    ];
    for (text, line, words) in cases {
        let error = pattern::parse("bad.toml", &text).expect_err(&text);
        let said = error.to_string();
        assert!(said.starts_with("bad.toml"), "{said}");
        if line.is_some() {
            assert_eq!(error.line, line, "{said}");
        }
        for word in words {
            assert!(said.contains(word), "'{word}' in: {said}");
        }
    }
    let missing = [
        "storage-bandwidth",
        "--intensity",
        "1",
        "--storage-pattern",
        "maul",
    ];
    let (code, text) = run(jostle(), &missing).unwrap_err();
    assert_eq!(code, 2, "{text}");
    for word in ["--storage-pattern", "maul", "sequential, random, mail"] {
        assert!(text.contains(word), "'{word}' in: {text}");
    }
}

#[test]
fn mail_is_what_its_file_says() {
    let built_in = pattern::load("mail").unwrap();
    let mut from_file = pattern::load(MAIL).unwrap();
    from_file.name = built_in.name.clone();
    assert_eq!(from_file, built_in);
    assert!(built_in.states.len() > 2);
    let share = |of: &dyn Fn(Operation, Access) -> bool| {
        built_in.mean(|kind| f64::from(u8::from(of(kind.operation, kind.access))))
    };
    let reads = share(&|operation, _| operation == Operation::Read);
    let ratio = reads / (1.0 - reads);
    assert!((2.7..2.9).contains(&ratio), "{ratio} reads to a write");
    let random = share(&|_, access| access == Access::Random);
    assert!((0.88..0.92).contains(&random), "{random} at random");
    for kind in &built_in.transitions {
        assert!((4096..=65536).contains(&kind.block_bytes));
    }
}

/// Reads that jump over a disk of 1 GiB, 2 ms apart, as blkparse prints them.
fn recorded(device: &str, count: u64) -> String {
    let line = |number: u64| {
        let (seconds, sector) = (number as f64 * 0.002, number * 40_507 % 262_144 * 8);
        format!("  {device} 1 {number} {seconds:.9} 697  Q   R {sector} + 8 [dd]\n")
    };
    (0..count).map(line).collect()
}

#[test]
fn a_pattern_is_fitted_to_a_trace() {
    let place = TempDir::new().unwrap();
    let trace = place.path().join("trace.txt");
    let out = place.path().join("fitted.toml");
    std::fs::write(&trace, recorded("8,0", 5000)).unwrap();
    let fit = |options: &[&str]| {
        let mut command = Command::new(JOSTLE);
        command.args(["pattern", "fit"]).arg(&trace).args(options);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), text)
    };
    let (code, said) = fit(&["--out", out.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("16 ranges"), "{said}");
    let fitted = pattern::load(out.to_str().unwrap()).unwrap();
    let block = |kind: &Transition| kind.block_bytes;
    assert!(
        fitted
            .transitions
            .iter()
            .map(block)
            .all(|bytes| bytes == 4096)
    );
    let mean_us = fitted.mean(|kind| kind.inter_arrival_us);
    assert!((mean_us - 2000.0).abs() < 1.0, "{mean_us}");
    let mut kinds = fitted.transitions.iter();
    assert!(kinds.all(|kind| kind.operation == Operation::Read));

    let two = recorded("8,0", 200) + &recorded("8,16", 200);
    for (text, options, words) in [
        (two.clone(), &[][..], ["--device", "8,16 (200 I/Os)"]),
        (two, &["--device", "9,9"][..], ["9,9", "8,0 (200 I/Os)"]),
        (recorded("8,0", 7), &[][..], ["holds 7 I/Os", "100"]),
        ("no trace\n".into(), &[][..], ["--format", "blkparse"]),
    ] {
        std::fs::write(&trace, text).unwrap();
        let (code, said) = fit(options);
        assert_eq!(code, Some(2), "{said}");
        for word in words {
            assert!(said.contains(word) && said.contains("trace.txt"), "{said}");
        }
    }
}
