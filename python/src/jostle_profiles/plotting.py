"""Draws profiles with matplotlib.

Colours differ in lightness and in fill, so that they survive a black-and-white
printer and are told apart by readers who see no red or no green.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any
from typing import Literal
from typing import get_args

from ._extras import pyplot
from .frames import labels
from .loading import resource_order
from .model import Profile
from .model import Resource
from .model import Unavailable
from .model import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Value = Literal["tolerated", "caused", "loss", "use"]

TITLES: dict[Value, str] = {
    "tolerated": "tolerates, intensity 0–100",
    "caused": "causes, 0–100",
    "loss": "loss at full pressure, %",
    "use": "uses, % of the peak",
}

# Okabe and Ito's vermilion and sky blue: 53 and 70 of 100 in lightness.
DARK = "#c44e00"
LIGHT = "#8cc5ea"
PLAIN = "#b8b8b8"
INK = "#222222"
FAINT = "#767676"

STYLES: dict[Verdict, dict[str, Any]] = {
    "sensitive": {"facecolor": DARK},
    "insensitive": {"facecolor": LIGHT},
    "none seen": {"facecolor": LIGHT, "hatch": "...."},
    "at the line": {"facecolor": "#f6e7bd", "hatch": "...."},
    "open": {"facecolor": "white", "linestyle": (0, (2, 1.5))},
}
NO_NUMBER: dict[str, Any] = {"facecolor": "none", "edgecolor": "#c8c8c8", "hatch": "////", "linewidth": 0}
OPEN_CELL: dict[str, Any] = {"facecolor": "white", "edgecolor": "#d9d9d9", "hatch": "///", "linewidth": 0}
NOT_MEASURED = "#e6e6e6"


@dataclass(frozen=True, slots=True)
class _Bar:
    """A number with its interval; ``is_open``: not decided."""

    value: float
    low: float
    high: float
    is_open: bool
    note: str = ""


def plot_vector(
    profile: Profile, values: Sequence[Value] = ("tolerated", "caused", "loss")
) -> Figure:
    """Draws the sensitivity vector of one application.

    One row per resource that can be measured there, most sensitive first; one panel
    per value: ``tolerated`` and ``caused`` (0–100), ``loss`` and ``use`` (percent).
    Bars carry 95 % intervals. A bar without fill is open: time and noise did not allow
    a verdict; a hatched band means that there is no number. What could not be measured is named
    below the figure.

    Save it with ``figure.savefig("vector.pdf")``.
    """
    if not isinstance(profile, Profile):
        raise TypeError(f"a Profile is expected, not {type(profile).__name__}; pass one of what load returned")
    _check_values(values)
    plt = pyplot("plot_vector")
    entries = [entry for entry in profile.by_sensitivity() if entry.is_measurable]
    left_out = [entry.id for entry in profile.by_sensitivity() if not entry.is_measurable]
    rows = max(len(entries), 1)
    figure: Figure
    figure, grid = plt.subplots(
        1,
        len(values),
        sharey=True,
        squeeze=False,
        figsize=(max(2.2 + 2.5 * len(values), 5.5), 1.7 + 0.29 * rows),
        layout="constrained",
    )
    for axes, value in zip(grid[0], values, strict=True):
        _panel(axes, profile, entries, value)
    first = grid[0][0]
    first.set_yticks(range(len(entries)), [_clean(entry.id) for entry in entries], parse_math=False)
    first.set_ylim(rows - 0.4, -0.6)
    _verdicts(grid[0][-1], profile, entries)
    threshold = f"{100 * profile.qos:g}"
    below = [f"Bars: value and 95 % interval. Tolerates: highest intensity at which it keeps {threshold} %."]
    if left_out:
        below.append(f"Not measured here: {', '.join(_clean(id) for id in left_out)}.")
    _below(figure, below)
    _legend(figure, profile, entries)
    return figure


def plot_heatmap(
    profiles: Iterable[Profile], value: Value = "loss", annotate: bool | None = None
) -> Figure:
    """Draws applications by resources, shaded by one value: ``loss``, ``tolerated``,
    ``caused`` or ``use``.

    The darker a cell, the more the application loses, causes or uses, or the less it
    tolerates. A hatched cell is open: time and noise did not allow a verdict; the number in it, where
    there is one, is the best estimate, for a loss that was not shown its upper bound.
    A grey cell was not measured, or is not in the profile; resources that no profile
    has are named below the figure.

    ``annotate``: write numbers into the cells; None writes them where they fit.
    """
    _check_values([value])
    plt = pyplot("plot_heatmap")
    profiles = [profiles] if isinstance(profiles, Profile) else list(profiles)
    if not profiles:
        raise ValueError("no profile was given; a heat map needs at least one")
    entries = [entry for profile in profiles for entry in profile.resources.values()]
    every = sorted({entry.id for entry in entries}, key=resource_order)
    columns = {id: [_cell(profile, id, value) for profile in profiles] for id in every}
    ids = [id for id in every if any(columns[id])]
    left_out = [id for id in every if not any(columns[id])]
    if not ids:
        raise ValueError(f"no profile holds a value of {value}; choose another value or other profiles")
    cells = [[columns[id][row] for id in ids] for row in range(len(profiles))]
    known = [cell.value for row in cells for cell in row if cell and not cell.is_open]
    if value == "loss":
        top = max(10.0, 10.0 * math.ceil(max(known, default=0.0) / 10.0))
    else:
        top = 100.0
    height = min(0.26 * len(profiles), 100.0)
    figure: Figure
    figure, axes = plt.subplots(
        figsize=(max(3.0 + 0.42 * len(ids), 5.0), 2.1 + height), layout="constrained"
    )
    colours = plt.get_cmap("Blues_r" if value == "tolerated" else "Blues")
    shades = [[_shade(cell, top) for cell in row] for row in cells]
    image = axes.imshow(shades, cmap=colours, vmin=0.0, vmax=top, aspect="auto", interpolation="none")
    if annotate is None:
        annotate = len(profiles) <= 120
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            _mark(axes, x, y, cell, annotate, dark=_is_dark(cell, top, value))
    columns_named = [_clean(id) for id in ids]
    axes.set_xticks(
        range(len(ids)), columns_named, rotation=55, ha="right", rotation_mode="anchor", parse_math=False
    )
    rows_named = [_clean(name) for name in labels(profiles)]
    axes.set_yticks(range(len(profiles)), rows_named, parse_math=False)
    axes.tick_params(length=0, labelsize=8)
    for x in range(1, len(ids)):
        axes.axvline(x - 0.5, color="white", linewidth=1)
    for y in range(1, len(profiles)):
        axes.axhline(y - 0.5, color="white", linewidth=1)
    beyond = any(number > top for number in known)
    extend = "max" if beyond else "neither"
    shrink = min(1.0, 4.0 / (1.9 + height))
    bar = figure.colorbar(image, ax=axes, extend=extend, shrink=shrink, aspect=25, pad=0.02)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    for side in axes.spines.values():
        side.set_visible(False)
    if left_out:
        text = f"Not measured in any profile: {', '.join(_clean(id) for id in left_out)}."
        _below(figure, [text])
    _heat_legend(figure, value)
    return figure


def _check_values(values: Sequence[str]) -> None:
    known = get_args(Value)
    if isinstance(values, str) or not values:
        raise ValueError(f"values is {values!r}; it is a list of {', '.join(known)}")
    for value in values:
        if value not in known:
            raise ValueError(f"value is {value!r}; it is one of {', '.join(known)}")


def _bar(profile: Profile, entry: Resource, value: Value) -> _Bar | None:
    """What is drawn of one resource; None where there is no number."""
    is_open = profile.verdict(entry.id) == "open"
    if value == "loss":
        loss = entry.loss()
        if loss is None:
            return None
        note = f"at {loss.intensity:.0f}" if loss.intensity < 99.5 else ""
        return _Bar(loss.value, *loss.interval, is_open, note)
    if value == "use":
        use = profile.use(entry.id)
        return None if isinstance(use, Unavailable) else _Bar(use.value, *use.interval, False)
    score = entry.score(value)
    if score is None:
        return None
    if value == "caused":
        is_open = not score.is_decided
    return _Bar(score.value, *score.interval, is_open)


def _panel(axes: Axes, profile: Profile, entries: list[Resource], value: Value) -> None:
    bars = [_bar(profile, entry, value) for entry in entries]
    ends = [end for bar in bars if bar for end in (bar.value, bar.high)]
    # A program may seem faster beside a source; the axis is about losses.
    low = -10.0 if any(bar and bar.low < -1.0 for bar in bars) and value == "loss" else 0.0
    top = 100.0
    if value == "loss":
        top = min(100.0, max(10.0, 10.0 * math.ceil(max(ends, default=0.0) / 10.0)))
    elif value == "use":
        top = max(100.0, 10.0 * math.ceil(max(ends, default=0.0) / 10.0))
    axes.set_xlim(low, top)
    for y, (entry, bar) in enumerate(zip(entries, bars, strict=True)):
        if bar is None:
            # A score lies somewhere on its scale; a loss or a use has none to show.
            if value in ("tolerated", "caused"):
                axes.barh(y, 100, height=0.6, **NO_NUMBER)
            else:
                axes.text(max(low, 0.0) + 0.015 * (top - low), y, "–", va="center", color=FAINT)
            continue
        verdict = profile.verdict(entry.id) if value in ("tolerated", "loss") else None
        style = STYLES["open"] if bar.is_open else STYLES[verdict] if verdict else {"facecolor": PLAIN}
        length = min(max(bar.value, low), top)
        axes.barh(y, length, height=0.6, edgecolor=INK, linewidth=0.8, **style)
        ends_at = [min(max(end, low), top) for end in (bar.low, bar.high)]
        if ends_at[0] < ends_at[1]:
            axes.plot(ends_at, [y, y], color=INK, linewidth=1.1, clip_on=False, solid_capstyle="butt")
            # An end beyond the axis has no cap: the interval goes on there.
            for end in (end for end in (bar.low, bar.high) if low <= end <= top):
                axes.plot([end, end], [y - 0.17, y + 0.17], color=INK, linewidth=1.1, clip_on=False)
        elif abs(length) < 0.01 * top:
            axes.text(0.015 * top, y, "0", va="center", fontsize=7, color=FAINT)
        if bar.note:
            right = max(*ends_at, bar.value)
            axes.text(right + 0.02 * (top - low), y, bar.note, va="center", fontsize=7, color=FAINT)
    if low < 0.0:
        axes.axvline(0.0, color=INK, linewidth=0.8)
    limit = profile.conditions.max_intensity_percent
    if value == "tolerated" and limit is not None:
        axes.axvline(limit, color=FAINT, linewidth=1, linestyle=":")
    axes.set_title(TITLES[value], fontsize=9, loc="left")
    axes.tick_params(labelsize=8, length=0)
    axes.tick_params(axis="x", length=3, color=FAINT)
    axes.xaxis.grid(True, color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def _verdicts(axes: Axes, profile: Profile, entries: list[Resource]) -> None:
    """The verdict in words, to the right of the last panel."""
    for y, entry in enumerate(entries):
        verdict = profile.verdict(entry.id)
        text = verdict + (" ~" if entry.inferred or entry.status == "inferred" else "")
        axes.annotate(
            text,
            xy=(1.0, y),
            xycoords=("axes fraction", "data"),
            xytext=(14, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=FAINT if verdict == "open" else INK,
            fontweight="bold" if verdict == "sensitive" else "normal",
        )


def _legend(figure: Figure, profile: Profile, entries: list[Resource]) -> None:
    from matplotlib.patches import Patch

    shown = {profile.verdict(entry.id) for entry in entries}
    handles = [
        Patch(edgecolor=INK, linewidth=0.8, label=verdict, **style)
        for verdict, style in STYLES.items()
        if verdict in shown
    ]
    handles.append(Patch(label="no number", **NO_NUMBER))
    _above(figure, _clean(profile.name), handles)


def _cell(profile: Profile, id: str, value: Value) -> _Bar | None:
    entry = profile.resources.get(id)
    if entry is None or not entry.is_measurable:
        return None
    bar = _bar(profile, entry, value)
    if bar is None and value != "use":
        return _Bar(math.nan, math.nan, math.nan, is_open=True)
    if bar and value == "loss" and bar.is_open and bar.low <= 0.0:
        return _Bar(bar.value, bar.low, bar.high, True, f"≤{max(bar.high, 0.0):.0f}")
    return bar


def _shade(cell: _Bar | None, top: float) -> float:
    if cell is None or cell.is_open:
        return math.nan
    return min(max(cell.value, 0.0), top)


def _is_dark(cell: _Bar | None, top: float, value: Value) -> bool:
    if cell is None or cell.is_open:
        return False
    share = _shade(cell, top) / top
    return share < 0.4 if value == "tolerated" else share > 0.6


def _mark(axes: Axes, x: int, y: int, cell: _Bar | None, annotate: bool, dark: bool) -> None:
    from matplotlib.patches import Rectangle

    if cell is None:
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=NOT_MEASURED, linewidth=0))
        return
    if cell.is_open:
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **OPEN_CELL))
    if annotate and not math.isnan(cell.value):
        # No minus before a nought.
        text = cell.note if cell.note.startswith("≤") else f"{round(cell.value) + 0:d}".replace("-", "−")
        axes.text(
            x, y, text, ha="center", va="center", fontsize=7,
            color="white" if dark else INK,
            bbox={"facecolor": "white", "linewidth": 0, "pad": 0.8} if cell.is_open else None,
        )


def _heat_legend(figure: Figure, value: Value) -> None:
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if value != "use":
        handles.append(Patch(label="open", **OPEN_CELL))
    handles.append(Patch(facecolor=NOT_MEASURED, label="not measured"))
    _above(figure, TITLES[value], handles)


def _above(figure: Figure, title: str, handles: list[Any]) -> None:
    """The title, and below it the legend in one line."""
    # The second line of the title keeps the place of the legend.
    figure.suptitle(
        f"{title}\n ", x=0.01, ha="left", fontsize=12, fontweight="bold", linespacing=1.5, parse_math=False
    )
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.01, 1.0 - 24.0 / 72.0 / figure.get_figheight()),
        borderaxespad=0.0,
        borderpad=0.0,
        ncols=len(handles),
        fontsize=8,
        frameon=False,
        handlelength=1.4,
        columnspacing=1.2,
    )


def _clean(text: str, longest: int = 40) -> str:
    """Text on one line, without characters that cannot be drawn."""
    clean = "".join(mark if mark.isprintable() else "·" for mark in text)
    if len(clean) <= longest:
        return clean
    # Names that begin alike often end differently.
    head = longest // 2
    return f"{clean[:head]}…{clean[head + 1 - longest :]}"


def _below(figure: Figure, sentences: list[str]) -> None:
    columns = int(figure.get_figwidth() * 16)
    text = "\n".join(textwrap.fill(sentence, columns, break_on_hyphens=False) for sentence in sentences)
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color=FAINT, parse_math=False)
