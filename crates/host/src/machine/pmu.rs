//! Whether the CPU's hardware counters can be used, by name or by reason.

use crate::os::sysfs::EVENT_SOURCES;
use crate::os::text;
use jostle_profile::reading::Reading;
use std::path::Path;

/// Name of the CPU's PMU as the kernel registers it (`cpu`; two names joined by
/// `+` on CPUs of mixed cores), or why there is none. `probe` opens a counter
/// and answers with the reason when it cannot count; tests on a made-up tree
/// pass one that does nothing.
pub(super) fn read(root: &Path, probe: impl FnOnce() -> Result<(), String>) -> Reading<String> {
    let devices = match text::names(root, EVENT_SOURCES) {
        Ok(devices) => devices,
        Err(problem) => return Reading::unavailable(format!("no list of PMUs: {problem}")),
    };
    let pmus: Vec<&str> = devices
        .iter()
        .map(String::as_str)
        .filter(|name| is_cpu_pmu(name))
        .collect();
    if pmus.is_empty() {
        let found = match devices.is_empty() {
            true => "nothing".to_string(),
            false => format!("only {}", devices.join(", ")),
        };
        return Reading::unavailable(format!(
            "the kernel has no hardware counters to offer (/{EVENT_SOURCES} holds {found}), as usual in \
             a virtual machine without a virtual PMU"
        ));
    }
    probe().map(|()| pmus.join("+")).into()
}

fn is_cpu_pmu(name: &str) -> bool {
    // x86 mixed cores: cpu_core and cpu_atom; Arm: armv8_pmuv3_0, armv8_cortex_a72.
    matches!(name, "cpu" | "cpu_core" | "cpu_atom") || name.starts_with("armv")
}
