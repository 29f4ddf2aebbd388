"""Is there a stronger tool? Ours against the best public tools, in one run.

Every source of interference at 100 % meets the public tools that press on the
same resource, on the same CPU, in rounds: in each, all pairs in random order,
and the sides of a pair one right after the other, so that slow changes of the
machine hit them alike. The ratio ours / peer is taken round by round: median,
smallest and largest. Before that everything that has a dial is set to 10, 25,
50 and 75 %, and what it reached is compared with what was requested.

The tools are Debian packages: likwid, stress-ng, sysbench, fio, iperf3,
iproute2. What is not installed is reported, with the line that installs it.
The network part makes two network namespaces joined by a cable in memory and
removes them; it needs root. The disk part makes one scratch file and removes it.

Takes up to ten minutes, --quick up to three. Keep the machine otherwise idle.
"""

import sys

sys.dont_write_bytecode = True

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time

import commands
import dials
import machine
import pairs
import report
import selftest
import tools
from commands import Unavailable
from wires import Wires

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
# Seconds from the start after which no new round begins that would not fit.
BUDGET_SECONDS = 570
QUICK_BUDGET_SECONDS = 165


class Site:
    """Where a run takes place: the binary, the CPUs, the caches, the scratch
    file and the cables. A cable that cannot be had is the reason why."""

    SINK_PORT = 5202
    ORDER = [
        "cpu-time", "int", "fp", "vector", "l1i", "l1d", "l2-capacity", "l2-bandwidth", "tlb",
        "prefetcher", "llc-capacity", "llc-bandwidth", "memory-capacity", "memory-bandwidth",
        "interconnect", "storage-capacity", "storage-bandwidth", "network-bandwidth",
    ]

    def __init__(self, args, stack):
        self.jostle = tools.Jostle(args.jostle)
        self.only = args.only
        self.quick = args.quick
        self.seconds = 0.5 if args.quick else 1.0
        self.cpus = machine.allowed_cpus()
        self.cpu = self.cpus[-1] if args.cpu is None else args.cpu
        self.vector = machine.vector_kind()
        self.l1d_bytes = machine.cache_bytes(self.cpu, 1, "Data") or 32 << 10
        self.l2_bytes = machine.cache_bytes(self.cpu, 2, "Unified") or 1 << 20
        self.llc_bytes = machine.cache_bytes(self.cpu, 3, "Unified") or self.l2_bytes
        directory = tempfile.mkdtemp(prefix="jostle-peers-", dir=args.scratch)
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        self.fio_file = os.path.join(directory, "fio")
        self.scratch_flags = ["--scratch", directory]
        self.scratch_bytes = 256 << 20
        self.raw = self.cable(stack)
        self.shaped = self.cable(stack, megabits_per_second=1000)

    def wants(self, resource):
        return not self.only or resource in self.only

    def cable(self, stack, megabits_per_second=None):
        if not self.wants("network-bandwidth"):
            return Unavailable("not asked for")
        far_cpu = next((cpu for cpu in self.cpus if cpu != self.cpu), self.cpu)
        try:
            return stack.enter_context(Wires(self.cpu, far_cpu, megabits_per_second))
        except Unavailable as reason:
            return reason

    def usable(self, wires):
        if isinstance(wires, Unavailable):
            raise wires
        return True

    def sink(self, wires):
        listen = f"{wires.far_address}:{self.SINK_PORT}"
        wires.serve([self.jostle.path, "sink", "--listen", listen], self.SINK_PORT)

    def iperf3_server(self, wires):
        commands.require("iperf3")
        wires.serve(["iperf3", "--server", "--port", str(pairs.PORT)], pairs.PORT)

    def flags_of(self, resource):
        """More flags of `jostle run`, and what its command line is wrapped in."""
        if resource == "memory-capacity":
            # Filling all memory would take minutes; two gibibytes show the same.
            rest = machine.memory_bytes("MemAvailable") - (2 << 30)
            more = ["--memory-reserve", f"{rest >> 20}MiB"] if rest > 1 << 30 else []
            return more, None
        if resource.startswith("storage-"):
            return self.scratch_flags, None
        if resource == "network-bandwidth":
            self.usable(self.shaped)
            self.sink(self.shaped)
            peer = f"{self.shaped.far_address}:{self.SINK_PORT}"
            return ["--peer", peer], self.shaped.near
        return [], None


