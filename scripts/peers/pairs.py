"""Who meets whom: ours at 100 % and the tools that press on the same resource."""

import dataclasses
import statistics
from typing import Callable
from typing import Dict
from typing import List
from typing import Optional

import tools
from commands import Unavailable

# Ours must reach this much of the best peer.
BAR = 0.95
# A peer below this much of the best one in each of so many rounds plays no more.
HOPELESS = 0.8
TRIALS = 2
PORT = 5201

# Resources for which no tool reports anything in a unit that ours has too.
WITHOUT_PEER = {
    "cpu-time": "at 100 % any tool takes all of a CPU; the dials below are compared instead",
    "l1i": "stress-ng --icache counts rewrites of code and flushes, not code executed",
    "l2-capacity": "stress-ng --cache counts bogo-ops; what a tool displaces shows only in a "
    "victim, and on a shared CPU turn-taking costs the victim far more than the refill of one L2",
    "tlb": "stress-ng --tlb-shootdown interrupts other CPUs to flush entries, where ours displaces "
    "them; the counts have nothing in common",
    "llc-capacity": "stress-ng --cache and --l1cache count bogo-ops, not bytes kept resident",
    "memory-capacity": "any tool can fill memory; what counts is the amount, not the rate",
}
NO_PEER = {
    "int": "no tool counts integer operations; stress-ng --cpu-method counts bogo-ops",
    "prefetcher": "no tool mistrains prefetchers and reports a rate",
    "interconnect": "no packaged tool passes cache lines between CPUs and reports a rate",
}


@dataclasses.dataclass
class Contender:
    name: str
    # One measurement, in the unit of the pair; raises Unavailable.
    measure: Callable[[], float]
    # Left out by --quick.
    slow: bool = False
    values: Dict[int, float] = dataclasses.field(default_factory=dict)
    reason: Optional[str] = None

    def take(self, turn):
        try:
            self.values[turn] = self.measure()
        except Unavailable as reason:
            self.reason = str(reason)

    def is_out(self):
        """Failed before it ever succeeded; a later failure costs one round."""
        return bool(self.reason) and not self.values

    def median(self):
        return statistics.median(self.values.values()) if self.values else None


@dataclasses.dataclass
class Ratio:
    """Ours ÷ the peer, round by round."""

    median: float
    low: float
    high: float
    # Of the best rounds of both: what is left when the machine took nothing.
    of_best: float
    rounds: int


@dataclasses.dataclass
class Pair:
    resource: str
    case: str
    unit: str
    ours: Contender
    peers: List[Contender]
    note: str = ""

    def standing(self):
        """Who plays the next round."""
        return [] if self.ours.is_out() else [self.ours, *self.strong_peers()]

    def strong_peers(self):
        top = max((max(peer.values.values(), default=0) for peer in self.peers), default=0)

        def goes_on(peer):
            tried = len(peer.values) >= TRIALS
            return not (peer.is_out() or tried and max(peer.values.values()) < HOPELESS * top)

        return list(filter(goes_on, self.peers))

    def best_peer(self):
        """The strongest of those that played to the end."""
        able = [peer for peer in self.strong_peers() if peer.values]
        return max(able, key=lambda peer: peer.median(), default=None)

    def ratio(self, peer):
        """None when they never met."""
        met = sorted(self.ours.values.keys() & peer.values.keys())
        if not met:
            return None
        ratios = [self.ours.values[turn] / peer.values[turn] for turn in met]
        of_best = max(self.ours.values.values()) / max(peer.values.values())
        return Ratio(statistics.median(ratios), min(ratios), max(ratios), of_best, len(met))

    def verdict(self):
        """Against the best peer."""
        if self.ours.is_out():
            return "unavailable"
        best = self.best_peer()
        ratio = best and self.ratio(best)
        if not ratio:
            return "no peer"
        if ratio.median >= BAR:
            return "met"
        return f"short by {BAR - ratio.median:.2f}"


