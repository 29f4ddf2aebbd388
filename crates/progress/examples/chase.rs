//! Follows pointers in random order and publishes how many: a program of which the
//! speed and the working set are known, to try measurements on.
//!
//! `chase [--kib 600] [--extra 0] [--fsync-every 0] [--loads 0]`: the working set;
//! loads per thousand that are done and not counted, so that 10 makes it 1 % slower;
//! milliseconds from one synchronous write to the next, 0 for none; loads after which
//! it ends, 0 for never.

use jostle_progress::Progress;
use std::fs::File;
use std::io::Write;
use std::time::Duration;
use std::time::Instant;

/// Bytes that the processor fetches at once, and words of 8 bytes in them.
const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = LINE_BYTES / 8;
/// Loads that are published at once: about 20 µs of them.
const BATCH: u64 = 2000;

fn main() {
    let mut options = [
        ("--kib", 600),
        ("--extra", 0),
        ("--fsync-every", 0),
        ("--loads", 0),
    ];
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let option = options.iter_mut().find(|(name, _)| *name == word);
        let number = words.next().and_then(|number| number.parse().ok());
        match (option, number) {
            (Some((_, value)), Some(number)) => *value = number,
            _ => {
                eprintln!("chase [--kib 600] [--extra 0] [--fsync-every 0] [--loads 0]");
                std::process::exit(2);
            }
        }
    }
    let [kib, extra, fsync_every, loads] = options.map(|(_, value): (&str, u64)| value);
    let every = Duration::from_millis(fsync_every);
    let next = cycle(kib as usize * 1024 / LINE_BYTES);
    let progress = Progress::open();
    let per_batch = BATCH + BATCH * extra / 1000;
    let mut scratch = match fsync_every {
        0 => None,
        _ => tempfile(),
    };
    let (mut at, mut done, mut written) = (0, 0, Instant::now());
    while loads == 0 || done < loads {
        for _ in 0..per_batch {
            at = next[at] as usize;
        }
        done += BATCH;
        progress.add(BATCH);
        if let Some(file) = &mut scratch
            && written.elapsed() >= every
        {
            let _ = file.write_all(&[0; 4096]).and_then(|()| file.sync_data());
            written = Instant::now();
        }
    }
    std::hint::black_box(at);
}

/// A file without a name.
fn tempfile() -> Option<File> {
    let path = std::env::temp_dir().join(format!("chase-{}", std::process::id()));
    let file = File::create(&path).ok()?;
    let _ = std::fs::remove_file(path);
    Some(file)
}

/// One word per line, which says where the next line begins: all lines in one circle
/// of random order.
fn cycle(lines: usize) -> Vec<u64> {
    let lines = lines.max(2);
    let mut order: Vec<usize> = (0..lines).collect();
    let mut state = 88_172_645_463_325_252u64;
    for last in (1..lines).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, state as usize % (last + 1));
    }
    let mut next = vec![0; lines * LINE_WORDS];
    for (place, line) in order.iter().enumerate() {
        let following = order[(place + 1) % lines];
        next[line * LINE_WORDS] = (following * LINE_WORDS) as u64;
    }
    next
}
