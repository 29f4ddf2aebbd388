"""Measured co-locations: ``jostle-pairs/1``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._document import LONGEST_BYTES
from ._document import Node
from ._document import Problem
from ._document import parse
from ._document import read_bytes
from ._extras import typed_frame
from .errors import ProfileError
from .model import Estimate
from .model import Unavailable

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS: dict[str, str] = {
    "group": "int64",
    "placement": "object",
    "name": "object",
    "beside": "object",
    "performance": "float64",
    "performance_low": "float64",
    "performance_high": "float64",
    "status": "object",
    "blocks": "Int64",
    "apart": "float64",
    "unit": "object",
    "recorded_at": "object",
    "reason": "object",
}


@dataclass(frozen=True, slots=True)
class Member:
    """One application of a group that ran together.

    ``performance`` is its speed together as a fraction of its speed apart, above 1
    where it was measured so. ``apart`` is its speed apart, in ``unit``.
    """

    group: int
    placement: str
    name: str
    beside: tuple[str, ...]
    performance: Estimate | Unavailable
    status: str | None
    """``measured`` or ``unresolved``: the interval is wide."""
    blocks: int | None
    apart: float | None
    unit: str | None
    recorded_at: str


@dataclass(frozen=True, slots=True)
class Pairs:
    """What applications cost each other on one machine."""

    path: str
    model: str
    machine: str
    members: tuple[Member, ...]

    def to_frame(self) -> DataFrame:
        """One row per group and member: shape (members, 13).

        ``performance`` is a fraction of the speed apart, with its 95 % interval
        ``performance_low``, ``performance_high``; NaN where it is unknown, for the
        ``reason`` in that column. ``apart`` is the speed apart in ``unit``.
        """
        rows = [_row(member) for member in self.members]
        table: DataFrame = typed_frame("Pairs.to_frame", rows, COLUMNS)
        return table


def load_pairs(
    path: str | os.PathLike[str], *, longest_bytes: int = LONGEST_BYTES
) -> Pairs:
    """Reads measured co-locations, as ``jostle pairs --out`` writes them.

    Raises ProfileError, which names the file, the key and the fix.
    """
    data = read_bytes(path, longest_bytes)
    try:
        root = parse(data, "jostle-pairs", "file of jostle pairs")
        recorded_at = root.at("recorded_at").text()
        members: list[Member] = []
        for number, group in enumerate(root.at("groups").elements()):
            members += _group(number, group, recorded_at)
        machine = root.at("machine")
        return Pairs(
            path=os.fspath(path),
            model=machine.at("model").text(),
            machine=machine.at("fingerprint").text(),
            members=tuple(members),
        )
    except Problem as problem:
        raise ProfileError(path, str(problem)) from None


def _group(number: int, node: Node, recorded_at: str) -> list[Member]:
    members = node.at("members")
    elements = members.elements()
    if len(elements) < 2:
        raise members.refuse(f"holds {len(elements)}; a group has two or more")
    names = [element.at("app").text() for element in elements]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise elements[at].at("app").refuse(f"`{name}` is the name of two members; rename one")
    moment = node.maybe("recorded_at")
    return [
        _member(
            element,
            number,
            node.at("placement").one_of("same-cpu", "same-llc", "own-cpus"),
            names[:at] + names[at + 1 :],
            moment.text() if moment else recorded_at,
        )
        for at, element in enumerate(elements)
    ]


def _member(
    node: Node, group: int, placement: str, beside: list[str], recorded_at: str
) -> Member:
    metric = node.at("metric")
    performance = node.at("performance")
    reason = performance.unavailable()
    known = reason is None
    apart = performance.maybe("apart") if known else None
    return Member(
        group=group,
        placement=placement,
        name=node.at("app").text(),
        beside=tuple(beside),
        performance=Estimate(performance.at("value").number(low=0.0), performance.at("ci95").interval())
        if reason is None
        else Unavailable(reason),
        status=performance.at("status").text() if known else None,
        blocks=performance.at("blocks").count() if known else None,
        apart=apart.at("value").number() if apart else None,
        unit=metric.at("unit").text() if metric.unavailable() is None else None,
        recorded_at=recorded_at,
    )


def _row(member: Member) -> dict[str, object]:
    row: dict[str, object] = {
        "group": member.group,
        "placement": member.placement,
        "name": member.name,
        "beside": ", ".join(member.beside),
        "status": member.status,
        "blocks": member.blocks,
        "apart": member.apart,
        "unit": member.unit,
        "recorded_at": member.recorded_at,
    }
    if isinstance(member.performance, Unavailable):
        row["reason"] = member.performance.reason
    else:
        row |= {
            "performance": member.performance.value,
            "performance_low": member.performance.interval[0],
            "performance_high": member.performance.interval[1],
        }
    return row
