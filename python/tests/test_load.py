"""Loading: what the recorded profiles say, and what broken files are answered."""

from __future__ import annotations

import json
import re
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROFILES
from conftest import ROOT
from conftest import SAMPLE

import jostle_profiles as jp


def test_the_recorded_profiles_are_all_read(recorded):
    kinds = {}
    for path in PROFILES.glob("*.json"):
        kinds[str(path)] = json.loads(path.read_text()).get("format")
    wanted = sorted(path for path, kind in kinds.items() if kind == "jostle-profile/1")
    assert [profile.path for profile in recorded] == wanted
    assert len(recorded) >= 40
    assert recorded.refused == ()
    assert dict(recorded.others).keys() == set(kinds) - set(wanted)
    assert dict(recorded.others)[str(PROFILES / "pairs.json")] == "jostle-pairs/1"


def test_a_profile_says_what_its_file_says(recorded):
    profile = recorded["demo-kv"]
    document = json.loads(SAMPLE.read_text())
    assert profile.raw == document
    assert profile.command == ("jostle", "demo", "kv")
    assert profile.machine.memory_bytes == document["machine"]["memory_bytes"]
    assert profile.metric.baseline.value == document["metric"]["baseline"]["value"]
    assert profile.qos == 0.95
    entry = profile.resources["cpu-time"]
    written = document["resources"]["cpu-time"]
    assert entry.tolerated.value == written["tolerated"]["score"]
    assert entry.tolerated.interval == tuple(written["tolerated"]["ci95"])
    last = written["curve"][-1]
    assert entry.loss().value == pytest.approx(100 * (1 - last["performance"]))
    assert entry.loss().interval[1] == pytest.approx(100 * (1 - last["ci95"][0]))
    assert entry.loss().windows == last["windows"]
    assert profile.verdict("cpu-time") == "sensitive"
    assert profile.verdict("memory-capacity") == "open"


def test_what_is_not_known_has_a_reason(recorded, tmp_path):
    profile = recorded["xz"]
    assert profile.resources["interconnect"].tolerated is None
    assert "two CPUs" in profile.resources["interconnect"].why_no_score()
    assert not profile.resources["interconnect"].is_measurable
    use = profile.use("memory-bandwidth")
    assert isinstance(use, jp.Unavailable) and use.reason
    assert profile.use("cpu-time").value == pytest.approx(97, abs=3)
    document = json.loads(SAMPLE.read_text())
    del document["usage"]
    old = tmp_path / "old.json"
    old.write_text(json.dumps(document))
    assert "not in this file" in jp.load_file(old).use("cpu-time").reason


def test_a_file_several_and_a_directory(recorded, write):
    assert jp.load(SAMPLE)[0] == jp.load_file(str(SAMPLE)) == recorded["demo-kv"]
    several = jp.load(SAMPLE, [PROFILES / "xz.json", str(PROFILES / "gcc.json")])
    assert several.names == ["demo-kv", "xz", "gcc"]
    assert jp.load(SAMPLE, PROFILES).names[1:] == recorded.names
    assert several[1:].names == ["xz", "gcc"] and several[-1].name == "gcc"
    assert repr(several) == "<3 profiles: demo-kv, xz, gcc>"
    with pytest.raises(KeyError, match="no profile of the name nosuch; there are demo-kv, xz, gcc"):
        several["nosuch"]
    with pytest.raises(KeyError, match="is the name of 2 profiles"):
        jp.load(SAMPLE, SAMPLE)["demo-kv"]
    with pytest.raises(ValueError, match="no path was given"):
        jp.load([])
    with pytest.raises(TypeError, match="not int"):
        jp.load(3)
    assert pickle.loads(pickle.dumps(recorded["xz"])) == recorded["xz"]


def test_resources_of_a_later_version_are_kept(write):
    path = write(keys={"resources/gpu-time": {"status": "measured", "tolerated": {"score": 1, "ci95": [0, 2]}}})
    profile = jp.load_file(path)
    assert list(profile.resources)[-1] == "gpu-time"
    assert profile.resources["gpu-time"].tolerated == jp.Score(1.0, (0.0, 2.0))


def test_a_minor_version_and_unknown_keys_are_read(write):
    assert jp.load_file(write(keys={"format": "jostle-profile/1.7", "new": {"key": 1}})).raw["new"] == {"key": 1}


