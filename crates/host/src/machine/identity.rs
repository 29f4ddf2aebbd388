//! Names and settings the kernel tells in one line each: CPU, kernel,
//! hypervisor, allowed CPUs.

use crate::os::Error;
use crate::os::ParseError;
use crate::os::cpulist;
use crate::os::text;
use std::path::Path;

pub(super) const UNKNOWN: &str = "unknown";

pub(super) struct Identity {
    pub model: String,
    pub vendor: String,
    pub hypervisor: Option<String>,
    pub kernel: String,
}

pub(super) fn read(root: &Path) -> Identity {
    let cpuinfo = text::text(root, "proc/cpuinfo").unwrap_or_default();
    let unknown = || UNKNOWN.to_string();
    let (vendor, model) = match field(&cpuinfo, "CPU implementer") {
        Some(implementer) => arm(implementer, field(&cpuinfo, "CPU part").unwrap_or("?")),
        None => (
            field(&cpuinfo, "vendor_id").map_or_else(unknown, str::to_string),
            field(&cpuinfo, "model name").map_or_else(unknown, str::to_string),
        ),
    };
    Identity {
        model,
        vendor,
        hypervisor: hypervisor(root, &cpuinfo),
        kernel: text::text(root, "proc/sys/kernel/osrelease").unwrap_or_else(|_| unknown()),
    }
}

/// The first value of `key` in `/proc/cpuinfo`.
fn field<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

/// Arm kernels give numbers; the names are in Arm's MIDR_EL1 documentation.
fn arm(implementer: &str, part: &str) -> (String, String) {
    let vendor = match implementer {
        "0x41" => "Arm",
        "0x48" => "HiSilicon",
        "0x4e" => "NVIDIA",
        "0x61" => "Apple",
        "0xc0" => "Ampere",
        other => other,
    };
    let model = match (implementer, part) {
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd0b") => "Cortex-A76",
        ("0x41", "0xd0c") => "Neoverse N1",
        ("0x41", "0xd40") => "Neoverse V1",
        ("0x41", "0xd49") => "Neoverse N2",
        ("0x41", "0xd4f") => "Neoverse V2",
        _ => return (vendor.to_string(), format!("{vendor} part {part}")),
    };
    (vendor.to_string(), model.to_string())
}

/// The hypervisor as far as the kernel passes it on: by Xen's own file, by the
/// firmware's names, by the device tree, or only by the CPU flag.
fn hypervisor(root: &Path, cpuinfo: &str) -> Option<String> {
    if let Ok(name) = text::text(root, "sys/hypervisor/type") {
        return Some(name);
    }
    let dmi = |name: &str| text::text(root, format!("sys/class/dmi/id/{name}"));
    let vendor = dmi("sys_vendor").unwrap_or_default();
    let product = dmi("product_name").unwrap_or_default();
    let by_firmware = match vendor.as_str() {
        "QEMU" => Some("KVM or QEMU"),
        "VMware, Inc." => Some("VMware"),
        "innotek GmbH" => Some("VirtualBox"),
        "Google" if product == "Google Compute Engine" => Some("KVM (Google Compute Engine)"),
        "Microsoft Corporation" if product == "Virtual Machine" => Some("Hyper-V"),
        // Amazon's instances of bare metal carry the same vendor.
        "Amazon EC2" if !product.contains(".metal") => Some("KVM (Amazon EC2)"),
        _ => None,
    };
    if let Some(name) = by_firmware {
        return Some(name.to_string());
    }
    if let Ok(name) = text::text(root, "proc/device-tree/hypervisor/compatible") {
        return Some(name.trim_end_matches('\0').to_string());
    }
    field(cpuinfo, "flags")
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
        .then(|| "unnamed hypervisor".to_string())
}

/// CPUs in this process's mask, offline ones included.
pub(super) fn allowed_cpus(root: &Path) -> Result<Vec<usize>, Error> {
    text::parse(root, "proc/self/status", |status| {
        let key = "Cpus_allowed_list";
        let list = text::value(status, key).ok_or_else(|| ParseError::NoLine(key.into()))?;
        cpulist::parse(list)
    })
}
