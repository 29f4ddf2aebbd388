//! What is known of effects on other resources.

/// Why `source` costs `victim` something although it presses on another
/// resource; `None` when no mechanism is known, and the effect is a defect
/// until one is.
pub fn explain(source: &str, victim: &str) -> Option<&'static str> {
    let outer = |id: &str| {
        matches!(
            id,
            "llc-capacity" | "llc-bandwidth" | "memory-bandwidth" | "memory-capacity"
        )
    };
    let text = match (source, victim) {
        ("cpu-time", "storage-bandwidth" | "storage-capacity" | "network-bandwidth") => {
            "the victim hands in its requests on the CPU that is taken"
        }
        ("cpu-time", _) => "the CPU itself is taken; whatever runs on it gets the rest",
        ("vector", "int" | "fp" | "l1i" | "l1d" | "prefetcher" | "tlb") => {
            "wide SIMD lowers the core's frequency for a while"
        }
        ("l2-capacity" | "l2-bandwidth", "l1d") => {
            "every line on its way from L2 takes a place in L1d"
        }
        ("l2-capacity", "l1i") => "L2 holds instructions too, and many L2s take them back from L1i",
        ("l2-capacity", "l2-bandwidth" | "prefetcher" | "storage-capacity") => {
            "the victim's buffer lives in L2 and comes back from the LLC after each turn"
        }
        ("l2-capacity", "tlb") => "page-table entries are cached in L2",
        (
            "l2-capacity",
            "llc-capacity" | "llc-bandwidth" | "memory-bandwidth" | "memory-capacity",
        ) => "the part of the victim's data and page tables that L2 held is gone after each turn",
        ("prefetcher", "l1d" | "l2-capacity" | "l2-bandwidth") => {
            "its buffer passes through the victim's cache"
        }
        (
            "tlb",
            "l2-capacity" | "llc-capacity" | "llc-bandwidth" | "memory-bandwidth"
            | "memory-capacity" | "prefetcher" | "l2-bandwidth",
        ) => "the victim's translations are gone after each turn and must be walked again",
        (a, b) if outer(a) && outer(b) => {
            "both go through the LLC and the path to memory: what streams from memory takes room \
             in the LLC, and what misses the LLC takes memory bandwidth"
        }
        (a, "l2-capacity" | "l2-bandwidth" | "l1d" | "l1i" | "tlb") if outer(a) => {
            "an inclusive or shared outer cache takes lines back from the victim's inner ones"
        }
        ("storage-bandwidth", "storage-capacity") | ("storage-capacity", "storage-bandwidth") => {
            "both read from the same device"
        }
        ("storage-bandwidth" | "storage-capacity" | "network-bandwidth", _) => {
            "the device's interrupts and the worker's system calls land on a CPU, and what it \
             transfers goes through memory"
        }
        ("memory-capacity", _) => "handing out and clearing pages takes memory bandwidth",
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_are_known_by_pair_and_not_for_all() {
        assert!(explain("cpu-time", "int").is_some());
        assert!(explain("memory-bandwidth", "llc-capacity").is_some());
        assert_eq!(explain("int", "memory-bandwidth"), None);
        assert_eq!(explain("interconnect", "l1d"), None);
    }
}
