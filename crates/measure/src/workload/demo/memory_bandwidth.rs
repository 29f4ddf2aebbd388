//! `memory-bandwidth`: streams from memory.

use super::Demo;
use super::DemoContext;
use super::cache::stream;
use jostle_profile::resource::Resource;

pub const DEMO: Demo = Demo {
    name: "memory-bandwidth",
    needs: Some(Resource::MemoryBandwidth),
    alias: Some("memory"),
    about: "streams over a buffer far larger than the last-level cache",
    unit: "bytes",
    build: |context| Ok(stream(buffer_bytes(context), 512 << 10)),
    ..Demo::USUAL
};

/// Twice the LLC, at least 256 MiB, at most 1 GiB and an eighth of memory.
fn buffer_bytes(context: &DemoContext) -> usize {
    let wanted = (2 * context.llc_bytes).clamp(256 << 20, 1 << 30);
    wanted.min((context.memory_bytes / 8) as usize)
}
