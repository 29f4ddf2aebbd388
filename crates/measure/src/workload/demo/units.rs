//! `int`, `fp`, `vector`, `interconnect`, `network-bandwidth`: programs that do
//! without a break what the source of that resource does.

use super::Batch;
use super::Clock;
use super::Demo;
use super::DemoContext;
use crate::error::Error;
use crate::error::Result;
use jostle_host::sys::cpus;
use jostle_kernels::Environment;
use jostle_kernels::Failure;
use jostle_kernels::Kernel;
use jostle_kernels::network::NO_PEER;
use jostle_profile::resource::Resource;

/// Lives in registers and keeps all integer units busy.
pub const INT: Demo = Demo {
    name: "int",
    needs: Some(Resource::Int),
    about: "independent integer operations in registers, as many at a time as the core has units",
    unit: "operations",
    build: |_| units(Resource::Int),
    ..Demo::USUAL
};

/// The same with scalar floating-point numbers.
pub const FP: Demo = Demo {
    name: "fp",
    needs: Some(Resource::Fp),
    about: "independent scalar multiplications and additions in registers",
    unit: "operations",
    build: |_| units(Resource::Fp),
    ..Demo::USUAL
};

/// The same with the widest registers.
pub const VECTOR: Demo = Demo {
    name: "vector",
    needs: Some(Resource::Vector),
    about: "independent operations on the widest SIMD registers",
    unit: "operations",
    build: |_| units(Resource::Vector),
    ..Demo::USUAL
};

/// Needs two CPUs and the way between them.
pub const INTERCONNECT: Demo = Demo {
    name: "interconnect",
    needs: Some(Resource::Interconnect),
    cpus: 2,
    about: "passes cache lines back and forth between the CPUs it is given, two at least",
    unit: "messages",
    clock: Clock::Wall,
    build: build_interconnect,
    ..Demo::USUAL
};

/// Sends to the same peer as the source.
pub const NETWORK_BANDWIDTH: Demo = Demo {
    name: "network-bandwidth",
    needs: Some(Resource::NetworkBandwidth),
    alias: Some("network"),
    about: "sends to the sink named with --peer as fast as it takes it",
    unit: "bytes",
    clock: Clock::Wall,
    build: build_network,
    ..Demo::USUAL
};

fn units(resource: Resource) -> Result<Batch> {
    let mut kernel = kernel(resource, &Environment::default())?;
    Ok(Box::new(move || kernel.work().unwrap_or(0)))
}

fn build_interconnect(_context: &DemoContext) -> Result<Batch> {
    let cpus = cpus::affinity(0)
        .map_err(|error| Error::environment(format!("cannot read the CPUs to run on: {error}")))?;
    // This thread is the first of them.
    if let Some(&first) = cpus.first() {
        cpus::set_affinity(0, &[first])
            .map_err(|error| Error::environment(format!("cannot keep to CPU {first}: {error}")))?;
    }
    let environment = Environment {
        cpus,
        ..Environment::default()
    };
    let mut kernel = kernel(Resource::Interconnect, &environment)?;
    Ok(Box::new(move || kernel.work().unwrap_or(0)))
}

fn build_network(context: &DemoContext) -> Result<Batch> {
    if context.network.is_none() {
        return Err(Error::request(format!(
            "the network-bandwidth demo: {NO_PEER}"
        )));
    }
    let environment = Environment {
        network: context.network.clone(),
        ..Environment::default()
    };
    let mut kernel = kernel(Resource::NetworkBandwidth, &environment)?;
    let mut arrived = 0;
    Ok(Box::new(move || {
        let sent = kernel.work();
        let now = kernel.confirmed().unwrap_or(0).max(arrived);
        let more = now - std::mem::replace(&mut arrived, now);
        if sent.is_err() {
            // The peer is gone; what polls it must not spin.
            std::thread::sleep(super::harness::PATIENCE);
        }
        more
    }))
}

/// The source of `resource`, in force.
fn kernel(resource: Resource, environment: &Environment) -> Result<Box<dyn Kernel>> {
    let spec = jostle_kernels::source(resource);
    let refuse =
        |failure: Failure| Error::environment(format!("the {resource} demo: {}", failure.0));
    let mut kernel = (spec.build)(environment).map_err(refuse)?;
    kernel.set_intensity(100.0);
    Ok(kernel)
}
