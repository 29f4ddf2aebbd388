"""What a profile says: plain values, read from ``jostle-profile/1``.

Intensities, scores, losses and shares are percent; performance is a fraction of
the level without interference; intervals are ``(low, high)`` and hold the value
with 95 % confidence. What is not known is None, or :class:`Unavailable` with the
reason, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import Literal
from typing import get_args

Direction = Literal["tolerated", "caused"]
Status = Literal["measured", "inferred", "not-shared", "unavailable", "unresolved"]
Verdict = Literal["sensitive", "insensitive", "at the line", "none seen", "open"]

NEAR_THE_LINE = 0.025
"""Fraction of the baseline around the QoS threshold that is at the line."""
MOST_OF_IT = 0.8
"""Share of a loss that another source must cost as well to be what explains it."""
LITTLE = 10.0
"""Loss of a source, percent, above which it competes with the application."""
FULL_PRESSURE = 90.0
"""What has to arrive of an intensity of 100 %."""

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
STATUSES: tuple[Status, ...] = get_args(Status)

RESOURCES = (
    "cpu-time",
    "int",
    "fp",
    "vector",
    "l1i",
    "l1d",
    "l2-capacity",
    "l2-bandwidth",
    "tlb",
    "prefetcher",
    "branch",
    "llc-capacity",
    "llc-bandwidth",
    "memory-capacity",
    "memory-bandwidth",
    "interconnect",
    "storage-capacity",
    "storage-bandwidth",
    "network-bandwidth",
)
"""Ids of the resources that this version knows, from the CPU outwards. A profile
may hold others."""

DECIDED_WIDTH = 20.0
"""A score is decided when its interval is at most this wide, points."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """There is no value, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Score:
    """A position on the scale from 0 to 100, and its 95 % interval."""

    value: float
    interval: tuple[float, float]

    @property
    def is_decided(self) -> bool:
        """Whether the interval is at most :data:`DECIDED_WIDTH` wide."""
        return self.interval[1] - self.interval[0] <= DECIDED_WIDTH


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Performance at one intensity.

    ``intensity`` is the percentage that arrived. ``performance`` is a fraction of
    the performance of the same thing beside the control (curve) or alone (probe
    curve). ``windows`` is the number of windows behind it.
    """

    intensity: float
    performance: float
    interval: tuple[float, float]
    windows: int


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss at ``intensity``, percent, with its 95 % interval.

    Below 0 where it was measured so.
    """

    value: float
    interval: tuple[float, float]
    intensity: float
    windows: int


