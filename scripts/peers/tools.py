"""The tools: the command line of each, and how its output is read.

All readings are in bytes, operations, floating-point operations or seconds,
never in multiples of them. The tools are black boxes: nothing here relies on
anything but their manual pages and their output.
"""

import json
import math
import re
import statistics

from commands import Unavailable
from commands import on_cpus
from commands import require
from commands import run

# Floating-point operations in one operation of `vector` and of `fp`, by the
# widest vectors of the CPU; their pages in `jostle list --long` say which
# instructions they issue. A fused multiply-add is two for each double. With
# AVX-512 `vector` issues nothing else; with AVX2 and FMA half of its operations
# are additions; without FMA it multiplies and adds pairs of doubles. Half of
# `fp` is additions, the other half fused where that is possible.
VECTOR_FLOPS = {"avx512": 16, "avx_fma": 6, "avx": 2, "sse": 2}
SCALAR_FLOPS = {"avx512": 1.5, "avx_fma": 1.5, "avx": 1, "sse": 1}


def number(pattern, text, what):
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise Unavailable(f"{what} printed something this script cannot read")
    return float(found.group(1))


def document(text, what):
    try:
        # fio may warn before its document begins.
        return json.loads(text[text.index("{") :])
    except ValueError:
        raise Unavailable(f"{what} printed no JSON document") from None


class Likwid:
    """One kernel of likwid-bench over `size_bytes`, on `cpus`.

    The first call lets likwid find the number of iterations, but for buffers
    so large that a few take long; from the second on they are given."""

    def __init__(self, test, size_bytes, cpus, seconds):
        self.test = test
        self.cpus = cpus
        self.seconds = seconds
        self.size_kb = round(size_bytes / 1000)
        self.iterations = 5 if size_bytes > 200 * 10**6 else None

    def __call__(self):
        require("likwid-bench", "taskset")
        length = ["-i", str(self.iterations)] if self.iterations else ["-s", "1"]
        work = f"N:{self.size_kb}kB:{len(self.cpus)}"
        argv = ["likwid-bench", "-t", self.test, "-w", work, *length]
        reading = read_likwid(run(on_cpus(self.cpus, argv)).stdout)
        per_second = reading["iterations"] / reading["seconds"]
        self.iterations = max(2, round(per_second * self.seconds))
        return reading["flops" if self.test.startswith("peakflops") else "bytes"]


def read_likwid(text):
    """Bytes/s, flop/s, and the iterations of each thread and their seconds."""
    of = lambda name: number(rf"^{re.escape(name)}:\s+([-+\d.e]+)", text, "likwid-bench")
    return {
        "bytes": of("MByte/s") * 1e6,
        "flops": of("MFlops/s") * 1e6,
        "iterations": of("Iterations per thread"),
        "seconds": of("Time"),
    }


def stress_ng(arguments, cpus, seconds):
    require("stress-ng", "taskset")
    argv = ["stress-ng", *arguments, "--timeout", str(seconds), "--metrics"]
    ended = run(on_cpus(cpus, argv), timeout_seconds=seconds + 60)
    return ended, ended.stdout + ended.stderr


def memrate(size_bytes, cpus, seconds, most_per_second=None):
    """Reading rates of stress-ng's memrate, bytes/s by method; each instance
    has a buffer of its own."""
    arguments = ["--memrate", str(len(cpus)), "--memrate-bytes", str(int(size_bytes))]
    if most_per_second:
        arguments += ["--memrate-rd-mbs", str(round(most_per_second / 2**20))]
    return read_memrate(stress_ng(arguments, cpus, seconds)[1], len(cpus))


def read_memrate(text, instances=1):
    """Its "MB" are MiB: that is how long reads held to so many of them took."""
    found = re.findall(r"memrate\s+([\d.]+) (read\d+\w*) MB per sec", text)
    if not found:
        raise Unavailable("stress-ng memrate printed no rates; it may need more time")
    return {method: float(rate) * 2**20 * instances for rate, method in found}


