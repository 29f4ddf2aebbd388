"""Predicts co-locations with the program ``jostle``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import Literal

from ._document import Node
from ._document import Problem
from ._extras import pandas
from .errors import JostleError
from .errors import JostleNotFoundError
from .model import Profile

if TYPE_CHECKING:
    from pandas import DataFrame

StrPath = str | os.PathLike[str]

APPLICATION: dict[str, str] = {
    "file": "object",
    "name": "object",
    "performance": "float64",
    "performance_low": "float64",
    "performance_high": "float64",
    "qos": "float64",
    "chance_of_qos": "float64",
    "most_costly": "object",
    "basis": "object",
    "unknown": "int64",
    "reason": "object",
}
RESOURCE: dict[str, str] = {
    "file": "object",
    "name": "object",
    "resource": "object",
    "pressure": "float64",
    "pressure_sd": "float64",
    "performance": "float64",
    "performance_low": "float64",
    "performance_high": "float64",
    "assumed": "boolean",
    "whose": "object",
    "direction": "object",
    "reason": "object",
}


def predict(
    profiles: Profile | StrPath | Iterable[Profile | StrPath],
    *,
    shares_cpus: bool = False,
    by: Literal["application", "resource"] = "application",
    population: StrPath | None = None,
    jostle: StrPath | None = None,
    timeout: float = 60.0,
) -> DataFrame:
    """What applications keep of their performance beside each other, by
    ``jostle predict --json``.

    ``profiles`` are loaded profiles or their files; one given twice stands for two
    instances. ``shares_cpus``: they time-share the same CPUs, otherwise each has CPUs
    of its own. ``population``: directory of profiles that stands in for what a profile
    leaves open; default: the profiles recorded with that version of ``jostle``.

    The program is ``jostle`` (a path, or a name on the PATH), else the environment
    variable JOSTLE, else ``jostle`` on the PATH. ``timeout`` is in seconds.

    ``by="application"``: shape (profiles, 11), one row for each in the order given.
    ``performance`` is a fraction (0–1) of that without interference, with its 95 %
    interval; ``chance_of_qos`` the chance (0–1) that it is at least ``qos``;
    ``unknown`` the number of facts that would matter and are missing from it. Where
    ``performance`` is NaN, ``reason`` says why.

    ``by="resource"``: one row per application and resource: ``pressure`` of the others
    (0–100) with its standard deviation, and what it leaves of the performance.
    ``assumed``: from the population, not measured. What is missing from the
    product has NaN, whose profile lacks which ``direction``, and the ``reason``.

    ``frame.attrs["notes"]`` holds what ``jostle`` says about the prediction.

    Raises JostleNotFoundError, and JostleError with the program's own words when it
    refuses or fails.
    """
    if by not in ("application", "resource"):
        raise ValueError(f"by is '{by}'; it is application or resource")
    frame = pandas("predict")
    files = _files(profiles)
    command = [find_jostle(jostle), "predict", "--json"]
    if shares_cpus:
        command.append("--shares-cpus")
    if population is not None:
        command += ["--population", os.fspath(population)]
    answer = _run([*command, "--", *files], timeout)
    try:
        applications = answer.at("applications").elements()
        notes = [note.text() for note in answer.at("notes").elements()]
        if by == "application":
            rows = [_application(node) for node in applications]
        else:
            rows = [row for node in applications for row in _resources(node)]
    except Problem as problem:
        raise JostleError(
            f"{command[0]} predict --json: {problem}; this jostle-profiles does not match that jostle"
        ) from None
    kinds = APPLICATION if by == "application" else RESOURCE
    columns = {
        name: frame.Series([row.get(name) for row in rows], dtype=kind)
        for name, kind in kinds.items()
    }
    result: DataFrame = frame.DataFrame(columns)
    result.attrs["notes"] = notes
    return result


def find_jostle(jostle: StrPath | None = None) -> str:
    """The path of the program ``jostle``: of the argument, else of the environment
    variable JOSTLE, else on the PATH. Raises JostleNotFoundError."""
    fix = (
        "install it (`cargo install --path .` in the repository of Jostle), put it on the PATH, "
        "or name it with the argument jostle or the environment variable JOSTLE"
    )
    named = os.environ.get("JOSTLE") or None
    asked, origin = (named, "environment variable JOSTLE") if jostle is None else (os.fspath(jostle), "argument jostle")
    found = shutil.which(asked or "jostle")
    if found:
        return found
    if asked:
        raise JostleNotFoundError(f"{origin}: {asked} is not a program that can be run; {fix}")
    raise JostleNotFoundError(f"the program jostle is not on the PATH; {fix}")


def _files(profiles: Profile | StrPath | Iterable[Profile | StrPath]) -> list[str]:
    if isinstance(profiles, (Profile, str, os.PathLike)):
        profiles = [profiles]
    files = [
        profile.path if isinstance(profile, Profile) else os.fspath(profile) for profile in profiles
    ]
    if not files:
        raise ValueError("no profile was given; predict needs at least one")
    return files


def _run(command: Sequence[str], timeout: float) -> Node:
    name = f"{command[0]} predict"
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise JostleError(f"{name}: no answer in {timeout:g} s; give a longer timeout") from None
    except OSError as error:
        raise JostleError(
            f"{name}: cannot be run: {error.strerror}; name a program for this machine with the argument jostle"
        ) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or "it said nothing"
        raise JostleError(f"{name} ended with exit code {done.returncode}: {said}")
    try:
        document: Any = json.loads(done.stdout)
    except ValueError as error:
        raise JostleError(
            f"{name} --json: its answer is not JSON ({error}); is it the program of Jostle?"
        ) from None
    return Node(document, "")


def _application(node: Node) -> dict[str, Any]:
    unknown = node.at("not_known").elements()
    row: dict[str, Any] = {
        "file": node.at("file").text(),
        "name": node.at("name").text(),
        "qos": node.at("qos").number(),
        "basis": node.at("basis").text(),
        "unknown": len(unknown),
    }
    most_costly = node.maybe("most_costly")
    row["most_costly"] = most_costly.text() if most_costly else None
    if node.maybe("performance"):
        low, high = node.at("ci95").interval()
        row |= {
            "performance": node.at("performance").number(),
            "performance_low": low,
            "performance_high": high,
            "chance_of_qos": node.at("chance_of_qos").number(),
        }
    else:
        row["reason"] = "neither its profile nor the population holds a curve that counts here"
    return row


def _resources(node: Node) -> list[dict[str, Any]]:
    who = {"file": node.at("file").text(), "name": node.at("name").text()}
    rows: list[dict[str, Any]] = []
    for known in node.at("resources").elements():
        low, high = known.at("ci95").interval()
        assumed = known.maybe("assumed")
        rows.append(
            who
            | {
                "resource": known.at("resource").text(),
                "pressure": known.at("pressure").number(),
                "pressure_sd": known.at("pressure_sd").number(),
                "performance": known.at("performance").number(),
                "performance_low": low,
                "performance_high": high,
                "assumed": assumed.flag() if assumed else False,
            }
        )
    for missing in node.at("not_known").elements():
        rows.append(
            who
            | {
                "resource": missing.at("resource").text(),
                "whose": missing.at("whose").text(),
                "direction": missing.at("half").text(),
                "reason": missing.at("why").text(),
            }
        )
    return rows
