"""Figures: what they hold, and that nothing breaks them."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot
import pytest
from conftest import PROFILES

import jostle_profiles as jp


def texts(figure):
    return [it.get_text() for it in figure.findobj(matplotlib.text.Text) if it.get_text()]


def bars(axes):
    return [it for it in axes.patches if isinstance(it, matplotlib.patches.Rectangle)]


def test_a_vector_shows_every_measured_resource(recorded):
    profile = recorded["demo-kv"]
    figure = jp.plot_vector(profile)
    tolerated, caused, loss = figure.axes
    measured = [entry for entry in profile.by_sensitivity() if entry.is_measurable]
    assert [it.get_text() for it in tolerated.get_yticklabels()] == [entry.id for entry in measured]
    entry = profile.resources["l2-capacity"]
    row = [entry.id for entry in measured].index("l2-capacity")
    assert bars(tolerated)[row].get_width() == pytest.approx(entry.tolerated.value)
    losses = [entry.loss() for entry in measured]
    assert len(bars(loss)) == sum(loss is not None for loss in losses)
    ends = {round(float(x), 6) for line in loss.lines for x in line.get_xdata()}
    assert {round(end, 6) for end in entry.loss().interval} <= ends
    assert texts(figure).count("sensitive") >= 2


def test_what_is_open_is_shown_as_open(recorded):
    profile = recorded["demo-kv"]
    tolerated, _, loss = jp.plot_vector(profile).axes
    measured = [entry for entry in profile.by_sensitivity() if entry.is_measurable]
    with_loss = [entry for entry in measured if entry.loss()]
    for bar, entry in zip(bars(loss), with_loss, strict=True):
        is_open = profile.verdict(entry.id) == "open"
        assert (matplotlib.colors.to_hex(bar.get_facecolor()) == "#ffffff") == is_open
    for bar, entry in zip(bars(tolerated), measured, strict=True):
        at_the_line = profile.verdict(entry.id) == "at the line"
        assert bool(bar.get_hatch()) == (entry.tolerated is None or at_the_line)


def test_what_was_not_measured_is_named(recorded):
    assert any("Not measured here: interconnect" in text or "network-bandwidth, interconnect" in text
               for text in texts(jp.plot_vector(recorded["xz"])))


@pytest.mark.parametrize("value", ["loss", "tolerated", "caused", "use"])
def test_every_recorded_profile_can_be_drawn(recorded, value, tmp_path):
    figure = jp.plot_heatmap(recorded, value)
    figure.savefig(tmp_path / "map.png", dpi=40)
    names = [it.get_text() for it in figure.axes[0].get_yticklabels()]
    assert names == recorded.names
    for profile in recorded[::6]:
        jp.plot_vector(profile, [value]).savefig(tmp_path / "vector.png", dpi=40)
        matplotlib.pyplot.close("all")
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_a_heat_map_shades_what_is_decided_and_nothing_else(recorded):
    figure = jp.plot_heatmap(recorded)
    image = figure.axes[0].images[0].get_array()
    columns = [it.get_text() for it in figure.axes[0].get_xticklabels()]
    assert "interconnect" not in columns
    largest = 0.0
    for y, profile in enumerate(recorded):
        for x, id in enumerate(columns):
            entry = profile.resources.get(id)
            decided = entry and entry.loss() and profile.verdict(id) != "open"
            if decided:
                assert image[y, x] == pytest.approx(max(entry.loss().value, 0.0))
                largest = max(largest, image[y, x])
            else:
                assert image.mask[y, x]
    shown = texts(figure)
    number = f"{largest:.0f}"
    assert "open" in shown and "not measured" in shown and number in shown
    assert number not in texts(jp.plot_heatmap(recorded, annotate=False))


def test_colours_survive_a_black_and_white_printer(recorded):
    """Of neighbours in the legend, lightness (0–100) differs by 15 or more."""
    from jostle_profiles import plotting

    def lightness(colour):
        red, green, blue = (
            it / 12.92 if it <= 0.04045 else ((it + 0.055) / 1.055) ** 2.4 for it in matplotlib.colors.to_rgb(colour)
        )
        luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        return 116 * luminance ** (1 / 3) - 16

    sensitive, insensitive, is_open = (
        lightness(plotting.STYLES[it]["facecolor"]) for it in ("sensitive", "insensitive", "open")
    )
    assert sensitive + 15 <= insensitive and insensitive + 15 <= is_open
    shades = [lightness(matplotlib.colormaps["Blues"](step / 20)) for step in range(21)]
    assert all(a > b for a, b in zip(shades, shades[1:], strict=False))


def test_names_are_drawn_as_they_are(write, tmp_path):
    profile = jp.load_file(write(keys={"workload/name": "a$_{\\frac{b$ \n\x1b[31m" + "x" * 300 + "end"}))
    for figure in (jp.plot_vector(profile), jp.plot_heatmap([profile])):
        figure.savefig(tmp_path / "a.png")
        lines = [text.split("\n")[0] for text in texts(figure)]
        assert any(line.startswith("a$_{\\frac{b$ ··[31mx") and line.endswith("xend") and len(line) == 40 for line in lines)


def test_extremes(write, tmp_path):
    faster = {"intensity": 40, "performance": 900000.0, "ci95": [0.1, 1000000.0], "windows": 1}
    keys = {
        "resources/l1d": {"status": "measured", "sensitive": False, "curve": [faster]},
        "conditions/max_intensity_percent": 50,
    }
    profile = jp.load_file(write(keys=keys))
    for figure in (jp.plot_vector(profile), jp.plot_heatmap([profile]), jp.plot_heatmap(profile, "tolerated")):
        figure.savefig(tmp_path / "a.png")
        assert max(figure.get_size_inches()) < 20
    bare = jp.load_file(write("b.json", {"resources": {"l1d": {"status": "not-shared"}}}))
    jp.plot_vector(bare).savefig(tmp_path / "b.png")
    with pytest.raises(ValueError, match="no profile holds a value of loss"):
        jp.plot_heatmap([bare])


def test_what_cannot_be_drawn_is_refused(recorded):
    with pytest.raises(ValueError, match="one of tolerated, caused, loss, use"):
        jp.plot_vector(recorded[0], ["nosuch"])
    with pytest.raises(ValueError, match="it is a list of"):
        jp.plot_vector(recorded[0], "loss")
    with pytest.raises(ValueError, match="one of tolerated"):
        jp.plot_heatmap(recorded, "nosuch")
    with pytest.raises(ValueError, match="at least one"):
        jp.plot_heatmap([])
    with pytest.raises(TypeError, match="not str; pass one"):
        jp.plot_vector(str(PROFILES / "xz.json"))