class BestMemrate:
    """The reading method that was fastest in the first call; the fastest of
    each call would be the luckiest of ten short ones."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.method = None

    def __call__(self):
        rates = memrate(*self.arguments)
        self.method = self.method or max(rates, key=rates.get)
        if self.method not in rates:
            raise Unavailable(f"stress-ng memrate did not get as far as {self.method} in its time")
        return rates[self.method]


def memrate_typical(*arguments):
    """Over all its reading methods, so that one which is too slow by itself
    is not taken for a dial that fails."""
    return statistics.median(memrate(*arguments).values())


def stream(l3_bytes, cpus, seconds):
    arguments = ["--stream", str(len(cpus)), "--stream-l3-size", str(int(l3_bytes))]
    return read_stream(stress_ng(arguments, cpus, seconds)[1])


def read_stream(text):
    """Bytes read and written per second, all instances together; "MB" taken
    for MiB, which favours it."""
    rates = re.findall(r"stream: memory rate: ([\d.]+) MB read/sec, ([\d.]+) MB write/sec", text)
    if not rates:
        raise Unavailable("stress-ng stream printed no rates; it may need more time")
    return sum(float(read) + float(write) for read, write in rates) * 2**20


def cpu_load(percent, cpu, seconds):
    """Percent of one CPU that stress-ng took, as the kernel counts it."""
    arguments = ["--cpu", "1", "--cpu-load", str(percent), "--cpu-method", "loop"]
    ended, _ = stress_ng(arguments, [cpu], seconds)
    return ended.cpu_seconds / ended.wall_seconds * 100


def sysbench_memory(size_bytes, cpus, seconds):
    require("sysbench", "taskset")
    # It takes only powers of two.
    block = f"{1 << max(0, math.ceil(math.log2(size_bytes / 2**20)))}M"
    argv = ["sysbench", "memory", "--memory-oper=read", f"--memory-block-size={block}"]
    argv += ["--memory-total-size=100T", f"--threads={len(cpus)}", f"--time={seconds}", "run"]
    return read_sysbench(run(on_cpus(cpus, argv)).stdout)


def read_sysbench(text):
    return number(r"transferred \(([\d.]+) MiB/sec\)", text, "sysbench") * 2**20


def fio(file, size_bytes, pattern, block_bytes, depth, cpu, seconds, most_per_second=None):
    """Direct reads of `file`, which is made on the first call: bytes/s and
    operations/s."""
    require("fio", "taskset")
    argv = ["fio", "--name=peer", f"--filename={file}", f"--size={size_bytes}", f"--rw={pattern}"]
    argv += [f"--bs={block_bytes}", f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1"]
    argv += ["--time_based", f"--runtime={seconds}", "--output-format=json"]
    if most_per_second:
        argv.append(f"--rate={int(most_per_second)}")
    return read_fio(run(on_cpus([cpu], argv)).stdout)


def read_fio(text):
    job = document(text, "fio")["jobs"][0]
    if job["error"]:
        raise Unavailable(f"fio ended with error {job['error']}")
    return {"bytes": job["read"]["bw_bytes"], "operations": job["read"]["iops"]}


def iperf3(wires, port, seconds, most_per_second=None):
    """Bytes/s that the server of `wires` received."""
    require("iperf3")
    argv = ["iperf3", "--client", wires.far_address, "--port", str(port), "--json"]
    argv += ["--time", str(seconds)]
    if most_per_second:
        argv += ["--bitrate", str(int(most_per_second * 8))]
    return read_iperf3(run(wires.near(argv), tells_in_stdout=True).stdout)


def read_iperf3(text):
    result = document(text, "iperf3")
    if "error" in result:
        raise Unavailable(f"iperf3: {result['error']}")
    return result["end"]["sum_received"]["bits_per_second"] / 8


class Jostle:
    """The binary under test."""

    def __init__(self, path):
        self.path = path

    def run(self, resource, intensity, seconds, cpus, more=(), wrap=None):
        """One source alone: the document it prints."""
        argv = [self.path, "run", resource, "--intensity", str(intensity), "--json"]
        argv += ["--for", f"{round(seconds * 1000)}ms"]
        argv += ["--cpus", ",".join(map(str, cpus)), *more]
        ended = run(wrap(argv) if wrap else argv, timeout_seconds=seconds + 90)
        return document(ended.stdout, f"jostle run {resource}")


def rate_of(outcome, per="units"):
    """What the source did per second: in `units` of its resource (bytes for
    one that moves them), or in `operations`."""
    unit = outcome["pressure_unit"]
    if per == "units" and unit in ("bytes_per_second", "operations_per_second"):
        return outcome["achieved_pressure"]
    if "operations_per_second" not in outcome:
        raise Unavailable("this jostle does not report operations_per_second; take a newer one")
    return outcome["operations_per_second"] * (
        1 if per == "operations" else outcome["units_per_operation"]
    )


def flop_rate(outcome, flops_by_vectors, vectors):
    """Floating-point operations per second, where it is known how many an
    operation is."""
    if vectors not in flops_by_vectors:
        raise Unavailable("how many floating-point operations one of its is, is not known here")
    return rate_of(outcome, "operations") * flops_by_vectors[vectors]


def achieved_percent(outcome):
    if outcome.get("achieved_percent") is None:
        raise Unavailable("this jostle knows no peak for it to be a percentage of")
    return outcome["achieved_percent"]
