//! What only the CPU itself tells: who virtualizes it, its name, and the ways
//! of caches when the kernel does not pass them on.

use super::Cache;
use super::CacheKind;
use jostle_profile::reading::Reading;
use raw_cpuid::CacheType;
use raw_cpuid::CpuId;
use raw_cpuid::DatType;
use raw_cpuid::Hypervisor;

/// Name of the hypervisor, or none when the CPU does not say it is virtual.
pub(super) fn hypervisor() -> Option<String> {
    let cpuid = CpuId::new();
    if !cpuid.get_feature_info()?.has_hypervisor() {
        return None;
    }
    let name = match cpuid.get_hypervisor_info().map(|info| info.identify()) {
        Some(Hypervisor::HyperV) => "Hyper-V".to_string(),
        Some(Hypervisor::Unknown(ebx, ecx, edx)) => {
            let signature: String = [ebx, ecx, edx]
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .filter(|byte| byte.is_ascii_graphic())
                .map(char::from)
                .collect();
            match signature.is_empty() {
                true => "unnamed hypervisor".to_string(),
                false => signature,
            }
        }
        Some(known) => format!("{known:?}"),
        None => "unnamed hypervisor".to_string(),
    };
    Some(name)
}

/// The CPU's name for itself.
pub(super) fn model() -> Option<String> {
    let brand = CpuId::new().get_processor_brand_string()?;
    Some(brand.as_str().trim().to_string()).filter(|name| !name.is_empty())
}

/// No second-level TLB has fewer entries.
const LEAST_ENTRIES: u64 = 512;

/// What AMD's CPUID says of a second-level TLB, in entries: those of family 1Ah count in
/// units of 32, because as many do not fit into the field (Fn8000_0006, Fn8000_0021
/// EAX\[14\]). Hypervisors hide the flag that says so.
fn amd_entries(told: u16) -> u64 {
    match u64::from(told) {
        told @ 1..LEAST_ENTRIES => 32 * told,
        told => told,
    }
}

/// Entries of the second-level data TLB that hold base pages.
pub(super) fn tlb_entries() -> Result<u64, String> {
    let cpuid = CpuId::new();
    // Intel: the last level that data accesses use, unified or not.
    let listed = cpuid
        .get_deterministic_address_translation_info()
        .into_iter()
        .flatten()
        .filter(|tlb| tlb.has_4k_entries() && holds_data(tlb.cache_type()))
        .max_by_key(|tlb| tlb.cache_level())
        .map(|tlb| u64::from(tlb.ways()) * u64::from(tlb.sets()));
    // AMD: the L2 TLB for base pages.
    let amd = cpuid
        .get_l2_l3_cache_and_tlb_info()
        .map(|info| amd_entries(info.dtlb_4k_size()));
    listed
        .or(amd)
        .filter(|entries| *entries > 0)
        .ok_or_else(|| "CPUID tells no size of the second-level TLB".to_string())
}

fn holds_data(kind: DatType) -> bool {
    matches!(
        kind,
        DatType::DataTLB | DatType::UnifiedTLB | DatType::LoadOnly
    )
}

/// Fills in ways the kernel did not tell. CPUID answers for the CPU it runs on,
/// so a cache is only filled when its size agrees with the answer.
pub(super) fn fill_ways(caches: &mut [Cache]) {
    if caches.iter().all(|cache| cache.ways.value().is_some()) {
        return;
    }
    let Some(parameters) = CpuId::new().get_cache_parameters() else {
        return;
    };
    for listed in parameters {
        let kind = match listed.cache_type() {
            CacheType::Data => CacheKind::Data,
            CacheType::Instruction => CacheKind::Instruction,
            CacheType::Unified => CacheKind::Unified,
            _ => continue,
        };
        let size = listed.associativity()
            * listed.physical_line_partitions()
            * listed.coherency_line_size()
            * listed.sets();
        for cache in caches.iter_mut() {
            let same = cache.level == listed.level()
                && cache.kind == kind
                && cache.size_bytes == size as u64
                && !listed.is_fully_associative();
            if same && cache.ways.value().is_none() {
                cache.ways = Reading::Value(listed.associativity() as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tlbs_are_told_in_units() {
        assert_eq!(amd_entries(128), 4096, "family 1Ah");
        assert_eq!(amd_entries(3072), 3072, "family 19h");
        assert_eq!(amd_entries(0), 0);
    }
}