@dataclass(frozen=True, slots=True)
class Use:
    """Share of the peak of a resource that the application used by itself, percent,
    with its 95 % interval. Above 100 where it gets more out of it than the source of
    interference does. ``quantity`` is what was read."""

    value: float
    interval: tuple[float, float]
    quantity: str


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that the application used, in ``unit``. ``of`` is ``target``,
    ``namespace`` or ``machine``: in the last two cases it used this much at most."""

    value: float
    interval: tuple[float, float]
    unit: str
    of: str
    resource: str | None
    share: Estimate | Unavailable


@dataclass(frozen=True, slots=True)
class Resource:
    """What was learned about one resource, in both directions."""

    id: str
    status: Status
    reason: str | None
    """Why the status is not ``measured``, or what limits it."""
    placement: str | None
    """How the application and the source shared the resource, such as ``same-cpu``."""
    tolerated: Score | None
    """Highest intensity at which the application still meets its QoS; 100: never violated."""
    caused: Score | None
    """How much it disturbs the source; 0: not at all."""
    sensitive: bool | None
    """Whether a loss beyond the QoS was shown (True) or ruled out (False)."""
    curve: tuple[CurvePoint, ...]
    probe_curve: tuple[CurvePoint, ...]
    inferred: tuple[str, ...]
    """The keys that were inferred from other applications, not measured."""
    warnings: tuple[str, ...]

    def score(self, direction: Direction) -> Score | None:
        return self.tolerated if direction == "tolerated" else self.caused

    def ends_near(self, qos: float) -> bool:
        """Whether the interval of performance at full pressure lies within
        :data:`NEAR_THE_LINE` of ``qos``."""
        if not self.curve:
            return False
        point = _strongest(self.curve)
        near = all(abs(end - qos) <= NEAR_THE_LINE for end in point.interval)
        return near and point.intensity >= FULL_PRESSURE

    def ends_above(self, qos: float) -> bool:
        """Whether all of the interval of performance at the highest intensity keeps ``qos``."""
        return bool(self.curve) and _strongest(self.curve).interval[0] >= qos

    def loss(self, direction: Direction = "tolerated") -> Loss | None:
        """Loss at the highest intensity measured: of the application, or with
        ``caused`` of the source beside it. None without a curve.

        The application's is at a lower intensity where the entry is sensitive and that
        one certainly costs more.
        """
        curve = self.curve if direction == "tolerated" else self.probe_curve
        if not curve:
            return None
        point = _strongest(curve)
        if direction == "tolerated" and self.sensitive:
            costlier = [it for it in curve if it.interval[1] < point.interval[0]]
            point = min(costlier, key=lambda it: it.performance, default=point)
        low, high = point.interval
        return Loss(
            _loss_percent(point.performance),
            (_loss_percent(high), _loss_percent(low)),
            point.intensity,
            point.windows,
        )

    def why_no_score(self) -> str:
        """Why a score is missing, in words."""
        if self.reason:
            return self.reason
        return {
            "not-shared": "not shared on this machine",
            "unavailable": "unavailable",
        }.get(self.status, "open: a longer measurement decides more")

    @property
    def is_measurable(self) -> bool:
        """False where the machine does not share the resource or cannot stress it."""
        return self.status not in ("not-shared", "unavailable")


def _strongest(curve: tuple[CurvePoint, ...]) -> CurvePoint:
    """The point at the highest intensity; of several there, the last."""
    return max(reversed(curve), key=lambda point: point.intensity)


def _loss_percent(performance: float) -> float:
    return 100.0 * (1.0 - performance)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured."""

    fingerprint: str
    model: str
    cpus: int
    smt: bool
    kernel: str
    memory_bytes: int
    virtualized: str | None


@dataclass(frozen=True, slots=True)
class Metric:
    """How performance was read. ``baseline`` is the level without interference, in
    ``unit``; ``direction`` is ``higher`` or ``lower``, whichever is better."""

    name: str
    unit: str
    direction: str
    baseline: Estimate | None


