#!/usr/bin/env python3
"""Judges `jostle provision` by reality: how many copies of a program fit on two CPUs.

usage: python3 scripts/fits-for-real [OPTIONS]

For each program, `jostle provision --shares-cpus` says from its profile how many copies
keep each QoS on this machine. Then copies are run for real, one more each time, spread
over the two CPUs in turn, and `jostle pairs` measures what each of them keeps of its
speed alone. So many copies fit as leave the slowest of them its QoS; by the ends of its 95 %
interval, between so many and so many. That is compared for the QoS of --qos one by one, and
for every whole percent from the least of them to 95: a prediction within one copy of what
may be so is right.

The programs are those of scripts/recordings; their profiles must be of this machine
(scripts/record --only NAMES --out DIR).

Needs: jostle (JOSTLE names the binary; default: target/release/jostle), Python 3.9,
bash, taskset, root (to find the progress of programs), and the Debian packages that the
recordings name, which are installed where they are missing. The machine for itself.
Takes: a minute for the calibration, and per number of copies the --seconds and about
4 s.
Exit: 0 all within one copy, 1 some are not or were not decided, 2 wrong usage, 3 no jostle.
"""

import argparse
import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
# More is not asked of a program with neighbours.
HIGHEST_QOS = 95


def say(text):
    print(f"fits-for-real: {text}", file=sys.stderr, flush=True)


def fail(code, text):
    say(text)
    sys.exit(code)


