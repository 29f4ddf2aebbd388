//! `storage-capacity`: random reads from the device, past the page cache.

use super::Batch;
use super::Clock;
use super::Demo;
use super::DemoContext;
use super::below;
use super::random;
use super::scratch;
use super::scratch::Aligned;
use crate::error::Result;
use jostle_profile::resource::Resource;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

pub const DEMO: Demo = Demo {
    name: "storage-capacity",
    needs: Some(Resource::StorageCapacity),
    about: "random direct reads of 4 KiB from a scratch file of 256 MiB, one after the other (--scratch)",
    unit: "reads",
    clock: Clock::Wall,
    build,
    ..Demo::USUAL
};

const BLOCK: u64 = 4 << 10;
const BYTES: u64 = 256 << 20;

fn build(context: &DemoContext) -> Result<Batch> {
    let places = scratch::directories(context.scratch.as_deref());
    let file = scratch::create(&places, BYTES, true)?;
    let mut buffer = Aligned::new(BLOCK as usize);
    let mut state = 0x0123_4567_89ab_cdef;
    Ok(Box::new(move || {
        let block = below(random(&mut state), (BYTES / BLOCK) as usize) as u64;
        let read = file.read_exact_at(buffer.bytes(), block * BLOCK);
        black_box(buffer.bytes()[0]);
        u64::from(read.is_ok())
    }))
}