@pytest.mark.parametrize(
    ("content", "says", "fix"),
    [
        (b"", "the file is empty", "measure or copy it again"),
        (b" \n", "the file is empty", "measure or copy it again"),
        (SAMPLE.read_bytes()[:5000], "looks cut short", "copy or measure it again"),
        (SAMPLE.read_bytes()[:-3], "looks cut short", "copy or measure it again"),
        (b"{\"format\": nonsense, \"and\": \"much more text behind it\"}", "not valid JSON", "line 1 column 12"),
        (b"\xff\xfe{}", "not UTF-8", "name a JSON file"),
        (b"[1]", "not a jostle profile", "name another file"),
        (b"{}", "no key `format`", "name another file"),
        (b"{\"format\": 3}", "`format` is 3", "name another file"),
        (b"{\"format\": \"criterion/1\"}", "not a jostle profile", "name another file"),
        (b"{\"format\": \"jostle-pairs/1\"}", "not \"jostle-profile/1\"", "name another file"),
        (b"{\"format\": \"jostle-profile/2\"}", "needs a newer jostle-profiles", "pip install --upgrade"),
        (b"{\"format\": \"jostle-profile/12.1\"}", "needs a newer jostle-profiles", "pip install --upgrade"),
        (b"{\"format\": \"jostle-profile/0\"}", "not a version that Jostle ever wrote", "again"),
        (b"{\"format\": \"jostle-profile/x\"}", "not a version that Jostle ever wrote", "again"),
        (b"{\"format\": \"jostle-profile/1\"}", "`workload` is missing", "measure again"),
        (b"{\"format\": \"jostle-profile/1\", \"format\": \"jostle-profile/1\"}", "`format` is there twice", "keep"),
        (b"[" * 100_000, "nested too deeply", "name another file"),
        (b"{\"n\": " + b"9" * 6000 + b"}", "not valid JSON", "again"),
    ],
    ids=lambda it: it[:30].decode("latin-1") if isinstance(it, bytes) else None,
)
def test_a_broken_file_is_named_with_the_fix(tmp_path, content, says, fix):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(jp.ProfileError) as error:
        jp.load(path)
    assert str(path) in str(error.value) and says in str(error.value) and fix in str(error.value)
    assert error.value.path == str(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none(tmp_path, number):
    text = re.sub(r'"noise_percent": [0-9.]+', f'"noise_percent": {number}', SAMPLE.read_text())
    assert number in text
    path = tmp_path / "nan.json"
    path.write_text(text)
    with pytest.raises(jp.ProfileError, match="only finite numbers"):
        jp.load(path)


def test_a_resource_that_is_there_twice(tmp_path):
    text = SAMPLE.read_text()
    at = text.index('"l1d":')
    path = tmp_path / "twice.json"
    path.write_text(text[:at] + '"l1d": {"status": "unresolved"}, ' + text[at:])
    with pytest.raises(jp.ProfileError, match="key `l1d` is there twice"):
        jp.load(path)


CURVE = "resources/l2-capacity/curve"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("workload/name", " ", "key `workload.name`: is empty"),
        ("workload/name", 3, "key `workload.name`: is 3; it must be a text"),
        ("workload/name", None, "key `workload.name` is missing"),
        ("machine/smt", "no", "key `machine.smt`: is \"no\"; it must be true or false"),
        ("machine/cpus", -2, "key `machine.cpus`: is -2"),
        ("metric/direction", "up", "it is one of higher, lower"),
        ("metric/baseline/value", 0, "above 0"),
        ("metric/baseline/ci95", [2, 1], "write the lower end first"),
        ("metric/baseline/ci95", [1], "an interval has two"),
        ("qos/threshold", 1.5, "above 0 and at most 1"),
        ("conditions/duration_seconds", -1, "it is at least 0"),
        ("conditions/steal_percent", "much", "it must be a number"),
        ("resources", [], "key `resources`: is []; it must be an object"),
        ("resources/l2-capacity", 7, "key `resources.l2-capacity`: is 7; it must be an object"),
        ("resources/l2-capacity/status", "guessed", "it is one of measured"),
        ("resources/l2-capacity/tolerated/score", 101, "the scale is 0 to 100"),
        ("resources/l2-capacity/tolerated/score", True, "it must be a number"),
        ("resources/l2-capacity/tolerated/ci95", [90, 99], "outside of its interval"),
        (f"{CURVE}/0/performance", -0.1, "key `resources.l2-capacity.curve[0].performance`"),
        (f"{CURVE}/1/intensity", 0, "lowest first"),
        (f"{CURVE}/0/windows", 1.5, "whole number"),
        (CURVE, [{"intensity": 1, "performance": 1, "ci95": [1, 1], "windows": 1}] * 1001, "at most 1000"),
        ("conditions/doubts", ["a", 3], "key `conditions.doubts[1]`"),
        ("conditions/seed", 10**400, ""),
        ("conditions/noise_percent", 10**400, "larger than any number"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(write, key, value, says):
    path = write(keys={key: value})
    if not says:
        assert jp.load(path)[0].conditions.seed == value
        return
    with pytest.raises(jp.ProfileError) as error:
        jp.load(path)
    assert str(error.value).startswith(f"{path}: ") and says in str(error.value)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.json"))
        for path, says in [
            (pipe, "not a regular file"),
            ("/dev/zero", "not a regular file"),
            (tmp_path / "socket.json", "not a regular file"),
            (tmp_path / "nosuch.json", "no such file"),
            ("a\0b", "is no file name"),
        ]:
            with pytest.raises(jp.ProfileError, match=says):
                jp.load(path)
    with pytest.raises(jp.ProfileError, match="is a directory; name a file in it"):
        jp.load_file(tmp_path)


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(jp.ProfileError, match="longer than 64 MiB"):
        jp.load(path)
    with pytest.raises(jp.ProfileError, match="longer than 100 bytes"):
        jp.load(SAMPLE, longest_bytes=100)
    assert jp.load_file(SAMPLE, longest_bytes=SAMPLE.stat().st_size).name == "demo-kv"


def test_a_file_of_somebody_else(write, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    path = write()
    # Root may read every file, so that taking the permission away shows nothing.
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(jp.ProfileError, match="Permission denied; change its permissions"):
        jp.load(path)


def test_a_directory_names_what_it_leaves_out(write, tmp_path):
    write("good.json")
    (tmp_path / "cut.json").write_bytes(SAMPLE.read_bytes()[:900])
    write("future.json", {"format": "jostle-profile/2"})
    (tmp_path / "foreign.json").write_text('{"format": "criterion/1"}')
    (tmp_path / "other.json").write_text('{"format": "jostle-pairs/1"}')
    (tmp_path / "x.schema.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("not read")
    (tmp_path / "sub.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    os.symlink("nowhere", tmp_path / "link.json")
    with pytest.warns(jp.ProfileWarning) as caught:
        profiles = jp.load(tmp_path)
    assert profiles.names == ["demo-kv"]
    names = [Path(error.path).name for error in profiles.refused]
    assert names == ["cut.json", "foreign.json", "future.json", "link.json", "pipe.json"]
    assert [str(it.message) for it in caught] == [f"left out: {error}" for error in profiles.refused]
    assert {it.filename for it in caught} == {__file__}
    assert [Path(path).name for path, _ in profiles.others] == ["other.json", "x.schema.json"]
    assert profiles[:1].refused == profiles.refused


def test_a_directory_without_a_profile(tmp_path):
    with pytest.raises(jp.ProfileError, match="no \\*.json in it; name a directory of profiles"):
        jp.load(tmp_path)
    (tmp_path / "a.json").write_text("{")
    with pytest.warns(jp.ProfileWarning), pytest.raises(jp.ProfileError, match="first that was refused: .*a.json"):
        jp.load(tmp_path)


def test_equal_names_are_kept_and_told(write, tmp_path):
    write("a.json")
    write("b.json")
    with pytest.warns(jp.ProfileWarning, match=r"b.json: .*`demo-kv` is also used by .*a.json.*rename") as caught:
        profiles = jp.load(tmp_path)
    assert {it.filename for it in caught} == {__file__}
    assert profiles.names == ["demo-kv", "demo-kv"]
    assert list(profiles.to_wide().index) == [f"demo-kv ({tmp_path / name})" for name in ("a.json", "b.json")]


def test_loading_needs_no_other_package(tmp_path):
    for name in ("pandas", "numpy", "matplotlib"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('kept away by the test')")
    script = f"""
import jostle_profiles as jp
profiles = jp.load({str(PROFILES)!r})
print(len(profiles))
for needs in (profiles.to_frame, profiles.to_wide, lambda: jp.plot_vector(profiles[0]),
              lambda: jp.plot_heatmap(profiles), lambda: jp.predict(profiles[:2])):
    try:
        needs()
    except ImportError as error:
        print(error)
"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert int(lines[0]) >= 40
    wanted = ["to_frame", "to_wide", "plot_vector", "plot_heatmap", "predict"]
    for name, extra, line in zip(wanted, ["pandas", "pandas", "plot", "plot", "pandas"], lines[1:], strict=True):
        assert line.startswith(f"{name} needs ") and f"pip install 'jostle-profiles[{extra}]'" in line


def test_the_version_is_that_of_jostle():
    assert f'version = "{jp.__version__}"' in (ROOT / "Cargo.toml").read_text()
    assert f'version = "{jp.__version__}"' in (ROOT / "python/pyproject.toml").read_text()