def recordings():
    """The module that prepares recorded applications: scripts/pairs."""
    path = os.path.join(REPOSITORY, "scripts", "pairs", "__main__.py")
    spec = importlib.util.spec_from_file_location("recorded_pairs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def predicted(args, name, qos):
    """Copies that provision expects to keep `qos` percent, with the ends of their interval."""
    with tempfile.TemporaryDirectory() as directory:
        os.symlink(os.path.abspath(os.path.join(args.profiles, f"{name}.json")), os.path.join(directory, f"{name}.json"))
        told = [args.jostle, "provision", "--apps", directory, "--qos", f"{qos}%", "--shares-cpus", "--json"]
        ended = subprocess.run(told, capture_output=True, text=True)
    if ended.returncode not in (0, 1) or not ended.stdout:
        fail(3, f"jostle provision: {ended.stderr.strip()}")
    copies = json.loads(ended.stdout)["mixes"][0]["machines"][0]["copies"]
    return copies["estimate"], copies["low"], copies["high"]


def kept(args, name, count, applications, metrics):
    """What each of `count` copies keeps of its speed alone, percent, with the ends of its 95 %
    interval; None where that failed."""
    out = os.path.join(applications.work, "copies.json")
    told = [args.jostle, "pairs", "--same-cpu", "--cpus", ",".join(map(str, args.cpus)), "--out", out]
    told += ["--budget", f"{args.seconds}s", "--half-width", "0.5"]
    script, _, metric = applications.command(name)
    told += applications.kind_options([name])
    metric = metrics.get(name) or metric
    for copy in range(count):
        label = f"{name}-{copy}"
        if metric:
            told += ["--metric-of", f"{label}={metric}"]
        told.append(f"{label}=taskset -c {args.cpus[copy % 2]} {script}")
    ended = subprocess.run(told, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines() or ["nothing was said"]
        say(f"{count} x {name}: {said[-1]}")
        return None
    with open(out) as file:
        group = json.load(file)["groups"][0]
    found = []
    for member in group["members"]:
        # Found once, it need not be searched for again.
        named = member["metric"].get("name", "")
        if named.startswith("progress:uprobe:") or named == "runs":
            metrics[name] = named
        performance = member["performance"]
        if "value" not in performance:
            say(f"{count} x {name}: {performance.get('unavailable')}")
            return None
        low, high = performance["ci95"]
        found.append(tuple(100 * one for one in (performance["value"], low, high)))
    return found


def fitting(slowest, qos):
    """How many copies keep `qos`, given what the slowest of each number keeps; and whether more may fit."""
    fits = 0
    while fits + 1 in slowest and slowest[fits + 1] >= qos:
        fits += 1
    return fits, fits == max(slowest) and fits > 0


def possible(slowest, qos):
    """How many copies fit, by what the slowest of each number keeps, and by the ends of the
    intervals; and whether more may fit."""
    point, low, high = (
        fitting({count: kept[end] for count, kept in slowest.items()}, qos) for end in range(3)
    )
    return point[0], low[0], high[0], high[1]


def verdict(copies, low, high, more):
    """Whether `copies` are within one of those that fit, `low` to `high`; None where `more` may."""
    if more and high - copies <= 1:
        return None
    return low - 1 <= copies <= high + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="gzip,python,numpy-stream", help="recordings, separated by commas")
    parser.add_argument("--profiles", default=os.path.join(REPOSITORY, "profiles"), help="directory of profiles [profiles/]")
    parser.add_argument("--qos", default="80,45,30,22", help="percent to keep, separated by commas [80,45,30,22]")
    parser.add_argument("--most", type=int, default=8, help="copies at most [8]")
    parser.add_argument("--seconds", type=float, default=6.0, help="for each number of copies [6]")
    parser.add_argument("--cpus", default=None, help="two CPUs, like 0,1 [the first two allowed]")
    parser.add_argument("--self-test", action="store_true", help="check the arithmetic, without jostle, and stop")
    args = parser.parse_args()
    if args.self_test:
        told = {
            (4, 4, 4, False): True,
            (2, 4, 4, False): False,
            (5, 4, 4, False): True,
            (8, 6, 6, True): None,
            (4, 6, 6, True): False,
            (4, 2, 4, False): True,
            (6, 2, 4, False): False,
        }
        wrong = [case for case, right in told.items() if verdict(*case) is not right]
        if [fitting({1: 100.0, 2: 90.0, 3: 48.0}, one) for one in (95, 60, 40)] != [(1, False), (2, False), (3, True)]:
            wrong.append("fitting")
        kept_by = {1: (100.0, 100.0, 100.0), 2: (50.0, 47.0, 53.0), 3: (30.0, 28.0, 32.0)}
        if [possible(kept_by, one) for one in (48, 51, 20)] != [(2, 1, 2, False), (1, 1, 2, False), (3, 3, 3, True)]:
            wrong.append("possible")
        sys.exit(f"fits-for-real: wrong: {wrong}" if wrong else 0)
    try:
        allowed = sorted(os.sched_getaffinity(0))
        args.cpus = [int(cpu) for cpu in args.cpus.split(",")] if args.cpus else allowed[:2]
        qos = sorted((float(one) for one in args.qos.split(",")), reverse=True)
    except ValueError:
        fail(2, "--cpus and --qos: give two numbers, like 0,1, and percentages")
    if len(args.cpus) != 2 or args.cpus[0] == args.cpus[1]:
        fail(2, "--cpus: two CPUs are needed")
    names = args.only.split(",")
    pairs = recordings()
    for name in names:
        if not os.path.exists(os.path.join(args.profiles, f"{name}.json")):
            fail(2, f"--only {name}: no profile in {args.profiles}")
        if not os.path.exists(os.path.join(pairs.RECORDINGS, name)) or pairs.is_service(name):
            fail(2, f"--only {name}: no such recording, or a service")
    args.jostle = os.path.abspath(os.environ.get("JOSTLE", os.path.join(REPOSITORY, "target", "release", "jostle")))
    if not os.access(args.jostle, os.X_OK):
        fail(3, f"{args.jostle} is no program; build it with cargo build --release, or set JOSTLE")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = tempfile.mkdtemp(prefix="jostle-fits.", dir=os.environ.get("RECORD_TMP", "/var/tmp"))
    # A calibration of its own: one made by another version may no longer apply.
    os.environ["XDG_STATE_HOME"] = os.path.join(work, "state")
    applications = pairs.Applications(work)
    rows, verdicts, totals = [], [], []
    try:
        say("calibrating the machine")
        ended = subprocess.run([args.jostle, "machine", "--calibrate"], capture_output=True, text=True)
        if ended.returncode != 0:
            fail(3, f"cannot calibrate the machine: {ended.stderr.strip().splitlines()[-1:]}")
        for name in names:
            if applications.command(name) is None:
                continue
            told = {one: predicted(args, name, one) for one in qos}
            most = min(args.most, max(copies for copies, _, _ in told.values()) + 2)
            slowest, metrics = {1: (100.0, 100.0, 100.0)}, {}
            for count in range(2, most + 1):
                found = kept(args, name, count, applications, metrics)
                if found is None:
                    break
                slowest[count] = min(found)
                each = " ".join(f"{one:.0f} ({low:.0f}–{high:.0f})" for one, low, high in found)
                say(f"{count} x {name}: {each} % of alone")
                if slowest[count][2] < min(qos):
                    break
            for one in qos:
                fits, least, most_of_all, more = possible(slowest, one)
                copies, low, high = told[one]
                verdicts.append(verdict(copies, least, most_of_all, more))
                real = f"{fits} ({least}–{most_of_all}{' or more' if more else ''})"
                rows.append(f"| {name} | {one:g} % | {copies} ({low}–{high}) | {real} |")
            percents = range(math.ceil(min(qos)), HIGHEST_QOS + 1)
            judged = [verdict(predicted(args, name, one)[0], *possible(slowest, one)[1:]) for one in percents]
            right, decided = judged.count(True), len(judged) - judged.count(None)
            totals.append(f"{name}: within one copy at {right} of {decided} QoS from {percents[0]} to {percents[-1]} %")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        applications.clean()
    print("| program | QoS | copies that fit, predicted (95 %) | for real (95 %) |\n|---|---|---|---|")
    print("\n".join(rows))
    print(f"\n{verdicts.count(True)} within one copy, {verdicts.count(False)} not, {verdicts.count(None)} not decided")
    print("\n".join(totals))
    sys.exit(0 if verdicts and all(verdicts) else 1)


if __name__ == "__main__":
    main()
