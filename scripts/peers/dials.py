"""Requested against achieved, for the tools that have a dial and for ours."""

import dataclasses
import statistics
from typing import Callable
from typing import Dict
from typing import List
from typing import Optional

import tools
from commands import Unavailable
from pairs import PORT

LEVELS = [10, 25, 50, 75]
QUICK_LEVELS = [25, 75]
# Requested-against-achieved error of ours must stay within so many points.
BAR_POINTS = 2.0


@dataclasses.dataclass
class Dial:
    resource: str
    name: str
    # Percent achieved of the peak when so many are requested; raises Unavailable.
    at: Callable[[float], float]
    # Measures what percentages refer to, before the first level.
    prepare: Callable[[], None] = lambda: None
    ours: bool = False
    achieved: Dict[int, List[float]] = dataclasses.field(default_factory=dict)
    reason: Optional[str] = None

    def take(self, level):
        if self.reason:
            return
        try:
            if not self.achieved:
                self.prepare()
            self.achieved.setdefault(level, []).append(self.at(level))
        except Unavailable as reason:
            self.reason = str(reason)

    def reading(self, level):
        values = self.achieved.get(level)
        return statistics.median(values) if values else None

    def worst_error(self):
        """Points, of the medians; None when nothing was measured."""
        errors = [abs(self.reading(level) - level) for level in LEVELS if self.achieved.get(level)]
        return max(errors, default=None)


class Peak:
    """What percentages of a tool without them refer to: its own unheld rate."""

    def __init__(self, measure):
        self.measure = measure
        self.value = None

    def prepare(self):
        self.value = statistics.median(self.measure() for _ in range(3))

    def dial(self, percent):
        return self.measure(self.value * percent / 100) / self.value * 100


def all_dials(site):
    seconds = max(1, round(site.seconds))

    def relative(resource, name, measure):
        peak = Peak(measure)
        return Dial(resource, name, peak.dial, peak.prepare)

    def sent(most_per_second=None):
        site.usable(site.shaped)
        site.iperf3_server(site.shaped)
        return tools.iperf3(site.shaped, PORT, seconds, most_per_second)

    def of_ours(resource):
        def at(percent):
            cpus = site.cpus if resource == "interconnect" else [site.cpu]
            more, wrap = site.flags_of(resource)
            outcome = site.jostle.run(resource, percent, site.seconds, cpus, more, wrap)
            return tools.achieved_percent(outcome)

        return Dial(resource, f"jostle {resource}", at, ours=True)

    # So small a buffer takes a held rate through all of its methods in time.
    buffer = 32 << 20
    dials = [of_ours(resource) for resource in site.ORDER]
    dials += [
        Dial("cpu-time", "stress-ng --cpu-load",
             lambda percent: tools.cpu_load(percent, site.cpu, 2 * seconds)),
        relative("memory-bandwidth", "stress-ng --memrate-rd-mbs",
                 lambda most=None: tools.memrate_typical(buffer, [site.cpu], 2, most)),
        relative("storage-bandwidth", "fio --rate",
                 lambda most=None: tools.fio(site.fio_file, site.scratch_bytes, "read", 256 << 10,
                                             8, site.cpu, seconds, most)["bytes"]),
        relative("network-bandwidth", "iperf3 --bitrate, 1 Gbit/s", sent),
    ]
    return [dial for dial in dials if site.wants(dial.resource)]


def turn(dials, levels, rng, tell):
    """Every dial to every level, in random order."""
    jobs = [(dial, level) for dial in dials for level in levels]
    for dial, level in rng.sample(jobs, len(jobs)):
        if not dial.reason:
            tell(f"dials: {dial.name} at {level} %")
            dial.take(level)
