"""Recorded profiles on disk: DIR/NAME.json and DIR/repeats/ROUND/NAME.json."""

import json
import os
import re

# Seconds to prepare and end a recording beyond its budget, and to search the
# capacity of a service.
PREPARE = 5
SEARCH = 30
LOADS = ("-30", "-60", "-90")
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Unreadable(Exception):
    pass


def load(path):
    try:
        with open(path) as file:
            profile = json.load(file)
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from error
    if not isinstance(profile, dict) or "resources" not in profile:
        raise Unreadable(f"{path}: this is no profile")
    return profile


def seconds(text):
    """`30s`, `1m30s`, `500ms` as seconds."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if "".join(number + unit for number, unit in parts) != text.replace(" ", "") or not parts:
        raise ValueError(text)
    return sum(float(number) * units[unit] for number, unit in parts)


def place(directory, name, number):
    """Where the profile of `name` of one round is."""
    if number == 1:
        return os.path.join(directory, f"{name}.json")
    return os.path.join(directory, "repeats", str(number), f"{name}.json")


def names(directory):
    """Names of the profiles directly in `directory`; measured pairs are none."""
    if not os.path.isdir(directory):
        return []
    files = sorted(set(os.listdir(directory)) - {"pairs.json"})
    return [f[: -len(".json")] for f in files if f.endswith(".json") and not f.endswith(".schema.json")]


def rounds(directory):
    """All profiles by name: a list with one for each round that there is."""
    repeats = os.path.join(directory, "repeats")
    numbers = sorted(int(n) for n in os.listdir(repeats) if n.isdigit()) if os.path.isdir(repeats) else []
    found = {name: [load(place(directory, name, 1))] for name in names(directory)}
    for number in numbers:
        for name in names(os.path.join(repeats, str(number))):
            found.setdefault(name, []).append(load(place(directory, name, number)))
    return found


def label(profile, key):
    return profile["workload"].get("labels", {}).get(key)


def recorded(path, binary, budget):
    """Whether `path` is a whole profile by this binary with this budget."""
    if not os.path.exists(path):
        return False
    try:
        profile = load(path)
    except Unreadable:
        return False
    same_budget = abs(profile["conditions"].get("budget_seconds", 0) - budget) < 0.001
    return label(profile, "recorder") == binary and same_budget and not profile.get("partial")


def pending(directory, chosen, binary, budget, times, again):
    """A line with the amount and the time, then `ROUND NAME` a line, rounds apart."""
    chosen = list(dict.fromkeys(chosen))
    todo = [
        (number, name)
        for number in range(1, times + 1)
        for name in chosen
        if again or not recorded(place(directory, name, number), binary, budget)
    ]
    searches = {name.rsplit("-", 1)[0] for _, name in todo if name.endswith(LOADS)}
    took = len(todo) * (budget + PREPARE) + len(searches) * SEARCH
    skipped = len(chosen) * times - len(todo)
    first = f"{len(todo)} to record, {skipped} recorded already; about {took / 60:.0f} minutes"
    return "\n".join([first] + [f"{number} {name}" for number, name in todo])


def capacity(directory, binary, service):
    """Requests per second found by the first recording that searched them."""
    for load_name in LOADS:
        path = place(directory, service + load_name, 1)
        if not os.path.exists(path):
            continue
        profile = load(path)
        found = profile["metric"].get("load", {}).get("capacity_per_second")
        stated = re.match(r"\d+", label(profile, "capacity") or "")
        if label(profile, "recorder") == binary and (found or stated):
            return int(found or stated.group())
    return None


def slim(profile):
    """The profile without what repeats say again: counters and sentences."""
    profile["conditions"].pop("counters", None)
    for part in [profile["conditions"], *profile["resources"].values()]:
        for key in ("counters", "counters_steady", "doubts"):
            part.pop(key, None)
    return profile


def keep(source, target, slimmed):
    """Moves a new profile to its place; nothing is left of one that failed."""
    profile = load(source)
    if profile.get("partial"):
        raise Unreadable(f"{source}: the measurement was cut short")
    temporary = f"{target}.new"
    if slimmed:
        text = json.dumps(slim(profile), separators=(",", ":"), ensure_ascii=False) + "\n"
    else:
        with open(source) as file:
            text = file.read()
    # Where this machine keeps the repository and homes says nothing of the program.
    text = text.replace(f"{REPOSITORY}/", "").replace(os.path.expanduser("~/"), "~/")
    with open(temporary, "w") as new:
        new.write(text)
    os.replace(temporary, target)
    os.remove(source)


def foreign(directory, known):
    found = [place(directory, name, 1) for name in names(directory) if name not in known]
    repeats = os.path.join(directory, "repeats")
    for number in sorted(os.listdir(repeats)) if os.path.isdir(repeats) else []:
        found += [
            os.path.join(repeats, number, f"{name}.json")
            for name in names(os.path.join(repeats, number))
            if name not in known
        ]
    return found


# What a profile says.

DIRECTIONS = ("tolerated", "caused")
CURVES = {"tolerated": "curve", "caused": "probe_curve"}
# A score is known when it is within so many points.
KNOWN_WITHIN = 10
# What a source may lose beside a program that does not disturb it.
CAUSED_LINE = 0.95
# What full pressure leaves of the performance is at the line when its interval is within
# so much of the QoS threshold, and so much of the intensity arrived.
NEAR_THE_LINE = 0.025
FULL_PRESSURE = 90


# Reasons of entries that the machine does not let anybody measure in the time: it took too
# long, or what is said to be shared never was.
FORBIDDEN = ("a switch there and back takes", "shared a last-level cache at no time")
# The same of what is tolerated alone: nothing was there to be taken from the target, or
# there is no CPU beside those of the target and its load.
NOT_TOLERATED = (
    "tolerated: an unseen neighbour held the core all the time",
    "because it yields to the load generator on CPU",
)


def allowed(entry, direction="tolerated"):
    """Whether the machine lets the resource be measured in the time."""
    if entry["status"] in ("not-shared", "unavailable"):
        return False
    reasons = FORBIDDEN + (NOT_TOLERATED if direction == "tolerated" else ())
    return not any(reason in (entry.get("reason") or "") for reason in reasons)


def at_the_line(entry, direction, threshold):
    """Whether it has no verdict because full pressure brings performance to the line, and
    nothing else is left to know. `threshold` is that of the program; a source has its own."""
    point = at_full(entry, direction)
    if decided(entry, direction) or not point or point["intensity"] < FULL_PRESSURE:
        return False
    line = threshold if direction == "tolerated" else CAUSED_LINE
    return all(abs(end - line) <= NEAR_THE_LINE for end in point["ci95"])


def decided(entry, direction):
    """A verdict, or a score known within ten points. That it disturbs is a verdict, too:
    the interval of what it causes lies above 0, or the source surely loses more than is
    allowed, wherever that begins."""
    score = entry.get(direction)
    if score and score["ci95"][1] - score["ci95"][0] <= 2 * KNOWN_WITHIN:
        return True
    if direction == "caused":
        certain = "caused: a loss is certain" in (entry.get("reason") or "")
        return certain or bool(score) and score["ci95"][0] > 0
    return entry.get("sensitive") is not None


def at_full(entry, direction):
    """The point of the curve at the highest intensity that was asked for, if that
    was 100 %."""
    for point in reversed(entry.get(CURVES[direction], [])):
        if point.get("requested", point["intensity"]) >= 99.5:
            return point
    return None
