"""Predictions: the program's own numbers, and what is said when it is not there."""

from __future__ import annotations

import json
import os
import subprocess
import time

import numpy
import pytest
from conftest import PROFILES

import jostle_profiles as jp

XZ, GCC, KV = (PROFILES / f"{name}.json" for name in ("xz", "gcc", "demo-kv"))


def fake(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def answer(**application):
    one = {"file": "a.json", "name": "a", "basis": "profile", "qos": 0.95, "resources": [], "not_known": []}
    return json.dumps({"shares_cpus": False, "applications": [one | application], "notes": ["a note"]})


@pytest.mark.parametrize("shares_cpus", [False, True])
def test_the_numbers_are_those_of_the_program(recorded, jostle, shares_cpus):
    table = jp.predict([recorded["xz"], GCC, str(XZ)], shares_cpus=shares_cpus, jostle=jostle)
    flags = ["--shares-cpus"] if shares_cpus else []
    done = subprocess.run(
        [jostle, "predict", "--json", *flags, XZ, GCC, XZ], capture_output=True, check=True
    )
    theirs = json.loads(done.stdout)
    assert list(table.performance) == [it["performance"] for it in theirs["applications"]]
    assert list(table.performance_low) == [it["ci95"][0] for it in theirs["applications"]]
    assert list(table.chance_of_qos) == [it["chance_of_qos"] for it in theirs["applications"]]
    assert list(table["name"]) == ["xz #1", "gcc", "xz #2"]
    assert table.attrs["notes"] == theirs["notes"]
    assert table.reason.isna().all()


def test_by_resource(jostle):
    table = jp.predict([KV, XZ], by="resource", jostle=jostle)
    known = table[table.performance.notna()]
    assert len(known) and known.pressure.notna().all() and known.reason.isna().all()
    missing = table[table.performance.isna()]
    assert len(missing) and missing.reason.notna().all() and set(missing.direction) <= {"tolerated", "caused"}
    assert len(missing) == jp.predict([KV, XZ], jostle=jostle).unknown.sum()


def test_what_the_program_refuses_is_told(jostle, tmp_path):
    with pytest.raises(jp.JostleError, match="exit code 2: jostle: .*nosuch.json: no such file"):
        jp.predict(["nosuch.json"], jostle=jostle)
    with pytest.raises(jp.JostleError, match="--dashes.json: no such file"):
        jp.predict(["--dashes.json"], jostle=jostle)
    with pytest.raises(jp.JostleError, match="nosuch"):
        jp.predict(XZ, population=tmp_path / "nosuch", jostle=jostle)


def test_the_program_is_looked_for_in_order(tmp_path, monkeypatch):
    programs = {}
    for name in ("argument", "variable", "path"):
        (tmp_path / name).mkdir()
        programs[name] = str(fake(tmp_path / name / "jostle", "exit 0"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("JOSTLE", raising=False)
    assert jp.find_jostle() == programs["path"]
    monkeypatch.setenv("JOSTLE", "")
    assert jp.find_jostle() == programs["path"]
    monkeypatch.setenv("JOSTLE", programs["variable"])
    assert jp.find_jostle() == programs["variable"]
    assert jp.find_jostle(programs["argument"]) == programs["argument"]


def test_a_program_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JOSTLE", raising=False)
    with pytest.raises(jp.JostleNotFoundError, match="not on the PATH; install it .*cargo install"):
        jp.predict([XZ])
    monkeypatch.setenv("JOSTLE", str(tmp_path / "gone"))
    with pytest.raises(jp.JostleNotFoundError, match="environment variable JOSTLE: .*gone"):
        jp.predict([XZ])
    plain = tmp_path / "plain"
    plain.write_text("no program")
    with pytest.raises(jp.JostleNotFoundError, match="argument jostle: .*plain is not a program"):
        jp.predict([XZ], jostle=plain)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo no >&2; exit 3", "exit code 3: no"),
        ("exit 3", "it said nothing"),
        ("echo hello", "its answer is not JSON"),
        ("echo '[]'", "must be an object"),
        ("echo '{\"applications\": []}'", "`notes` is missing"),
        (f"echo '{answer(performance='x')}'", "does not match that jostle"),
        ("kill -9 $$", "exit code -9"),
    ],
)
def test_a_program_that_answers_something_else(tmp_path, script, says):
    program = fake(tmp_path / "jostle", script)
    with pytest.raises(jp.JostleError, match=says):
        jp.predict([XZ], jostle=program)


def test_a_program_that_cannot_be_run(tmp_path):
    program = tmp_path / "jostle"
    program.write_bytes(b"\x7fELF but not really")
    program.chmod(0o755)
    with pytest.raises(jp.JostleError, match="cannot be run"):
        jp.predict([XZ], jostle=program)


def test_a_program_that_never_answers(tmp_path):
    program = fake(tmp_path / "jostle", "exec sleep 60")
    begin = time.monotonic()
    with pytest.raises(jp.JostleError, match="no answer in 0.2 s; give a longer timeout"):
        jp.predict([XZ], jostle=program, timeout=0.2)
    assert time.monotonic() - begin < 20


def test_no_basis_is_nan_with_a_reason(tmp_path):
    program = fake(tmp_path / "jostle", f"cat <<'END'\n{answer(basis='none')}\nEND")
    table = jp.predict([XZ], jostle=program)
    assert numpy.isnan(table.performance[0]) and "neither its profile" in table.reason[0]
    assert table.attrs["notes"] == ["a note"]


def test_requests_that_make_no_sense():
    with pytest.raises(ValueError, match="at least one"):
        jp.predict([])
    with pytest.raises(ValueError, match="application or resource"):
        jp.predict([XZ], by="node")
    assert os.path.exists(XZ)
