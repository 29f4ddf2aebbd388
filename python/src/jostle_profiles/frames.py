"""Profiles as pandas data frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any
from typing import get_args

from ._extras import pandas
from ._extras import typed_frame
from .loading import resource_order
from .model import DIRECTIONS
from .model import Direction
from .model import Profile
from .model import Resource
from .model import Unavailable

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS: dict[str, str] = {
    "file": "object",
    "name": "object",
    "machine": "object",
    "model": "object",
    "metric": "object",
    "unit": "object",
    "recorded_at": "object",
    "duration_seconds": "float64",
    "resource": "object",
    "direction": "object",
    "status": "object",
    "placement": "object",
    "score": "float64",
    "score_low": "float64",
    "score_high": "float64",
    "reason": "object",
    "sensitive": "boolean",
    "verdict": "object",
    "intensity_percent": "float64",
    "loss_percent": "float64",
    "loss_low_percent": "float64",
    "loss_high_percent": "float64",
    "windows": "Int64",
    "loss_reason": "object",
    "use_percent": "float64",
    "use_low_percent": "float64",
    "use_high_percent": "float64",
    "use_reason": "object",
}
"""Columns of :func:`to_frame` and their types."""


def to_frame(profiles: Iterable[Profile]) -> DataFrame:
    """One row per application, resource and direction: shape (rows, 28).

    The columns are those of ``jostle profiles export`` and some more:

    - ``score`` (0–100) with its 95 % interval ``score_low``, ``score_high``, and
      ``reason``: why there is no score;
    - ``loss_percent`` at ``intensity_percent``, the highest that was measured, with
      its interval ``loss_low_percent``, ``loss_high_percent``, the ``windows`` behind
      it, and ``loss_reason``: why there is no loss. In rows of ``tolerated`` it is the
      loss of the application, in rows of ``caused`` that of the source;
    - ``use_percent`` of the peak with its interval, and ``use_reason``; the same in
      both rows of a resource;
    - ``sensitive`` and ``verdict``, in rows of ``tolerated`` only.

    What is not known is NaN, never 0, and its reason column says why; where there is
    a number, the reason is empty.
    """
    rows = [
        _row(profile, entry, direction)
        for profile in _listed(profiles)
        for entry in profile.resources.values()
        for direction in DIRECTIONS
    ]
    table: DataFrame = typed_frame("to_frame", rows, COLUMNS)
    return table


def to_wide(
    profiles: Iterable[Profile], value: str = "loss_percent", direction: str = "tolerated"
) -> DataFrame:
    """Applications by resources: shape (profiles, resources), of one column ``value``
    of :func:`to_frame`.

    The index holds the names of the applications in the order of the profiles, where
    one is there twice with its file; columns are the resources from the CPU outwards.
    What is not known, or not in a profile, is NaN; ``to_wide(profiles, "reason")`` has
    the reasons of scores, ``"loss_reason"`` and ``"use_reason"`` those of the others.
    """
    frame = pandas("to_wide")
    if value not in COLUMNS:
        raise ValueError(f"value is '{value}'; it is one of {', '.join(COLUMNS)}")
    if direction not in get_args(Direction):
        raise ValueError(f"direction is '{direction}'; it is one of {', '.join(DIRECTIONS)}")
    profiles = _listed(profiles)
    ids = {id for profile in profiles for id in profile.resources}
    names = frame.Index(labels(profiles), name="name", dtype="object")
    columns = {}
    for id in sorted(ids, key=resource_order):
        entries = [(profile, profile.resources.get(id)) for profile in profiles]
        cells = [
            _row(profile, entry, direction).get(value) if entry else None  # type: ignore[arg-type]
            for profile, entry in entries
        ]
        columns[id] = frame.Series(cells, index=names, dtype=COLUMNS[value])
    wide: DataFrame = frame.DataFrame(columns, index=names)
    wide.columns.name = "resource"
    return wide


def labels(profiles: Iterable[Profile]) -> list[str]:
    """The names, with the file behind those that are there more than once."""
    profiles = list(profiles)
    count = Counter(profile.name for profile in profiles)
    return [
        profile.name if count[profile.name] == 1 else f"{profile.name} ({profile.path})"
        for profile in profiles
    ]


def _listed(profiles: Iterable[Profile]) -> list[Profile]:
    if isinstance(profiles, Profile):
        return [profiles]
    profiles = list(profiles)
    for profile in profiles:
        if not isinstance(profile, Profile):
            raise TypeError(
                f"a Profile is expected, not {type(profile).__name__}; load files with jostle_profiles.load"
            )
    return profiles


def _row(profile: Profile, entry: Resource, direction: Direction) -> dict[str, Any]:
    row: dict[str, Any] = {
        "file": profile.path,
        "name": profile.name,
        "machine": profile.machine.fingerprint,
        "model": profile.machine.model,
        "metric": profile.metric.name,
        "unit": profile.metric.unit,
        "recorded_at": profile.conditions.recorded_at,
        "duration_seconds": profile.conditions.duration_seconds,
        "resource": entry.id,
        "direction": direction,
        "status": entry.status,
        "placement": entry.placement,
    }
    if direction == "tolerated":
        row |= {"sensitive": entry.sensitive, "verdict": profile.verdict(entry.id)}
    score = entry.score(direction)
    if score is None:
        row["reason"] = entry.why_no_score()
    else:
        row |= {"score": score.value, "score_low": score.interval[0], "score_high": score.interval[1]}
    loss = entry.loss(direction)
    if loss is None:
        row["loss_reason"] = entry.why_no_score()
    else:
        row |= {
            "intensity_percent": loss.intensity,
            "loss_percent": loss.value,
            "loss_low_percent": loss.interval[0],
            "loss_high_percent": loss.interval[1],
            "windows": loss.windows,
        }
    use = profile.use(entry.id)
    if isinstance(use, Unavailable):
        row["use_reason"] = use.reason
    else:
        row |= {
            "use_percent": use.value,
            "use_low_percent": use.interval[0],
            "use_high_percent": use.interval[1],
        }
    return row
