//! CPUs, SMT, caches, NUMA nodes, from sysfs.