def all_pairs(site):
    """Every meeting that `site` (see __main__) allows."""
    one, every = [site.cpu], site.cpus
    suffix = f"_{site.vector}" if site.vector else ""
    # likwid's kernels that only move data have no variant with FMA.
    moving = suffix.replace("_fma", "")
    fused = {"_avx512": "_avx512_fma"}.get(suffix, suffix)
    dram = max(2 * site.llc_bytes, 10**9)

    def ours(resource, cpus=one, rate=tools.rate_of, more=(), label=""):
        measure = lambda: rate(site.jostle.run(resource, 100, site.seconds, cpus, more))
        return Contender(f"jostle {resource}{label}", measure)

    def flops(resource, by_vectors):
        return ours(resource, rate=lambda got: tools.flop_rate(got, by_vectors, site.vector))

    def likwid(test, size_bytes, cpus=one):
        measure = tools.Likwid(test, size_bytes, cpus, site.seconds)
        return Contender(f"likwid {test} {measure.size_kb} kB", measure)

    def fio(pattern, block_bytes, depth, what):
        def measure():
            return tools.fio(site.fio_file, site.scratch_bytes, pattern, block_bytes, depth,
                             site.cpu, max(1, round(site.seconds)))[what]

        return Contender(f"fio {pattern} {block_bytes // 1024}k, {depth} deep", measure)

    def network(case, wires):
        def sent():
            site.sink(wires)
            arguments = ["--peer", f"{wires.far_address}:{site.SINK_PORT}"]
            outcome = site.jostle.run("network-bandwidth", 100, site.seconds, one, arguments,
                                      wires.near)
            return tools.rate_of(outcome)

        def received():
            site.iperf3_server(wires)
            return tools.iperf3(wires, PORT, max(1, round(site.seconds)))

        able = lambda measure: lambda: site.usable(wires) and measure()
        ours = Contender("jostle network-bandwidth", able(sent))
        return Pair("network-bandwidth", case, "B/s", ours, [Contender("iperf3", able(received))])

    def dram_peers(cpus):
        return [
            likwid(f"load{moving}", dram, cpus),
            Contender("stress-ng memrate, best read",
                      tools.BestMemrate(dram / len(cpus), cpus, 5), slow=True),
            Contender("sysbench memory read",
                      lambda: tools.sysbench_memory(dram / len(cpus), cpus, 2), slow=True),
        ]

    def copy_peers(cpus):
        l3 = max(32 << 20, site.llc_bytes // 4)
        return [
            likwid(f"copy_mem{moving}", dram, cpus),
            Contender("stress-ng stream, read + write",
                      lambda: tools.stream(l3, cpus, 6), slow=True),
        ]

    copy = ["--access", "copy"]
    pairs = [
        Pair("int", "", "op/s", ours("int"), [], NO_PEER["int"]),
        Pair("fp", "", "flop/s", flops("fp", tools.SCALAR_FLOPS),
             [likwid("peakflops", 16000)]),
        Pair("vector", "", "flop/s", flops("vector", tools.VECTOR_FLOPS),
             [likwid(f"peakflops{fused}", 16000)]),
        Pair("l1d", "", "B/s", ours("l1d"), [likwid(f"load{moving}", 32000)]),
        Pair("l2-bandwidth", "", "B/s", ours("l2-bandwidth"),
             [likwid(f"load{moving}", size) for size in (10**6, 2 * site.l1d_bytes)]),
        Pair("prefetcher", "", "op/s", ours("prefetcher"), [], NO_PEER["prefetcher"]),
        Pair("llc-bandwidth", "", "B/s", ours("llc-bandwidth"),
             [likwid(f"load{moving}", size)
              for size in (max(4 * site.l2_bytes, 8 * 10**6), max(site.llc_bytes // 2, 10**7))]),
        Pair("memory-bandwidth", "load, 1 CPU", "B/s", ours("memory-bandwidth"), dram_peers(one)),
        Pair("memory-bandwidth", "copy, 1 CPU", "B/s",
             ours("memory-bandwidth", more=copy, label=" copy"), copy_peers(one)),
        Pair("interconnect", "", "op/s", ours("interconnect", every), [], NO_PEER["interconnect"]),
        Pair("storage-capacity", "random", "op/s",
             ours("storage-capacity", rate=lambda got: tools.rate_of(got, "operations"),
                  more=site.scratch_flags),
             [fio("randread", 4096, depth, "operations") for depth in (32, 128)]),
        Pair("storage-bandwidth", "sequential", "B/s",
             ours("storage-bandwidth", more=site.scratch_flags),
             [fio("read", block, depth, "bytes") for block, depth in
              ((256 << 10, 8), (1 << 20, 4), (1 << 20, 16))]),
        network("raw", site.raw),
        network("1 Gbit/s", site.shaped),
    ]
    if len(every) > 1:
        pairs += [
            Pair("memory-bandwidth", "load, all CPUs", "B/s", ours("memory-bandwidth", every),
                 dram_peers(every)),
            Pair("memory-bandwidth", "copy, all CPUs", "B/s",
                 ours("memory-bandwidth", every, more=copy, label=" copy"), copy_peers(every)),
        ]
    for pair in pairs:
        pair.peers = [peer for peer in pair.peers if not (site.quick and peer.slow)]
    return sorted((pair for pair in pairs if site.wants(pair.resource)),
                  key=lambda pair: site.ORDER.index(pair.resource))


def play(pairs, rounds, rng, may_go_on, tell):
    """Rounds in which all pairs meet, in random order, the two sides of each
    one after the other, in random order too. Returns how many were played."""
    for turn in range(rounds):
        for pair in rng.sample(pairs, len(pairs)):
            sides = pair.standing()
            for contender in rng.sample(sides, len(sides)):
                tell(f"round {turn + 1} of {rounds}: {contender.name} {pair.case}")
                contender.take(turn)
        if not may_go_on(turn + 1):
            return turn + 1
    return rounds
