"""Checks of this program on made profiles, of which the answers are known."""

import json
import os
import tempfile

import agreement
import profiles
import table


def score(value, low, high):
    return {"score": value, "ci95": [low, high]}


def point(performance, low, high, **more):
    return {"intensity": 100.0, "performance": performance, "ci95": [low, high], "windows": 9, **more}


def made(name="one", binary="b1", budget=30.0, **resources):
    return {
        "format": "jostle-profile/1",
        "workload": {"name": name, "labels": {"kind": "compressor", "recorder": binary}},
        "machine": {"model": "Made CPU", "cpus": 2, "smt": False},
        "metric": {"name": "progress:uprobe:/usr/bin/one:work"},
        "qos": {"threshold": 0.95},
        "conditions": {
            "recorded_at": "2026-01-01T00:00:00Z",
            "budget_seconds": budget,
            "counters": {"task-clock": {"owner": "target"}, "machine-psi": {"owner": "machine"}},
            "doubts": ["a sentence"],
        },
        "resources": resources,
    }


def put(directory, profile, number=1):
    path = profiles.place(directory, profile["workload"]["name"], number)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(profile, file)
    return path


def moving(name):
    return {"control": 1.0, "treat": 0.5, "ratio": {"value": 0.5, "ci95": [0.4, 0.6]}, "moved": True}


def check(is_so, what):
    if not is_so:
        raise SystemExit(f"fleet: self-test failed: {what}")


def decides():
    entry = {"status": "measured", "tolerated": score(50, 40, 60), "caused": score(9, 0, 20.1)}
    check(profiles.decided(entry, "tolerated"), "a score within 10 points is known")
    check(not profiles.decided(entry, "caused"), "a wider one is not")
    entry["caused"] = score(80, 60, 100)
    check(profiles.decided(entry, "caused"), "what surely disturbs is decided")
    entry = {"status": "unresolved", "sensitive": False}
    check(profiles.decided(entry, "tolerated"), "a verdict decides")
    check(not profiles.decided(entry, "caused"), "but only what it is about")
    entry = {"status": "unresolved", "curve": [{"intensity": 97, "requested": 100, "ci95": [0.94, 0.97]}]}
    check(profiles.at_the_line(entry, "tolerated", 0.95), "full pressure brings it to the line")
    check(not profiles.at_the_line(entry, "tolerated", 0.9), "not to another one")
    check(not profiles.at_the_line({**entry, "sensitive": True}, "tolerated", 0.95), "a verdict says more")
    entry["probe_curve"] = entry["curve"]
    check(profiles.at_the_line(entry, "caused", 0.5), "a source has a line of its own")
    check(not profiles.at_the_line({**entry, "caused": score(1, 0, 5)}, "caused", 0.5), "a score says more")
    entry["curve"][0]["intensity"] = 80
    check(not profiles.at_the_line(entry, "tolerated", 0.95), "but only full pressure")
    for status, reason, counts in [
        ("measured", None, True),
        ("not-shared", "one CPU", False),
        ("unavailable", "no peer", False),
        ("unresolved", "a switch there and back takes 2 min", False),
        ("unresolved", "CPUs shared a last-level cache at no time", False),
        ("unresolved", "CPUs shared a last-level cache in 3 % of the time only", True),
    ]:
        check(profiles.allowed({"status": status, "reason": reason}) == counts, f"{status} counts")
    held = "tolerated: an unseen neighbour held the core all the time: with the target stopped"
    held = {"status": "unresolved", "reason": held}
    check(not profiles.allowed(held), "what somebody else held cannot be taken")
    check(profiles.allowed(held, "caused"), "but pressed on")


def agrees():
    first = made(
        l1d={"status": "measured", "tolerated": score(50, 40, 60), "curve": [point(0.8, 0.7, 0.9)]},
        tlb={"status": "not-shared"},
    )
    second = made(
        l1d={"status": "measured", "tolerated": score(58, 52, 61), "curve": [point(0.6, 0.5, 0.85)]},
        int={"status": "unresolved"},
    )
    fleet = {"one": [first, second], "two": [made("two", int={"status": "unresolved"})]}
    # 50 is outside 52 to 61, 58 is inside 40 to 60.
    found = agreement.collect(fleet, agreement.scores)
    check(agreement.total(found).text() == "1/2 = 50 %", "scores against intervals")
    found = agreement.collect(fleet, agreement.losses)
    check(agreement.total(found, resource="l1d").text() == "1/2 = 50 %", "losses against intervals")
    check(agreement.total(found, direction="caused").text() == "–", "nothing to compare")
    entry = {"tolerated": score(50, 40, 60)}
    scaled = [made(tlb={**entry, "full_scale_pressure": entries}) for entries in (128, 4096)]
    found = agreement.collect({"one": scaled}, agreement.scores)
    check(agreement.total(found).text() == "–", "another full scale is another resource")
    found = agreement.decisions(fleet)
    check(agreement.total(found).text() == "2/8 = 25 %", "what is not shared does not count")
    check(agreement.total(found, name="two").text() == "0/2 = 0 %", "by program")
    lines = agreement.report(fleet).splitlines()
    row = next(line for line in lines if line.startswith("l1d"))
    check(row.split()[1:4] == ["1/2", "=", "50"], f"the report says so: {row}")


