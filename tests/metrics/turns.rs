//! What a worker reads of a target whose CPU it shares.

use crate::common::compiled;
use crate::common::near;
use crate::common::once_of_three;
use crate::counted::missing;
use crate::support::program;
use crate::support::start_on;
use jostle_host::inject::WorkerGroup;
use jostle_host::inject::plan::Limits;
use jostle_host::inject::plan::plan;
use jostle_host::inject::worker::Slices;
use jostle_host::machine::Machine;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::control_page::Order;
use jostle_host::sys::tape::PlannedBlock;
use jostle_host::sys::tape::Turn;
use jostle_measure::metric::Metric;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use jostle_profile::resource::Resource;
use std::time::Duration;
use std::time::Instant;

const PERIOD: Duration = Duration::from_micros(500);
const PERIODS: u32 = 400;

fn placebo(cpu: usize) -> WorkerGroup {
    let limits = Limits {
        cpus: vec![cpu],
        memory_bytes: 1 << 30,
        most_filled_bytes: None,
        memory_reserve_bytes: 512 << 20,
        scratch: Err("not used".into()),
        scratch_bytes: 0,
        network: None,
        storage_pattern: Default::default(),
        llc_bytes: None,
        access: jostle_kernels::Access::Load,
        max_stall_percent: 80.0,
    };
    let slices = Slices::usual(PERIOD);
    let plan = plan(
        &Machine::detect(),
        Resource::CpuTime,
        &[cpu],
        &limits,
        slices,
    );
    WorkerGroup::spawn(plan.unwrap(), Duration::from_secs(60)).unwrap()
}

/// The turns of one block of the placebo.
fn play(group: &WorkerGroup, metric: &mut dyn Metric, target: &mut Target) -> Vec<Turn> {
    metric.follow(target).unwrap();
    let source = metric.turns().expect("its resolution is the turn");
    let (host, index) = group.hosts().next().unwrap();
    host.watch(source.version, &source.readable).unwrap();
    let block = PlannedBlock {
        busy: false,
        source: index,
        order: Order::Control,
        begin_ns: monotonic_ns() + 100_000_000,
        periods: PERIODS,
        period_ns: PERIOD.as_nanos() as u64,
    };
    host.tape.plan(block).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !host.tape.is_over() {
        assert!(Instant::now() < deadline, "the block is not played");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(host.tape.sees(), Some(true));
    host.tape.take()
}

/// Starts `spec` beside a placebo, and holds what the worker read of it against
/// what the profiler read of the same stretch.
fn worker_reads_what_the_profiler_reads(spec: &TargetSpec, name: &str) {
    jostle_measure::workload::set_executable(env!("CARGO_BIN_EXE_jostle"));
    let cpu = Machine::detect().allowed_cpus[0];
    let group = placebo(cpu);
    let options = MetricOptions::default();
    let (mut target, mut metric) = start_on(spec, Some(name), &options, Some(&[cpu])).unwrap();
    once_of_three(name, || {
        metric.begin(&mut target).unwrap();
        let turns = play(&group, &mut *metric, &mut target);
        let rate = metric.end(&mut target).unwrap();
        let by_cpu_time = metric.turns().unwrap().by_cpu_time;
        near(turns.len() as f64, 100.0, f64::from(PERIODS))?;
        let (first, last) = (turns[0].begin, turns[turns.len() - 1].end);
        let all = (last.operations - first.operations) as f64;
        let time = match by_cpu_time {
            true => last.busy_ns - first.busy_ns,
            false => last.at_ns - first.at_ns,
        };
        // The placebo rests in a part of the profiler's window.
        near(all * 1e9 / time as f64 / rate, 0.5, 1.5)?;
        // The target runs between slices, not in them.
        let within = turns
            .iter()
            .map(|turn| turn.end.operations - turn.begin.operations);
        near(within.sum::<u64>() as f64 / all, 0.0, 0.3)
    });
}

#[test]
fn pages() {
    for name in ["cpu-time", "quiet"] {
        let demo = TargetSpec::Demo {
            name: name.into(),
            options: Vec::new(),
        };
        worker_reads_what_the_profiler_reads(&demo, "progress");
    }
}

#[test]
fn calls() {
    const LOOP: &str = r#"
        __attribute__((noinline)) int serve(int x) {
            for (int i = 0; i < 3000; i++) __asm__ volatile("" ::: "memory");
            return x + 1;
        }
        int main() { for (volatile int sink = 0;;) sink = serve(sink); }
    "#;
    if missing("progress:uprobe", "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(server) = compiled(directory.path(), "server", LOOP, &[]) else {
        return;
    };
    let name = format!("progress:uprobe:{}:serve", server.display());
    worker_reads_what_the_profiler_reads(&program(&server), &name);
}

#[test]
fn events() {
    if missing("progress:tracepoint", "tracepoint") {
        return;
    }
    let copy = CommandSpec::new(["dd", "if=/dev/zero", "of=/dev/null", "bs=4k"]);
    let name = "progress:tracepoint:syscalls:sys_enter_write";
    worker_reads_what_the_profiler_reads(&TargetSpec::Command(copy), name);
}

#[test]
fn instructions() {
    if missing("ips", "pmu") {
        return;
    }
    let demo = TargetSpec::Demo {
        name: "cpu-time".into(),
        options: Vec::new(),
    };
    worker_reads_what_the_profiler_reads(&demo, "ips");
}
