"""The example and the docs, run as they are."""

from __future__ import annotations

import doctest
import os
import runpy
import subprocess
import sys

import matplotlib
import matplotlib.pyplot
from conftest import ROOT

import jostle_profiles as jp

EXAMPLE = ROOT / "python/examples/first_look.py"
PAGE = ROOT / "docs/python.md"


def test_the_example_runs_as_it_is(tmp_path):
    environment = os.environ | {"MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, EXAMPLE], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "brotli" in done.stdout and "cpu-time" in done.stdout


def test_what_the_example_draws(monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE)])
    names = runpy.run_path(str(EXAMPLE))
    for figure in (names["vector"], names["heatmap"]):
        assert isinstance(figure, matplotlib.figure.Figure)


BREAK = "## Predict co-locations"


def run_examples(text, names, monkeypatch, tmp_path):
    """Runs the `>>>` examples of a text beside the recorded profiles."""
    os.symlink(ROOT / "profiles", tmp_path / "profiles")
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(text, names, PAGE.name, str(PAGE), 0)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
    assert runner.tries >= 2


def test_the_page_shows_what_is_printed(monkeypatch, tmp_path):
    text = PAGE.read_text().split(BREAK)[0]
    run_examples(text, {}, monkeypatch, tmp_path)
    assert {"vector.png", "losses.png"} <= {path.name for path in tmp_path.iterdir()}


def test_the_page_shows_what_is_predicted(recorded, monkeypatch, tmp_path, jostle):
    monkeypatch.setenv("JOSTLE", jostle)
    text = PAGE.read_text().split(BREAK)[1]
    run_examples(text, {"jp": jp, "profiles": recorded}, monkeypatch, tmp_path)


def test_the_page_names_every_function():
    page = PAGE.read_text()
    functions = [name for name in jp.__all__ if name[0].islower()]
    assert len(functions) >= 9
    assert [name for name in functions if name not in page] == []
