//! `storage-bandwidth`: reads from the device, past the page cache.

use super::Batch;
use super::Clock;
use super::Demo;
use super::DemoContext;
use super::harness::PATIENCE;
use super::scratch;
use super::scratch::Aligned;
use crate::error::Error;
use crate::error::Result;
use jostle_profile::resource::Resource;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::thread;

pub const DEMO: Demo = Demo {
    name: "storage-bandwidth",
    needs: Some(Resource::StorageBandwidth),
    alias: Some("storage"),
    about: "sequential direct reads of 512 KiB, four in flight, from a scratch file of 256 MiB \
            (--scratch)",
    unit: "bytes",
    clock: Clock::Wall,
    build,
    ..Demo::USUAL
};

/// Of a request, as the source's.
const BLOCK: u64 = 512 << 10;
/// In flight, as the source's: with fewer a disk does not reach its peak.
const REQUESTS: usize = 4;

fn build(context: &DemoContext) -> Result<Batch> {
    const BYTES: u64 = 256 << 20;
    let places = scratch::directories(context.scratch.as_deref());
    let file = Arc::new(scratch::create(&places, BYTES, true)?);
    let (ended, completions) = channel();
    let readers = (0..REQUESTS).map(|index| {
        let (file, ended) = (file.clone(), ended.clone());
        reader(file, move |read| ended.send((index, read)).is_ok())
    });
    let readers: Vec<Sender<u64>> = readers.collect::<Result<_>>()?;
    let mut position = 0;
    let mut send = move |index: usize| {
        let alive = readers[index].send(position).is_ok();
        position = (position + BLOCK) % BYTES;
        alive
    };
    (0..REQUESTS).all(&mut send);
    Ok(Box::new(move || match completions.recv() {
        Ok((index, true)) if send(index) => BLOCK,
        Ok((index, false)) if send(index) => 0,
        _ => {
            thread::sleep(PATIENCE);
            0
        }
    }))
}

/// Reads where it is told to, one block after the other, and tells whether that went
/// well. It ends with whoever tells it.
fn reader(file: Arc<File>, ended: impl Fn(bool) -> bool + Send + 'static) -> Result<Sender<u64>> {
    let (sender, places) = channel();
    let mut buffer = Aligned::new(BLOCK as usize);
    let read = move || {
        for place in places {
            let read = file.read_exact_at(buffer.bytes(), place).is_ok();
            black_box(buffer.bytes()[0]);
            if !ended(read) {
                break;
            }
        }
    };
    let started = thread::Builder::new().name("reader".into()).spawn(read);
    started.map_err(|error| Error::environment(format!("cannot start a reader: {error}")))?;
    Ok(sender)
}
