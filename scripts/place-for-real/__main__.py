#!/usr/bin/env python3
"""Judges placements by reality: batches of real programs on two CPUs.

usage: python3 scripts/place-for-real [OPTIONS]

Each batch holds some programs of scripts/recordings that have a profile, drawn by the
seed. Every way to divide them between two CPUs is run for real, all programs at once,
each kept to its CPU, and `jostle pairs` measures what each keeps of its speed alone.
Each policy of `jostle schedule` places the batch from the profiles, one program after
another in an order drawn by the seed, on two nodes that stand for the CPUs
(`shares_cpus`, so that programs on one node take turns). `jostle place-local` divides
the batch as a whole. What a placement is worth is what was measured for the division that
was chosen.

  performance  mean over the programs of a batch, percent of alone
  geometric    the same as geometric mean: of divisions with the same performance it is
               larger where no program pays for another
  within QoS   programs that keep at least --qos of an equal share of the CPUs

All divisions are measured twice, in an order drawn by the seed. The best one is chosen
by the one time and judged by the other, and both ways round; else luck would count as
skill. The best by performance and the best by geometric mean may differ. `random` is
the mean over all divisions. CPUs count as alike.

Results go into one file; a division that was measured is skipped: run the same command
again to resume. The table is printed at the end, or alone with --table.

Needs: jostle (JOSTLE names the binary; default: target/release/jostle), Python 3.9,
bash, taskset, root (to find the progress of programs), and the Debian packages that the
recordings name, which are installed where they are missing. The machine for itself.
Takes: per batch of four 16 times the --seconds and about 4 s.
"""

import argparse
import importlib.util
import itertools
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile

import selftest

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
# Knows all programs of a batch before it places one.
AT_ONCE = "place-local"
POLICIES = ["jostle", AT_ONCE, "least-loaded", "bin-pack", "paragon", "ibench-l1", "bazaar", "quasar-sizing"]
TIMES = 2
# Of different kinds, with a metric that can be read often.
USUAL = """
xz gzip bzip2 zstd-9 awk grep lua python perl sqlite3 openssl sha512sum
numpy-matmul numpy-stream minisat node dd fio-randread
""".split()
# Half of them use 13 to 62 % of a CPU by their profiles, so that it matters which of them
# share one, and counting programs does not tell.
MIXED = """
dd fio-randread sqlite3-fsync zstd-1 java sort
xz lua openssl numpy-stream python node
""".split()
# Half-width of the 95 % interval of a mean over so many batches, in standard errors.
STUDENT = [None, None, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26]


def say(text):
    print(f"place-for-real: {text}", file=sys.stderr, flush=True)


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


def divisions(names):
    """Every way to divide `names` between two CPUs that are alike: those beside the
    first, itself included, as a sorted tuple."""
    first, rest = names[0], names[1:]
    for count in range(len(rest) + 1):
        for beside in itertools.combinations(rest, count):
            yield tuple(sorted((first, *beside)))


def key(division):
    return "+".join(division)


def placed_at_once(args, names, profiles):
    """The division that `jostle place-local` makes of them."""
    told = [args.schedule, "place-local", "--json", "--cpus", ",".join(map(str, args.cpus))]
    ended = subprocess.run(told + [profiles[name][0] for name in names], capture_output=True, text=True)
    if ended.returncode != 0:
        fail(3, f"jostle place-local: {ended.stderr.strip()}")
    cpus = [program["cpus"] for program in json.loads(ended.stdout)["programs"]]
    return tuple(sorted(name for name, its in zip(names, cpus) if its == cpus[0]))


