"""What the tests share: where the repository is, and how a skip is said.

The tests run against whatever jostle_profiles is installed, and read the recorded
profiles of the repository.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot
import pytest

import jostle_profiles as jp

matplotlib.use("Agg")

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ROOT / "profiles"
SAMPLE = PROFILES / "demo-kv.json"


def skip(need: str, reason: str) -> None:
    """Skips the running test as the tests in Rust do."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "a test").split(" ")[0]
    line = f"skipped {test}: needs {need}: {reason}"
    if need in os.environ.get("JOSTLE_REQUIRE", "").split(","):
        pytest.fail(f"{line}; JOSTLE_REQUIRE names {need}")
    if path := os.environ.get("JOSTLE_SKIPS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
    pytest.skip(line)


@pytest.fixture
def jostle() -> str:
    """The program: of the environment, or as cargo built it here."""
    built = [ROOT / "target" / kind / "jostle" for kind in ("release", "debug")]
    for path in built if not os.environ.get("JOSTLE") else []:
        if path.exists():
            return str(path)
    try:
        return jp.find_jostle()
    except jp.JostleNotFoundError as error:
        skip("jostle", str(error))
        raise


@pytest.fixture(scope="session")
def recorded() -> jp.Profiles:
    return jp.load(PROFILES)


@pytest.fixture(autouse=True)
def closed_figures() -> Any:
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes the sample profile with some keys set, ``{"workload.name": "x"}``, into a
    file; a value of None removes the key."""

    def write(name: str = "a.json", keys: dict[str, Any] | None = None) -> Path:
        document = json.loads(SAMPLE.read_text())
        for key, value in (keys or {}).items():
            at: Any = document
            *path, last = key.split("/")
            for part in path:
                at = at[int(part)] if isinstance(at, list) else at[part]
            if value is None:
                del at[last]
            else:
                at[last] = value
        file = tmp_path / name
        file.write_text(json.dumps(document))
        return file

    return write
