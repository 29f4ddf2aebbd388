"""Data frames: the same as the program's table, and no number where none is known."""

from __future__ import annotations

import io
import json
import subprocess
from collections import Counter

import numpy
import pandas
import pytest
from conftest import PROFILES
from conftest import ROOT

import jostle_profiles as jp


def test_one_row_per_application_resource_and_direction(recorded):
    table = recorded.to_frame()
    assert len(table) == 2 * sum(len(profile.resources) for profile in recorded)
    assert not table.duplicated(["file", "resource", "direction"]).any()
    assert table.groupby(["file", "resource"]).size().eq(2).all()
    assert pandas.api.types.is_float_dtype(table.score) and table.sensitive.dtype == "boolean"


@pytest.mark.parametrize(
    ("value", "reason"),
    [("score", "reason"), ("loss_percent", "loss_reason"), ("use_percent", "use_reason")],
)
def test_a_number_or_a_reason_never_both_never_none(recorded, value, reason):
    table = recorded.to_frame()
    assert 0 < table[value].isna().sum() < len(table)
    assert (table[value].isna() == table[reason].notna()).all()
    assert (table[reason].dropna().str.len() > 0).all()
    ends = {"score": ("score_low", "score_high")}.get(
        value, tuple(value.replace("percent", f"{end}_percent") for end in ("low", "high"))
    )
    for end in ends:
        assert (table[end].isna() == table[value].isna()).all()
    assert (table[ends[0]] <= table[ends[1]]).sum() == table[value].notna().sum()


def test_zero_means_zero(recorded):
    table = recorded.to_frame()
    written = Counter()
    for profile in recorded:
        for entry in profile.resources.values():
            written += Counter(score.value == 0 for score in (entry.tolerated, entry.caused) if score)
    assert (table.score == 0).sum() == written[True] > 0


def test_the_verdict_is_about_what_is_tolerated(recorded):
    table = recorded.to_frame()
    caused = table[table.direction == "caused"]
    assert caused.verdict.isna().all() and caused.sensitive.isna().all()
    tolerated = table[table.direction == "tolerated"]
    assert set(tolerated.verdict) == {"sensitive", "insensitive", "at the line", "none seen", "open"}
    assert (tolerated.sensitive.fillna(False) == (tolerated.verdict == "sensitive")).all()


def test_below_a_limit_on_intensity_none_is_seen(write):
    entry = {"status": "measured", "tolerated": {"score": 60, "ci95": [60, 100]}}
    profile = jp.load_file(write(keys={"resources/l1d": entry, "conditions/max_intensity_percent": 60}))
    assert profile.verdict("l1d") == "none seen"


def test_what_full_pressure_brings_to_the_line_is_not_open(write):
    def said(interval, intensity=100):
        point = {"intensity": intensity, "performance": sum(interval) / 2, "ci95": interval, "windows": 40}
        entry = {"status": "unresolved", "reason": "too close", "curve": [point]}
        return jp.load_file(write(keys={"resources/l1d": entry})).verdict("l1d")

    assert said([0.94, 0.97]) == "at the line"
    assert said([0.92, 0.97]) == "open"
    assert said([0.94, 0.97], intensity=74) == "open"


def test_what_is_kept_without_certainty_is_none_seen(write):
    def said(interval, score=100):
        point = {"intensity": 100, "performance": sum(interval) / 2, "ci95": interval, "windows": 9}
        scored = {"score": score, "ci95": [score, 100]}
        entry = {"status": "measured", "tolerated": scored, "curve": [point]}
        return jp.load_file(write(keys={"resources/l1d": entry})).verdict("l1d")

    assert said([0.952, 1.041]) == "none seen"
    assert said([0.92, 1.041]) == "at the line"
    assert said([0.952, 1.041], score=55) == "at the line"


def test_the_table_is_that_of_the_program(recorded, jostle):
    done = subprocess.run([jostle, "profiles", "export", PROFILES], capture_output=True, check=True)
    theirs = pandas.read_csv(io.BytesIO(done.stdout)).set_index(["file", "resource", "direction"])
    ours = recorded.to_frame().set_index(["file", "resource", "direction"]).loc[theirs.index]
    assert len(ours) == len(recorded.to_frame())
    for column in theirs.columns:
        left, right = ours[column], theirs[column]
        assert (left.isna() == right.isna()).all(), column
        known = left.notna()
        if column == "sensitive" or not pandas.api.types.is_numeric_dtype(right):
            assert (left[known].astype(str) == right[known].astype(str)).all(), column
        else:
            assert numpy.allclose(left[known].astype(float), right[known], rtol=1e-12, atol=1e-9), column