def placed(args, names, policy, order, profiles):
    """The division that `policy` makes of them; None where it leaves one out."""
    if policy == AT_ONCE:
        return placed_at_once(args, names, profiles)
    share = args.qos / 100 * min(1.0, 2 / len(names))
    with tempfile.TemporaryDirectory() as directory:
        nodes = os.path.join(directory, "nodes.toml")
        apps = os.path.join(directory, "apps")
        os.mkdir(apps)
        with open(nodes, "w") as file:
            for node in "01":
                file.write(f'[[node]]\nname = "{node}"\ncpus = {len(names)}\nmemory = "64GiB"\nshares_cpus = true\n')
            for name in names:
                file.write(f'[[app]]\nname = "{profiles[name][1]}"\nqos = {share:.3f}\n')
        for name in names:
            os.symlink(profiles[name][0], os.path.join(apps, f"{name}.json"))
        events = [{"event": "arrive", "id": name, "app": profiles[name][1]} for name in order]
        told = [args.schedule, "schedule", "--stdin", "--nodes", nodes, "--apps", apps, "--policy", policy]
        ended = subprocess.run(
            told + ["--seed", str(args.seed)],
            input="\n".join(map(json.dumps, events)),
            capture_output=True,
            text=True,
        )
    if ended.returncode != 0:
        fail(3, f"jostle schedule --policy {policy}: {ended.stderr.strip()}")
    nodes = {}
    for line in ended.stdout.splitlines():
        answer = json.loads(line)
        if answer["answer"] == "error":
            fail(3, f"jostle schedule --policy {policy}: {answer['message']}")
        if answer["answer"] == "placed":
            nodes[answer["id"]] = answer["node"]
    if len(nodes) < len(names):
        return None
    return tuple(sorted(name for name in names if nodes[name] == nodes[names[0]]))