@dataclass(frozen=True, slots=True)
class Conditions:
    """How it was measured. Durations are seconds, shares percent."""

    recorded_at: str
    duration_seconds: float
    budget_seconds: float
    tool_version: str
    seed: int
    quick: bool
    noise_percent: float | None
    smallest_detectable_percent: float | None
    max_intensity_percent: float | None
    steal_percent: float | Unavailable
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """A sensitivity vector, and the conditions it was measured under."""

    path: str
    name: str
    command: tuple[str, ...]
    labels: Mapping[str, str]
    machine: Machine
    metric: Metric
    qos: float
    """Fraction of the baseline, 0–1, that counts as performance kept."""
    conditions: Conditions
    resources: Mapping[str, Resource]
    """By id, in the order of :data:`RESOURCES`, unknown ones last."""
    quantities: Mapping[str, Quantity | Unavailable] | None
    """What the application used by itself; None where that was not recorded."""
    partial: bool
    """Whether the measurement was cut short."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The whole document, also what this class does not show."""

    def verdict(self, resource: str) -> Verdict:
        """What is said of a resource in a word, as ``jostle show`` says it.

        ``at the line``: full pressure brings performance to the QoS threshold, or within
        2.5 points of it for all that its interval says. ``none seen``: no loss beyond
        the QoS up to the limit on intensity, or too few blocks to exclude one. ``open``:
        time and noise did not allow a verdict.
        """
        entry = self.resources[resource]
        if entry.sensitive is not None:
            return "sensitive" if entry.sensitive else "insensitive"
        if entry.ends_near(self.qos):
            return "at the line"
        if entry.status == "measured" and entry.tolerated is not None:
            limit = self.conditions.max_intensity_percent
            at_limit = limit is not None and entry.tolerated.value >= limit
            kept = entry.tolerated.value >= 100 and entry.ends_above(self.qos)
            return "none seen" if at_limit or kept else "at the line"
        return "open"

    def use(self, resource: str) -> Use | Unavailable:
        """Share of the peak of a resource that the application used by itself; the
        largest, where several quantities are of one resource."""
        if self.quantities is None:
            return Unavailable("what the application used by itself is not in this file")
        found: list[Use] = []
        reasons: list[str] = []
        for name, quantity in self.quantities.items():
            if isinstance(quantity, Unavailable):
                if QUANTITY_OF.get(name) == resource:
                    reasons.append(f"{name}: {quantity.reason}")
            elif quantity.resource != resource:
                continue
            elif isinstance(quantity.share, Unavailable):
                reasons.append(f"{name}: {quantity.share.reason}")
            else:
                found.append(Use(quantity.share.value, quantity.share.interval, name))
        if found:
            return max(reversed(found), key=lambda use: use.value)
        return Unavailable("; ".join(reasons) or "nothing that was read tells its use of this resource")

    def _by_eviction(self, entry: Resource) -> float | None:
        """The loss to a source of the last-level cache alone, percent, where the source of
        ``entry`` costs the application somewhat more, by evicting that cache and nothing
        else; None otherwise."""
        cache = self.resources.get("llc-capacity")
        if entry.id not in ("memory-bandwidth", "llc-bandwidth") or cache is None:
            return None
        losses = [it.loss() for it in (entry, cache) if it.sensitive]
        source = entry.loss("caused")
        takes_little = source is not None and source.value <= LITTLE
        if len(losses) < 2 or None in losses or not takes_little:
            return None
        stream, without = (loss.value for loss in losses)
        return without if stream >= without >= MOST_OF_IT * stream else None

    def _by_refills(self, entry: Resource) -> bool:
        """Whether what the source of ``entry`` costs the application, a stream, is its
        reading back of the lines of the last-level cache that the application evicts."""
        memory, near = (self.resources.get(id) for id in ("memory-bandwidth", "llc-bandwidth"))
        if entry.id not in ("llc-capacity", "llc-bandwidth") or memory is None or near is None:
            return False
        if not (memory.curve and entry.curve and memory.probe_curve and near.probe_curve):
            return False
        # One that loses without the memory has lost its CPU.
        taken = _loss_percent(_strongest(memory.probe_curve).interval[1]) > LITTLE
        left = _loss_percent(_strongest(near.probe_curve).performance) <= LITTLE
        losses = [_loss_percent(_strongest(it.curve).performance) for it in (memory, entry)]
        return taken and left and losses[0] >= MOST_OF_IT * losses[1]

    def by_sensitivity(self) -> list[Resource]:
        """All resources, most sensitive first, in the order of ``jostle show``."""

        def group(entry: Resource) -> int:
            if entry.sensitive:
                return 0
            if entry.status in ("measured", "inferred") and entry.tolerated is not None:
                return 1
            return {"unavailable": 3, "not-shared": 4}.get(entry.status, 2)

        def rank(entry: Resource) -> tuple[int, float, bool, str]:
            loss = entry.loss()
            if loss is None:
                return group(entry), float("inf"), False, entry.id
            after = False
            value = loss.value
            if (evicts := self._by_eviction(entry)) is not None:
                value, after = evicts, True
            elif self._by_refills(entry) and group(memory := self.resources["memory-bandwidth"]) == group(entry):
                bandwidth = memory.loss()
                assert bandwidth is not None
                value, after = min(value, bandwidth.value), True
            return group(entry), -value, after, entry.id

        return sorted(self.resources.values(), key=rank)

    def to_frame(self) -> Any:
        """The rows of this profile; see :func:`jostle_profiles.to_frame`."""
        from .frames import to_frame

        return to_frame([self])


QUANTITY_OF = {
    "cpu": "cpu-time",
    "resident": "memory-capacity",
    "page-cache": "memory-capacity",
    "memory-traffic": "memory-bandwidth",
    "llc-occupancy": "llc-capacity",
    "storage": "storage-bandwidth",
    "network-sent": "network-bandwidth",
}
"""The resource that a quantity is about, which a file does not say where the quantity
is unavailable."""