def test_order_and_verdicts_are_those_of_the_program(recorded, jostle):
    for profile in recorded:
        done = subprocess.run([jostle, "show", profile.path], capture_output=True, check=True, text=True)
        table = done.stdout.split("\n\n")[1].splitlines()
        rows = [line for line in table[1:] if line.split(" ")[0] in profile.resources]
        entries = [entry for entry in profile.by_sensitivity() if entry.is_measurable]
        assert [row.split(" ")[0] for row in rows] == [entry.id for entry in entries]
        for row, entry in zip(rows, entries, strict=True):
            assert row.endswith(f"  {profile.verdict(entry.id)}"), (profile.name, row)
            use = profile.use(entry.id)
            if not isinstance(use, jp.Unavailable):
                assert f" {use.value:.0f}%" in row, (profile.name, row)


def test_wide(recorded):
    losses = recorded.to_wide()
    assert losses.shape == (len(recorded), len(jp.RESOURCES))
    assert list(losses.index) == recorded.names and list(losses.columns) == list(jp.RESOURCES)
    table = recorded.to_frame().set_index(["name", "resource", "direction"])
    for name, resource in [("demo-kv", "l2-capacity"), ("fio-randread", "storage-bandwidth")]:
        assert losses.loc[name, resource] == table.loc[(name, resource, "tolerated"), "loss_percent"]
    assert losses["interconnect"].isna().all()
    reasons = recorded.to_wide("loss_reason")
    there = recorded.to_wide("status").notna()
    assert (losses.isna() & there == reasons.notna()).all(axis=None)
    caused = recorded.to_wide("score", "caused")
    assert caused.loc["demo-kv", "l2-capacity"] == recorded["demo-kv"].resources["l2-capacity"].caused.value
    assert recorded.to_wide("verdict").loc["demo-kv", "memory-capacity"] == "open"
    for arguments, says in [(("nosuch",), "one of file, name"), (("score", "both"), "one of tolerated, caused")]:
        with pytest.raises(ValueError, match=says):
            recorded.to_wide(*arguments)


def test_one_profile_and_none():
    profile = jp.load_file(PROFILES / "xz.json")
    assert profile.to_frame().equals(jp.to_frame([profile]))
    empty = jp.to_frame([])
    assert len(empty) == 0 and list(empty.columns) == list(profile.to_frame().columns)
    with pytest.raises(TypeError, match="not str; load files with"):
        jp.to_frame(["profiles/xz.json"])


def test_a_profile_without_resources(write):
    profile = jp.load_file(write(keys={"resources": {}}))
    assert len(profile.to_frame()) == 0
    assert jp.to_wide([profile]).shape == (1, 0)


def test_pairs():
    pairs = jp.load_pairs(PROFILES / "pairs.json")
    table = pairs.to_frame()
    assert pairs.model == "AMD EPYC" and len(table) == len(pairs.members) >= 86
    assert set(table.placement) <= {"same-cpu", "same-llc", "own-cpus"}
    known = table[table.performance.notna()]
    assert len(known) and (known.performance_low <= known.performance_high).all()
    first, group = table.iloc[0], json.loads((PROFILES / "pairs.json").read_text())["groups"][0]
    member, other = group["members"]
    assert (first["name"], first.beside) == (member["app"], other["app"])
    assert first.performance == pytest.approx(member["performance"]["value"])
    assert (table.performance.isna() == table.reason.notna()).all()


def test_broken_pairs(tmp_path):
    path = tmp_path / "pairs.json"
    text = (PROFILES / "pairs.json").read_text()
    one, other = (member["app"] for member in json.loads(text)["groups"][0]["members"])
    for old, new, says in [
        ("jostle-pairs/1", "jostle-pairs/2", "needs a newer"),
        ("jostle-pairs/1", "jostle-profile/1", "not a file of jostle pairs"),
        (f'"app": "{other}"', f'"app": "{one}"', "is the name of two members"),
        ('"own-cpus"', '"far"', "it is one of same-cpu"),
    ]:
        path.write_text(text.replace(old, new))
        with pytest.raises(jp.ProfileError, match=says):
            jp.load_pairs(path)
    cut = text.index('"performance": {')
    end = text.index('}, {"app"', cut)
    path.write_text(text[:cut] + '"performance": {"unavailable": "it ended"}' + text[end:])
    row = jp.load_pairs(path).to_frame().iloc[0]
    assert numpy.isnan(row.performance) and row.reason == "it ended"


def test_the_docs_of_fleet_hold(recorded, tmp_path):
    """Whoever reads the CSV finds the same columns here."""
    named = [word for word in (ROOT / "docs/fleet.md").read_text().split("## The table")[1].split("`") if "_" in word]
    columns = set(recorded.to_frame().columns)
    assert {word for word in named[:20] if word.isidentifier()} <= columns