def measured(args, names, division, applications, metrics):
    """What each program keeps when so divided: percent with interval, or None."""
    out = os.path.join(applications.work, "placed.json")
    one, other = args.cpus
    told = [args.jostle, "pairs", "--same-cpu", "--cpus", f"{one},{other}", "--out", out]
    told += ["--budget", f"{args.seconds}s", "--half-width", "0.5", "--seed", str(args.seed)]
    commands = {name: applications.command(name) for name in names}
    told += applications.kind_options(names)
    for name, (script, _, metric) in commands.items():
        metric = metrics.get(name) or metric
        if metric:
            told += ["--metric-of", f"{name}={metric}"]
        told.append(f"{name}=taskset -c {one if name in division else other} {script}")
    ended = subprocess.run(told, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines() or ["nothing was said"]
        say(f"{key(division)}: {said[-1]}")
        return None
    with open(out) as file:
        group = json.load(file)["groups"][0]
    kept = {}
    for member in group["members"]:
        name = member["app"]
        # Found once, it need not be searched for again.
        found = member["metric"].get("name", "")
        if found.startswith("progress:uprobe:") or found == "runs":
            metrics[name] = found
        if "value" not in member["performance"]:
            say(f"{key(division)}: {name}: {member['performance'].get('unavailable')}")
            return None
        performance = member["performance"]
        kept[name] = {
            "percent": 100 * performance["value"],
            "ci95": [100 * end for end in performance["ci95"]],
        }
    return kept


# Places in what `worth` returns.
PERFORMANCE, WITHIN, GEOMETRIC = range(3)


def worth(kept, line):
    """Mean performance, share of programs at or above `line`, and geometric mean, percent."""
    values = [one["percent"] for one in kept.values()]
    within = 100 * sum(value >= line for value in values) / len(values)
    # What did nothing in its windows counts as 0.1 %: there is no logarithm of 0.
    return statistics.mean(values), within, statistics.geometric_mean([max(value, 0.1) for value in values])


def judged(batch, qos):
    """What each policy of a batch is worth, as `worth` has it."""
    names = batch["programs"]
    line = qos * min(1.0, 2 / len(names))
    times = range(TIMES)
    worths = {
        division: [worth(kept, line) for kept in runs]
        for division, runs in batch["measured"].items()
        if len(runs) == TIMES and None not in runs
    }
    tried = [runs for runs in batch["measured"].values() if len(runs) == TIMES]
    # What failed is left out; what is yet to be measured might be the best.
    if not worths or len(tried) < batch["divisions"]:
        return None
    both = {division: [statistics.mean(x) for x in zip(*runs)] for division, runs in worths.items()}
    rows = {}
    for policy, division in batch["placed"].items():
        rows[policy] = both.get(division) if division else None
    rows["random"] = [statistics.mean(x) for x in zip(*both.values())]

    def best(by):
        """Chosen by one time, judged by the other."""
        chosen = [max(worths, key=lambda division: worths[division][time][by]) for time in times]
        return [statistics.mean(x) for x in zip(*(worths[chosen[time]][1 - time] for time in times))]

    rows["best"] = best(PERFORMANCE)[:GEOMETRIC] + best(GEOMETRIC)[GEOMETRIC:]
    rows["best, by luck"] = list(max(both.values()))
    rows["best, by luck"][GEOMETRIC] = max(row[GEOMETRIC] for row in both.values())
    return rows


def interval(values):
    """Mean, and half-width of its 95 % interval over batches."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, math.inf
    factor = STUDENT[len(values)] if len(values) < len(STUDENT) else 2.1
    return mean, factor * statistics.stdev(values) / math.sqrt(len(values))


def table(document):
    batches = [judged(batch, document["qos_percent"]) for batch in document["batches"]]
    batches = [batch for batch in batches if batch]
    if not batches:
        return "no batch was measured whole"
    names = ["best", *document["policies"], "random", "best, by luck"]
    lines = [
        f"{len(batches)} batches; mean over batches and 95 % interval",
        "",
        "| placement by | performance, % of alone | points below the best | geometric mean, % | points below the best | within QoS, % |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        rows = [(batch[name], batch["best"]) for batch in batches if batch.get(name)]
        if not rows:
            continue
        cells = []
        for measure in (PERFORMANCE, GEOMETRIC):
            cells.append(interval([row[measure] for row, _ in rows]))
            cells.append(interval([best[measure] - row[measure] for row, best in rows]))
        cells.append(interval([row[WITHIN] for row, _ in rows]))
        cells = [f"{mean:.1f} ± {half:.1f}" for mean, half in cells]
        if name == "best":
            cells[1] = cells[3] = "0"
        some = "" if len(rows) == len(batches) else f" (of {len(rows)} batches)"
        lines.append(f"| {name}{some} | {' | '.join(cells)} |")
    both = [(batch.get("jostle"), batch.get("least-loaded")) for batch in batches]
    both = [rows for rows in both if None not in rows]
    if both:
        ahead = [interval([one[by] - other[by] for one, other in both]) for by in (PERFORMANCE, GEOMETRIC)]
        ahead = [f"{mean:.1f} ± {half:.1f}" for mean, half in ahead]
        lines += ["", f"jostle is ahead of least-loaded by {ahead[0]} points, by {ahead[1]} in the geometric mean"]
    return "\n".join(lines)


def save(document, path):
    temporary = f"{path}.tmp"
    with open(temporary, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(temporary, path)


def known_profiles(directory):
    """File and workload name of each profile, by the name of its recording."""
    found = {}
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".json") or ".schema." in name:
            continue
        path = os.path.abspath(os.path.join(directory, name))
        with open(path) as file:
            profile = json.load(file)
        if str(profile.get("format", "")).startswith("jostle-profile/1"):
            found[name[: -len(".json")]] = (path, profile["workload"]["name"])
    return found


def drawn(args, names):
    """Batches, each program in about as many as any other."""
    source = random.Random(args.seed)
    pool = []
    batches = []
    for _ in range(args.batches):
        while len(pool) < args.programs:
            more = [name for name in names if name not in pool]
            source.shuffle(more)
            pool += more
        batch, pool = sorted(pool[: args.programs]), pool[args.programs :]
        order = list(batch)
        source.shuffle(order)
        batches.append((batch, order))
    return batches


def run(args, names, profiles, document, applications):
    metrics = document.setdefault("metrics", {})
    left = args.most
    for number, (batch, order) in enumerate(drawn(args, names), 1):
        if None in [applications.command(name) for name in batch]:
            say(f"batch {number} left out: a program cannot be prepared")
            continue
        known = next((b for b in document["batches"] if b["programs"] == batch), None)
        if known is None:
            known = {"programs": batch, "order": order, "placed": {}, "measured": {}}
            document["batches"].append(known)
        known["divisions"] = len(list(divisions(batch)))
        for policy in document["policies"]:
            division = placed(args, batch, policy, order, profiles)
            known["placed"][policy] = key(division) if division else None
        source = random.Random(f"{args.seed} {batch}")
        todo = []
        for time in range(TIMES):
            # All of them once, then all of them again.
            every = list(divisions(batch))
            source.shuffle(every)
            todo += [(time, division) for division in every]
        say(f"batch {number} of {args.batches}: {' '.join(batch)}")
        for time, division in todo:
            runs = known["measured"].setdefault(key(division), [])
            if len(runs) > time:
                continue
            if left == 0:
                return
            left = None if left is None else left - 1
            runs.append(measured(args, batch, division, applications, metrics))
            save(document, args.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=6, help="how many [6]")
    parser.add_argument("--programs", type=int, default=4, choices=[4, 5, 6], help="in each [4]")
    parser.add_argument("--only", help="draw from these recordings only, separated by commas")
    parser.add_argument("--mixed", action="store_true", help="draw from programs half of which use only a part of a CPU")
    parser.add_argument("--seconds", type=float, default=6.0, help="for each division, each time [6]")
    parser.add_argument("--most", type=int, help="measure so many divisions, and stop")
    parser.add_argument("--qos", type=float, default=90.0, help="percent of an equal share of the CPUs that is to be kept [90]")
    parser.add_argument("--cpus", default=None, help="two CPUs, like 0,1 [the first two allowed]")
    parser.add_argument("--profiles", default=os.path.join(REPOSITORY, "profiles"), help="directory of profiles [profiles/]")
    parser.add_argument("--seed", type=int, default=1, help="draws batches and orders")
    parser.add_argument("--out", default="placements.json", help="where results go [placements.json]")
    parser.add_argument("--table", action="store_true", help="print the table of --out, and stop")
    parser.add_argument("--self-test", action="store_true", help="check the arithmetic, without jostle, and stop")
    parser.add_argument("--dry-run", action="store_true", help="print batches and what policies do with them, and stop")
    args = parser.parse_args()

    if args.self_test:
        sys.exit(selftest.run(sys.modules[__name__]))
    document = {"format": "jostle-placements/1", "policies": POLICIES, "qos_percent": args.qos, "batches": []}
    if os.path.exists(args.out):
        with open(args.out) as file:
            document = json.load(file)
        if document.get("format") != "jostle-placements/1":
            fail(2, f"--out {args.out}: not a file of place-for-real")
    if args.table:
        print(table(document))
        return
    allowed = sorted(os.sched_getaffinity(0))
    try:
        args.cpus = [int(cpu) for cpu in args.cpus.split(",")] if args.cpus else allowed[:2]
    except ValueError:
        fail(2, f"--cpus {args.cpus}: give two numbers, like 0,1")
    if len(args.cpus) != 2 or args.cpus[0] == args.cpus[1]:
        fail(2, "--cpus: two CPUs are needed")
    args.jostle = os.path.abspath(os.environ.get("JOSTLE", os.path.join(REPOSITORY, "target", "release", "jostle")))
    if not os.access(args.jostle, os.X_OK):
        fail(3, f"{args.jostle} is no program; build it with cargo build --release, or set JOSTLE")
    args.schedule = args.jostle
    profiles = known_profiles(args.profiles)
    if args.only and args.mixed:
        fail(2, "--mixed: it names the recordings, as --only does; give one of them")
    names = args.only.split(",") if args.only else MIXED if args.mixed else USUAL
    missing = [name for name in names if name not in profiles]
    if args.only and missing:
        fail(2, f"--only {missing[0]}: no profile in {args.profiles}")
    names = [name for name in names if name in profiles]
    if len(names) < args.programs:
        fail(2, f"{len(names)} programs have a profile in {args.profiles}, {args.programs} are needed")
    pairs = recordings()
    unknown = [name for name in names if not os.path.exists(os.path.join(pairs.RECORDINGS, name))]
    if unknown:
        fail(2, f"--only {unknown[0]}: there is no such recording")
    if args.dry_run:
        for batch, order in drawn(args, names):
            print(" ".join(batch))
            for policy in POLICIES:
                print(f"  {policy:14} {placed(args, batch, policy, order, profiles)}")
        return

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = tempfile.mkdtemp(prefix="jostle-placed.", dir=os.environ.get("RECORD_TMP", "/var/tmp"))
    applications = pairs.Applications(work)
    try:
        run(args, names, profiles, document, applications)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        applications.clean()
    print(table(document))


if __name__ == "__main__":
    main()
