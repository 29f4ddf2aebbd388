//! `cpu-time`: being there.

use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::Waiting;
use crate::spin::spin;
use jostle_profile::resource::Resource;

pub const SPEC: KernelSpec = KernelSpec {
    waiting: Waiting::Sleep,
    operation: "about 5 µs of spinning",
    units_per_operation: 0,
    operations_per_call: 1,
    doc: "Takes x % of one CPU's time, in slices of the calibrated period, spinning in \
          registers at ordinary priority. The placebo wakes as often and goes back to \
          sleep at once. Beside a target that wants the whole CPU the scheduler grants \
          each its fair share, so what is achieved levels off near 50 %; the achieved \
          share is reported. It says nothing about any cache or unit.",
    ..KernelSpec::of(Resource::CpuTime, build)
};

struct CpuTime;

fn build(_: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    Ok(Box::new(CpuTime))
}

impl Kernel for CpuTime {
    fn work(&mut self) -> Result<u64, Failure> {
        spin(100);
        Ok(1)
    }
}
