"""Do repetitions of one recording say the same, and how much do they say?"""

from itertools import permutations

import profiles
from profiles import DIRECTIONS

#: Peaks and sizes that are at least so much of each other count as the same.
FULL_SCALE_ALIKE = 0.5


class Share:
    """So many of so many."""

    def __init__(self):
        self.some = self.all = 0

    def add(self, yes):
        self.some += bool(yes)
        self.all += 1

    def __add__(self, other):
        both = Share()
        both.some, both.all = self.some + other.some, self.all + other.all
        return both

    def text(self):
        return f"{self.some}/{self.all} = {100 * self.some / self.all:.0f} %" if self.all else "–"


def within(value, interval):
    return interval[0] <= value <= interval[1]


def comparable(one, other, resource):
    """Whether 100 % of a source stood for about as much in both."""
    scales = [p["resources"].get(resource, {}).get("full_scale_pressure") for p in (one, other)]
    return None in scales or min(scales) >= FULL_SCALE_ALIKE * max(scales)


def scores(one, other):
    """Whether the score of `one` lies in the interval of `other`, by resource and
    direction; where both have one."""
    for resource, entry in one["resources"].items():
        for direction in DIRECTIONS:
            mine = entry.get(direction)
            theirs = other["resources"].get(resource, {}).get(direction)
            if mine and theirs:
                yield resource, direction, within(mine["score"], theirs["ci95"])


def losses(one, other):
    """The same for what is left of the performance at 100 %."""
    for resource, entry in one["resources"].items():
        for direction in DIRECTIONS:
            mine = profiles.at_full(entry, direction)
            theirs = profiles.at_full(other["resources"].get(resource, {}), direction)
            if mine and theirs:
                yield resource, direction, within(mine["performance"], theirs["ci95"])


def collect(fleet, of):
    """Shares of agreement by (name, resource, direction), over all ordered pairs."""
    found = {}
    for name, repeated in fleet.items():
        for one, other in permutations(repeated, 2):
            for resource, direction, agrees in of(one, other):
                if comparable(one, other, resource):
                    found.setdefault((name, resource, direction), Share()).add(agrees)
    return found


def newest(repeated):
    """The rounds that the same jostle recorded as the first of them."""
    recorder = profiles.label(repeated[0], "recorder")
    return [profile for profile in repeated if profiles.label(profile, "recorder") == recorder]


def decisions(fleet):
    """Shares of decided entries by (name, resource, direction), over the newest rounds."""
    found = {}
    for name, repeated in fleet.items():
        for profile in newest(repeated):
            for resource, entry in profile["resources"].items():
                threshold = profile["qos"]["threshold"]
                for direction in DIRECTIONS:
                    if profiles.allowed(entry, direction):
                        share = found.setdefault((name, resource, direction), Share())
                        near = profiles.at_the_line(entry, direction, threshold)
                        share.add(near or profiles.decided(entry, direction))
    return found


def near_the_line(fleet, direction):
    """How many of the entries that are decided have no verdict, but end at the line."""
    return sum(
        profiles.at_the_line(entry, direction, profile["qos"]["threshold"])
        for repeated in fleet.values()
        for profile in newest(repeated)
        for entry in profile["resources"].values()
        if profiles.allowed(entry, direction)
    )


def total(found, **only):
    """All of `found` whose name, resource or direction is the one given."""
    keys = ("name", "resource", "direction")
    result = Share()
    for key, share in found.items():
        if all(dict(zip(keys, key))[k] == value for k, value in only.items()):
            result += share
    return result


def applications(fleet):
    return {name: repeated for name, repeated in fleet.items() if not name.startswith("demo-")}


def report(fleet):
    """Text: agreement and decided entries, overall, by resource and by program."""
    tables = [collect(fleet, scores), collect(fleet, losses), decisions(fleet)]
    repeated = sum(len(rounds) > 1 for rounds in fleet.values())
    near = [str(near_the_line(fleet, direction)) for direction in DIRECTIONS]
    lines = [
        f"{len(fleet)} programs, {repeated} of them recorded more than once.",
        "Score and loss at 100 %: how often a repetition's lies in the 95 % interval of",
        "another. Decided: a verdict, a score known within 10 points, or performance at full",
        f"pressure known to be within 2.5 points of the line ({' and '.join(near)} entries), of",
        "what the machine allows, by the newest build. T: tolerated, C: caused.",
        "",
    ]
    head = ["", "score T", "score C", "loss T", "loss C", "decided T", "decided C"]

    def row(title, **only):
        cells = [total(found, direction=d, **only).text() for found in tables for d in DIRECTIONS]
        return [title, *cells]

    rows = [head, row("all")]
    own = applications(fleet)
    if own and len(own) < len(fleet):
        in_own = [{k: v for k, v in found.items() if k[0] in own} for found in tables]
        rows.append(
            ["applications", *(total(f, direction=d).text() for f in in_own for d in DIRECTIONS)]
        )
    for kind in ("resource", "name"):
        at = ("name", "resource").index(kind)
        titles = sorted({key[at] for found in tables for key in found})
        rows += [[]] + [row(title, **{kind: title}) for title in titles]
    widths = [max(len(r[i]) for r in rows if r) for i in range(len(head))]
    for cells in rows:
        text = "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(cells, widths)))
        lines.append(text.rstrip())
    return "\n".join(lines)
