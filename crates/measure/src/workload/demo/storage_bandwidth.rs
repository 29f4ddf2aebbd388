//! `storage-bandwidth`: reads from the device, past the page cache.

use super::Batch;
use super::Clock;
use super::Demo;
use super::DemoContext;
use super::scratch;
use super::scratch::Aligned;
use crate::error::Result;
use jostle_profile::resource::Resource;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

pub const DEMO: Demo = Demo {
    name: "storage-bandwidth",
    needs: Some(Resource::StorageBandwidth),
    alias: Some("storage"),
    about: "sequential direct reads of 256 KiB from a scratch file of 256 MiB (--scratch)",
    unit: "bytes",
    clock: Clock::Wall,
    build,
    ..Demo::USUAL
};

const BLOCK: u64 = 256 << 10;

fn build(context: &DemoContext) -> Result<Batch> {
    const BYTES: u64 = 256 << 20;
    let places = scratch::directories(context.scratch.as_deref());
    let file = scratch::create(&places, BYTES, true)?;
    let mut buffer = Aligned::new(BLOCK as usize);
    let mut position = 0;
    Ok(Box::new(move || {
        let read = file.read_exact_at(buffer.bytes(), position);
        black_box(buffer.bytes()[0]);
        position = (position + BLOCK) % BYTES;
        if read.is_ok() { BLOCK } else { 0 }
    }))
}