def main():
    args = arguments()
    if args.self_test:
        return selftest.run(REPOSITORY / "tests/fixtures/peers")
    if args.install:
        install()
    elif missing := commands.missing_packages():
        print(f"not installed: apt-get install {' '.join(missing)}", file=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    clock, own_cpu = machine.cpu_clock(), commands.children_cpu_seconds()
    rng = random.Random(args.seed)
    with contextlib.ExitStack() as stack:
        site = Site(args, stack)
        tell = teller(began)
        all_dials = dials.all_dials(site)
        dials.turn(all_dials, dials.QUICK_LEVELS if args.quick else dials.LEVELS, rng, tell)
        all_pairs = pairs.all_pairs(site)
        budget = QUICK_BUDGET_SECONDS if args.quick else BUDGET_SECONDS
        first = time.monotonic()

        def fits(played):
            now = time.monotonic()
            return now - began + (now - first) / played <= budget

        played = pairs.play(all_pairs, args.rounds, rng, fits, tell) if all_pairs else 0
        tell("")
    wall = time.monotonic() - began
    busy, stolen = (after - before for after, before in zip(machine.cpu_clock(), clock))
    others = max(0.0, busy - (commands.children_cpu_seconds() - own_cpu))
    conditions = {
        "machine": machine.describe(),
        "cpu": site.cpu,
        "seed": args.seed,
        "rounds": played,
        "rounds_requested": args.rounds,
        "seconds": wall,
        "others_percent_of_cpu": others / wall * 100,
        "stolen_percent_of_cpu": stolen / wall * 100,
    }
    without = {name: why for name, why in pairs.WITHOUT_PEER.items() if site.wants(name)}
    print(report.text(all_pairs, all_dials, without, conditions))
    if args.json:
        document = report.document(all_pairs, all_dials, without, conditions)
        pathlib.Path(args.json).write_text(json.dumps(document, indent=2) + "\n")
    return 0


def arguments():
    parser = argparse.ArgumentParser(
        prog="peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--jostle", metavar="PATH", default=os.environ.get("JOSTLE"),
        help="the binary [default: $JOSTLE, else target/release/jostle of this repository]")
    add("--only", metavar="RESOURCE,...", help="these resources alone")
    add("--rounds", type=int, metavar="N", help="rounds [default: 5, with --quick 2]; fewer when "
        "the time is up")
    add("--quick", action="store_true", help="shorter measurements, dials at 25 and 75 %% alone, "
        "no slow peers; at most three minutes")
    add("--cpu", type=int, metavar="N", help="the CPU everything runs on [default: the last]")
    add("--scratch", metavar="DIR", default="/var/tmp", help="directory on the disk to press on "
        "[default: /var/tmp]")
    add("--seed", type=int, default=1, metavar="N", help="of the random order [default: 1]")
    add("--json", metavar="FILE", help="write every measurement to FILE too")
    add("--install", action="store_true", help="install what is missing first; as root")
    add("--self-test", action="store_true", help="check this script against recorded outputs")
    args = parser.parse_args()
    args.only = [name.strip() for name in args.only.split(",")] if args.only else []
    for name in args.only:
        if name not in Site.ORDER:
            known = ", ".join(Site.ORDER)
            parser.error(f"--only: there is no resource '{name}'; there are {known}")
    if args.rounds is None:
        args.rounds = 2 if args.quick else 5
    if args.rounds < 1:
        parser.error("--rounds: give 1 or more")
    if args.cpu is not None and args.cpu not in machine.allowed_cpus():
        parser.error(f"--cpu: CPU {args.cpu} is not among the allowed {machine.allowed_cpus()}")
    if not os.access(args.scratch, os.W_OK | os.X_OK):
        parser.error(f"--scratch: {args.scratch} is not a directory that can be written to")
    if args.json and not os.access(pathlib.Path(args.json).resolve().parent, os.W_OK | os.X_OK):
        parser.error(f"--json: {args.json} is in no directory that can be written to")
    args.jostle = args.jostle or str(REPOSITORY / "target/release/jostle")
    if not (args.self_test or shutil.which(args.jostle)):
        parser.error(f"--jostle: there is no program {args.jostle}; cargo build --release")
    return args


def install():
    missing = commands.missing_packages()
    if not missing:
        return
    line = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        sys.exit(f"peers: --install needs root; run as root: {' '.join(line)}")
    if subprocess.run(line, stdout=sys.stderr, check=False).returncode != 0:
        sys.exit(f"peers: could not install {' '.join(missing)}; try apt-get update first")


def teller(began):
    """Says on a terminal what is going on."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda words: print(
        f"\r{time.monotonic() - began:4.0f} s  {words:<70.70}" if words else f"\r{'':78}\r",
        end="", file=sys.stderr, flush=True,
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
