//! `memory-capacity`: reads through the page cache, and so needs memory to
//! stay free for it.

use super::Batch;
use super::Clock;
use super::Demo;
use super::DemoContext;
use super::below;
use super::random;
use super::scratch;
use crate::error::Error;
use crate::error::Result;
use jostle_profile::resource::Resource;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::Duration;

pub const DEMO: Demo = Demo {
    name: "memory-capacity",
    needs: Some(Resource::MemoryCapacity),
    about: "40 000 random 64 KiB reads/s from a file that the page cache holds (--size, 1 GiB)",
    unit: "reads",
    clock: Clock::Wall,
    pace: Some(Duration::from_micros(100)),
    build,
    ..Demo::USUAL
};

/// Large enough that a file comes back into the cache within a second or two
/// of memory being free again; random, so that readahead does not hide misses.
const BLOCK: u64 = 64 << 10;
const READS: u64 = 4;

fn build(context: &DemoContext) -> Result<Batch> {
    let bytes = context.size_bytes.unwrap_or(1 << 30);
    if bytes < BLOCK || bytes > context.memory_bytes / 2 {
        return Err(Error::request(format!(
            "--size {}: give MiB between 1 and half of memory ({})",
            bytes >> 20,
            context.memory_bytes >> 21
        )));
    }
    let bytes = bytes / BLOCK * BLOCK;
    let places = scratch::directories(context.scratch.as_deref());
    let file = scratch::create(&places, bytes, false)?;
    // Clean pages can be dropped at once, as those of a file that is only read.
    file.sync_all()
        .map_err(|error| Error::environment(format!("cannot write the scratch file: {error}")))?;
    let mut buffer = vec![0; BLOCK as usize];
    let mut state = 0x1357_9bdf_0246_8ace;
    Ok(Box::new(move || {
        let mut done = 0;
        for _ in 0..READS {
            let block = below(random(&mut state), (bytes / BLOCK) as usize) as u64;
            if file.read_exact_at(&mut buffer, block * BLOCK).is_ok() {
                done += 1;
            }
            black_box(buffer[0]);
        }
        done
    }))
}