def remembers(directory):
    put(directory, made("one"))
    put(directory, made("one"), 2)
    put(directory, made("other", binary="b0"))
    put(directory, made("short", budget=5.0))
    cut = put(directory, {**made("cut"), "partial": True})
    chosen = ["one", "other", "short", "cut", "one"]
    lines = profiles.pending(directory, chosen, "b1", 30.0, 2, False).splitlines()
    check(lines[0] == "6 to record, 2 recorded already; about 4 minutes", lines[0])
    expected = ["1 other", "1 short", "1 cut", "2 other", "2 short", "2 cut"]
    check(lines[1:] == expected, f"rounds lie apart: {lines[1:]}")
    lines = profiles.pending(directory, chosen, "b1", 30.0, 2, True).splitlines()
    check(len(lines) == 9, "--again records all")
    check([len(r) for r in profiles.rounds(directory).values()] == [1, 2, 1, 1], "rounds are found")
    check(len(profiles.foreign(directory, ["other", "short", "cut"])) == 2, "old files are named")
    with open(cut, "w") as file:
        file.write("{")
    check(not profiles.recorded(cut, "b1", 30.0), "half a file is no recording")
    check(profiles.seconds("1m30s") == 90 and profiles.seconds("500ms") == 0.5, "times are read")


def finds_capacity(directory):
    searched = made("redis-60")
    searched["metric"]["load"] = {"capacity_per_second": 1234.5}
    put(directory, searched)
    check(profiles.capacity(directory, "b1", "redis") == 1234, "a capacity that was searched")
    check(profiles.capacity(directory, "b2", "redis") is None, "not that of another binary")
    stated = made("redis-30")
    stated["workload"]["labels"]["capacity"] = "999/s"
    put(directory, stated)
    check(profiles.capacity(directory, "b1", "redis") == 999, "a capacity that was given")


def keeps(directory):
    new, kept = os.path.join(directory, "new"), os.path.join(directory, "kept.json")
    text = json.dumps(made(l1d={"status": "measured", "counters": {"task-clock": moving("l1d")}}), indent=1)
    for slim, lines in [(False, text.count("\n")), (True, 1)]:
        with open(new, "w") as file:
            file.write(text.replace("l1d", f"{profiles.REPOSITORY}/l1d"))
        profiles.keep(new, kept, slim)
        with open(kept) as file:
            found = file.read()
        check(profiles.REPOSITORY not in found, "named from the repository")
        check(found.count("\n") == lines and not os.path.exists(new), "moved")
        check(("counters" in found) != slim, "without counters only where asked")
        check(profiles.load(kept)["resources"]["l1d"]["status"] == "measured", "still a profile")


def writes(directory):
    entry = {
        "status": "measured",
        "sensitive": True,
        "tolerated": score(31, 28, 35),
        "caused": score(12, 9, 15),
        "curve": [point(0.8, 0.78, 0.82)],
        "counters": {"task-clock": moving("task-clock"), "machine-psi": moving("machine-psi")},
    }
    fleet = {"zip": [made("zip", **{"l2-capacity": entry, "int": {"status": "measured", "sensitive": False}})]}
    document = os.path.join(directory, "profiles.md")
    parts = "".join(f"<!-- {name} -->\nold\n<!-- end of {name} -->\nby hand\n" for name in table.PARTS)
    with open(document, "w") as file:
        file.write(parts)
    for _ in range(2):
        table.write(document, fleet)
    with open(document) as file:
        text = file.read()
    expected = "| zip | calls | l2-capacity 20 (18–22) from 31: CPU time ×0.5 | 1, 0 | l2-capacity 12 | – |"
    check(expected in text, f"the row of a program:\n{text}")
    check("| compressors (1) | – | none of 1 | – | 1 lose 20 | – |" in text, "the row of a kind")
    slowed = {**entry, "counters": {}, "counters_steady": ["task-clock"]}
    found = table.mechanism(fleet["zip"][0], slowed)
    check(found == ["CPU time per operation ×1.2"], f"slower at the same time: {found}")
    check(text.count("by hand") == len(table.PARTS) and "old" not in text, "only between markers")
    for load, performance in [("30", 0.9), ("90", 0.4)]:
        loaded = made(f"web-{load}", **{"cpu-time": {**entry, "curve": [point(performance, 0.3, 0.95)]}})
        loaded["workload"]["labels"]["kind"] = "service"
        fleet[f"web-{load}"] = [loaded]
    check("| cpu-time 10 / 60 |" in table.programs(fleet), "the loads of a service share a row")
    with open(document, "w") as file:
        file.write("no markers")
    try:
        table.write(document, fleet)
        check(False, "a document without markers is refused")
    except table.NoMarkers as error:
        check("<!-- recorded -->" in str(error), "and the marker named")


def run():
    decides()
    agrees()
    for test in (remembers, finds_capacity, keeps, writes):
        with tempfile.TemporaryDirectory() as directory:
            test(directory)
    print("fleet: self-test passed")
    return 0
