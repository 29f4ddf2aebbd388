"""Loads profiles: a file, several, or directories of them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import overload

from ._document import LONGEST_BYTES
from ._document import Node
from ._document import Problem
from ._document import format_of
from ._document import parse
from ._document import read_bytes
from .errors import ProfileError
from .errors import ProfileWarning
from .model import RESOURCES
from .model import STATUSES
from .model import Conditions
from .model import CurvePoint
from .model import Estimate
from .model import Machine
from .model import Metric
from .model import Profile
from .model import Quantity
from .model import Resource
from .model import Score
from .model import Unavailable

StrPath = str | os.PathLike[str]

MOST_PERFORMANCE = 1e6
MOST_POINTS = 1000
ROUNDING = 1e-6
"""The limits of the program ``jostle`` for a curve and a score."""


class Profiles(Sequence[Profile]):
    """Profiles in the order in which they were named, and what was left out.

    ``profiles[0]`` is the first, ``profiles["redis"]`` the one of that name.
    """

    def __init__(
        self,
        profiles: Iterable[Profile],
        refused: Iterable[ProfileError] = (),
        others: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._profiles = tuple(profiles)
        self.refused: tuple[ProfileError, ...] = tuple(refused)
        """Files of a directory that could not be used."""
        self.others: tuple[tuple[str, str], ...] = tuple(others)
        """Path and format of other documents of Jostle in a directory, such as
        ``jostle-pairs/1``, and of JSON Schemas."""

    @property
    def names(self) -> list[str]:
        """Names of the applications, one for each profile."""
        return [profile.name for profile in self._profiles]

    def to_frame(self) -> Any:
        """One row per application, resource and direction; see
        :func:`jostle_profiles.to_frame`."""
        from .frames import to_frame

        return to_frame(self)

    def to_wide(self, value: str = "loss_percent", direction: str = "tolerated") -> Any:
        """Applications by resources; see :func:`jostle_profiles.to_wide`."""
        from .frames import to_wide

        return to_wide(self, value, direction)

    def __len__(self) -> int:
        return len(self._profiles)

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._profiles)

    @overload
    def __getitem__(self, key: int | str) -> Profile: ...
    @overload
    def __getitem__(self, key: slice) -> Profiles: ...

    def __getitem__(self, key: int | str | slice) -> Profile | Profiles:
        if isinstance(key, slice):
            return Profiles(self._profiles[key], self.refused, self.others)
        if isinstance(key, str):
            found = [profile for profile in self._profiles if profile.name == key]
            if len(found) == 1:
                return found[0]
            if found:
                paths = ", ".join(profile.path for profile in found)
                raise KeyError(f"{key} is the name of {len(found)} profiles ({paths}); use their index")
            raise KeyError(f"no profile of the name {key}; there are {', '.join(self.names) or 'none'}")
        return self._profiles[key]

    def __repr__(self) -> str:
        some = self.names[:6] + (["…"] if len(self) > 6 else [])
        count = "1 profile" if len(self) == 1 else f"{len(self)} profiles"
        return f"<{count}: {', '.join(some) or 'none'}>"


def load_file(path: StrPath, *, longest_bytes: int = LONGEST_BYTES) -> Profile:
    """Reads one profile and checks it.

    Raises ProfileError, which names the file, the key and the fix, when it cannot
    be read, is longer than ``longest_bytes``, is not JSON, is not a profile or one
    of a newer format, or holds a number outside its scale.
    """
    data = read_bytes(path, longest_bytes)
    try:
        return _profile(os.fspath(path), parse(data, "jostle-profile", "jostle profile"))
    except Problem as problem:
        raise ProfileError(path, str(problem)) from None


def load(
    *paths: StrPath | Iterable[StrPath], longest_bytes: int = LONGEST_BYTES
) -> Profiles:
    """Reads profiles: files, directories, or lists of either, in that order.

    A file that is named must be a profile, else ProfileError is raised. Of a
    directory every ``*.json`` is read, in the order of file names, without
    subdirectories; a file in it that cannot be used is left out with a
    ProfileWarning and is listed in ``refused``. Other documents of Jostle and JSON
    Schemas in it are listed in ``others``. A directory without a profile raises
    ProfileError.

    Several profiles of one name in a directory raise a ProfileWarning; all of them
    are kept.
    """
    profiles: list[Profile] = []
    refused: list[ProfileError] = []
    others: list[tuple[str, str]] = []
    for path in _flat(paths):
        if os.path.isdir(path):
            found = _load_directory(path, longest_bytes)
            profiles += found
            refused += found.refused
            others += found.others
        else:
            profiles.append(load_file(path, longest_bytes=longest_bytes))
    if not profiles:
        raise ValueError("no path was given; name a profile or a directory of profiles")
    return Profiles(profiles, refused, others)


def _flat(paths: Iterable[StrPath | Iterable[StrPath]]) -> Iterator[StrPath]:
    for path in paths:
        if isinstance(path, (str, os.PathLike)):
            yield path
        elif isinstance(path, Iterable) and not isinstance(path, (bytes, bytearray)):
            yield from _flat(path)
        else:
            raise TypeError(f"a path is a str or an os.PathLike, not {type(path).__name__}")


def _load_directory(directory: StrPath, longest_bytes: int) -> Profiles:
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise ProfileError(
            directory, f"cannot be listed: {error.strerror}; change its permissions"
        ) from error
    profiles: list[Profile] = []
    refused: list[ProfileError] = []
    others: list[tuple[str, str]] = []
    for name in names:
        path = os.path.join(os.fspath(directory), name)
        if not name.endswith(".json") or os.path.isdir(path):
            continue
        if name.endswith(".schema.json"):
            others.append((path, "JSON Schema"))
            continue
        try:
            data = read_bytes(path, longest_bytes)
            try:
                root = parse(data, "jostle-profile", "jostle profile")
                profiles.append(_profile(path, root))
            except Problem as problem:
                found = format_of(data)
                family = (found or "").partition("/")[0]
                if found and family.startswith("jostle-") and family != "jostle-profile":
                    others.append((path, found))
                    continue
                raise ProfileError(path, str(problem)) from None
        except ProfileError as error:
            refused.append(error)
            warnings.warn(f"left out: {error}", ProfileWarning, stacklevel=3)
    if not profiles:
        why = "no *.json in it is a jostle profile" if refused or others else "no *.json in it"
        first = f"; the first that was refused: {refused[0]}" if refused else ""
        raise ProfileError(directory, f"{why}; name a directory of profiles{first}")
    _warn_of_equal_names(profiles)
    return Profiles(profiles, refused, others)


def _warn_of_equal_names(profiles: list[Profile]) -> None:
    first: dict[str, str] = {}
    for profile in profiles:
        known = first.setdefault(profile.name, profile.path)
        if known != profile.path:
            warnings.warn(
                f"{profile.path}: workload.name `{profile.name}` is also used by {known}; both are kept; "
                "rename one of the two, or merge runs of one program with `jostle merge`",
                ProfileWarning,
                stacklevel=4,
            )


def _profile(path: str, root: Node) -> Profile:
    workload = root.at("workload")
    name = workload.at("name").text()
    if not name.strip():
        raise Problem("key `workload.name`: is empty; a profile needs a workload name")
    command = workload.maybe("command")
    labels = workload.maybe("labels")
    qos = root.at("qos").at("threshold")
    if not 0.0 < qos.number() <= 1.0:
        raise qos.refuse(
            f"is {qos.value:g}; it is a fraction of the baseline, above 0 and at most 1"
        )
    entries = {id: _resource(id, entry) for id, entry in root.at("resources").items()}
    usage = root.maybe("usage")
    quantities = usage.maybe("quantities") if usage else None
    partial = root.maybe("partial")
    return Profile(
        path=path,
        name=name,
        command=tuple(word.text() for word in command.elements()) if command else (),
        labels={key: label.text() for key, label in labels.items()} if labels else {},
        machine=_machine(root.at("machine")),
        metric=_metric(root.at("metric")),
        qos=qos.number(),
        conditions=_conditions(root.at("conditions")),
        resources={id: entries[id] for id in sorted(entries, key=resource_order)},
        quantities={id: _quantity(it) for id, it in quantities.items()} if quantities else None,
        partial=partial.flag() if partial else False,
        raw=root.object(),
    )


def resource_order(id: str) -> tuple[int, str]:
    """A key that sorts resources from the CPU outwards, unknown ones last."""
    return (RESOURCES.index(id), "") if id in RESOURCES else (len(RESOURCES), id)


def _machine(node: Node) -> Machine:
    virtualized = node.maybe("virtualized")
    return Machine(
        fingerprint=node.at("fingerprint").text(),
        model=node.at("model").text(),
        cpus=node.at("cpus").count(),
        smt=node.at("smt").flag(),
        kernel=node.at("kernel").text(),
        memory_bytes=node.at("memory_bytes").count(),
        virtualized=virtualized.text() if virtualized else None,
    )


def _metric(node: Node) -> Metric:
    baseline = node.maybe("baseline")
    level = _estimate(baseline) if baseline else None
    if baseline and level and level.value <= 0.0:
        raise baseline.at("value").refuse(
            f"is {level.value:g}; performance is a fraction of it, so it is above 0"
        )
    return Metric(
        name=node.at("name").text(),
        unit=node.at("unit").text(),
        direction=node.at("direction").one_of("higher", "lower"),
        baseline=level,
    )


def _conditions(node: Node) -> Conditions:
    def level(key: str) -> float | None:
        found = node.maybe(key)
        return found.number(low=0.0) if found else None

    limit = node.maybe("max_intensity_percent")
    steal = node.at("steal_percent")
    reason = steal.unavailable()
    return Conditions(
        recorded_at=node.at("recorded_at").text(),
        duration_seconds=node.at("duration_seconds").number(low=0.0),
        budget_seconds=node.at("budget_seconds").number(low=0.0),
        tool_version=node.at("tool_version").text(),
        seed=node.at("seed").count(),
        quick=node.at("quick").flag(),
        noise_percent=level("noise_percent"),
        smallest_detectable_percent=level("smallest_detectable_percent"),
        max_intensity_percent=limit.number(0.0, 100.0) if limit else None,
        steal_percent=steal.number(low=0.0) if reason is None else Unavailable(reason),
        warnings=_texts(node, "doubts"),
    )


def _resource(id: str, node: Node) -> Resource:
    reason = node.maybe("reason")
    placement = node.maybe("placement")
    sensitive = node.maybe("sensitive")
    inferred = node.maybe("inferred")
    return Resource(
        id=id,
        status=node.at("status").one_of(*STATUSES),  # type: ignore[arg-type]
        reason=reason.text() if reason else None,
        placement=placement.at("mode").text() if placement else None,
        tolerated=_score(node.maybe("tolerated")),
        caused=_score(node.maybe("caused")),
        sensitive=sensitive.flag() if sensitive else None,
        curve=_curve(node.maybe("curve")),
        probe_curve=_curve(node.maybe("probe_curve")),
        inferred=_texts(inferred, "what") if inferred else (),
        warnings=_texts(node, "doubts"),
    )


def _score(node: Node | None) -> Score | None:
    if node is None:
        return None
    score = node.at("score")
    value = score.number(0.0, 100.0)
    low, high = node.at("ci95").interval()
    if not low - ROUNDING <= value <= high + ROUNDING:
        raise score.refuse(f"is {value:g}, outside of its interval [{low:g}, {high:g}]")
    return Score(value, (low, high))


def _curve(node: Node | None) -> tuple[CurvePoint, ...]:
    if node is None:
        return ()
    elements = node.elements()
    if len(elements) > MOST_POINTS:
        raise node.refuse(f"has {len(elements)} points; at most {MOST_POINTS}")
    points: list[CurvePoint] = []
    for element in elements:
        intensity = element.at("intensity")
        percent = intensity.number(0.0, 100.0)
        if points and percent < points[-1].intensity:
            raise intensity.refuse(f"is {percent:g} after {points[-1].intensity:g}; lowest first")
        performance = element.at("performance").number(0.0, MOST_PERFORMANCE)
        interval = element.at("ci95").interval()
        points.append(CurvePoint(percent, performance, interval, element.at("windows").count()))
    return tuple(points)


def _estimate(node: Node) -> Estimate:
    return Estimate(node.at("value").number(), node.at("ci95").interval())


def _quantity(node: Node) -> Quantity | Unavailable:
    reason = node.unavailable()
    if reason is not None:
        return Unavailable(reason)
    resource = node.maybe("resource")
    share = node.at("share")
    reason = share.unavailable()
    if reason is None:
        percent = share.at("percent").number(low=0.0)
        of_peak: Estimate | Unavailable = Estimate(percent, share.at("ci95").interval())
    else:
        of_peak = Unavailable(reason)
    return Quantity(
        value=node.at("value").number(low=0.0),
        interval=node.at("ci95").interval(),
        unit=node.at("unit").text(),
        of=node.at("of").text(),
        resource=resource.text() if resource else None,
        share=of_peak,
    )


def _texts(node: Node, key: str) -> tuple[str, ...]:
    found = node.maybe(key)
    return tuple(text.text() for text in found.elements()) if found else ()
