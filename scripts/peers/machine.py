"""The machine: CPUs, vector instructions, cache sizes, and who else is on it."""

import os
import pathlib
import platform
import re

CPU = pathlib.Path("/sys/devices/system/cpu")


def allowed_cpus():
    return sorted(os.sched_getaffinity(0))


def cache_bytes(cpu, level, kind):
    """Size of a cache, 0 when the kernel does not tell."""
    for index in sorted((CPU / f"cpu{cpu}/cache").glob("index*")):
        try:
            found = ((index / "level").read_text().strip(), (index / "type").read_text().strip())
            size = (index / "size").read_text().strip()
        except OSError:
            continue
        if found == (str(level), kind):
            return int(size.rstrip("K")) * 1024
    return 0


def vector_kind():
    """The widest vectors that likwid-bench has kernels for here: avx512,
    avx_fma, avx or sse; None where it is not known."""
    if platform.machine() != "x86_64":
        return None
    flags = set(re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
                .group(1).split())
    if "avx512f" in flags:
        return "avx512"
    if {"avx2", "fma"} <= flags:
        return "avx_fma"
    return "avx" if "avx" in flags else "sse"


def memory_bytes(name):
    """A line of /proc/meminfo."""
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1)) * 1024


def cpu_clock():
    """Seconds all CPUs were busy, and seconds the hypervisor took, since boot."""
    fields = [int(x) for x in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq) / tick, steal / tick


def describe():
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    name = model.group(1) if model else platform.machine()
    return f"{name}, {len(allowed_cpus())} CPUs, Linux {platform.release()}"
