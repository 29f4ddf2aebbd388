#!/usr/bin/env python3
"""Measures the recorded applications pair by pair, really side by side.

usage: python3 scripts/pairs [OPTIONS]

The applications are those of scripts/recordings, prepared as scripts/record does it.
Each pair is measured by `jostle pairs` on one CPU that both share and on CPUs of their
own; applications that read or write files do that on the disk of the directory for
temporary files, so that two of them share it. Results go into one file, where a pair
that is there already is skipped: run the same command again to resume. With --again
only what the same binary has measured is skipped. Every group keeps its date and the
binary that measured it.

By default some pairs of 20 applications of different kinds are measured: each with 6
others, chosen by the seed, so that all are connected. Left out are services that need
a load generator beside them.

Needs: jostle (JOSTLE names the binary; default: target/release/jostle), Python 3.9,
bash, root (to find the progress of programs), and the Debian packages that the
recordings name, which are installed where they are missing. The machine for itself.
Takes: 3 s per application, and per pair twice the --seconds and about 8 s, in which the
programs are started and a metric is found for each.
"""

import argparse
import datetime
import hashlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
RECORDINGS = os.path.join(REPOSITORY, "scripts", "recordings")
# Of different kinds, and with a metric that can be read often.
USUAL = """
xz gzip bzip2 zstd-9 sort awk grep lua python perl sqlite3 gcc openssl sha512sum
numpy-matmul numpy-stream minisat node dd fio-randread
""".split()
PARTNERS = 6
PLACEMENTS = ["same-cpu", "own-cpus"]
SETUP_SECONDS = 4


def say(text):
    print(f"pairs: {text}", file=sys.stderr, flush=True)


def fail(code, text):
    say(text)
    sys.exit(code)


def is_service(name):
    with open(os.path.join(RECORDINGS, name)) as file:
        text = file.read()
    return "levels=" in text or "serve " in text or "postgres_under" in text


def chosen_pairs(names, partners, seed):
    """Each name with `partners` others: neighbours in a circle of random order."""
    order = sorted(names)
    random.Random(seed).shuffle(order)
    reach = min((partners + 1) // 2, len(order) // 2)
    pairs = []
    for step in range(1, reach + 1):
        for at, name in enumerate(order):
            pair = tuple(sorted((name, order[(at + step) % len(order)])))
            if pair[0] != pair[1] and pair not in pairs:
                pairs.append(pair)
    return pairs


def load(path):
    if not os.path.exists(path):
        return None
    with open(path) as file:
        document = json.load(file)
    if not str(document.get("format", "")).startswith("jostle-pairs/1"):
        fail(2, f"--out {path}: not a file of jostle pairs")
    return document


def save(document, path):
    # One group a line: what changed can be seen.
    head = {key: value for key, value in document.items() if key != "groups"}
    text = json.dumps(head, indent=2)[:-2]
    groups = ",\n    ".join(json.dumps(group) for group in document["groups"])
    temporary = f"{path}.tmp"
    with open(temporary, "w") as file:
        file.write(f'{text},\n  "groups": [\n    {groups}\n  ]\n}}\n')
    os.replace(temporary, path)


def members(group):
    return tuple(sorted(member["app"] for member in group["members"]))


def done(document, binary):
    """Pairs and placements that `binary` has measured; any binary if None."""
    groups = document["groups"] if document else []
    same = [group for group in groups if binary in (None, group.get("binary"))]
    return {(members(group), group["placement"]) for group in same}


class Applications:
    """Prepared in directories of their own, each when it is first needed."""

    def __init__(self, work):
        self.work = work
        self.inputs = os.path.join(work, "inputs")
        os.mkdir(self.inputs)
        self.known = {}
        # How printed numbers are meant, by application.
        self.kinds = {}

    def command(self, name):
        """The script that runs it and its own command; None where it cannot be prepared."""
        if name not in self.known:
            self.known[name] = self.prepare(name)
        return self.known[name]

    def prepare(self, name):
        directory = os.path.join(self.work, name)
        os.mkdir(directory)
        recipe = ["bash", os.path.join(HERE, "recipe.sh"), REPOSITORY, name, directory, self.inputs]
        ended = subprocess.run(recipe, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ended.returncode != 0 or not os.path.exists(f"{directory}.recipe"):
            said = ended.stderr.strip().splitlines() or ["nothing was said"]
            say(f"{name} cannot be prepared: {said[-1]}")
            return None
        with open(f"{directory}.recipe", "rb") as file:
            words = [word.decode() for word in file.read().split(b"\0")[:-1]]
        if "--" not in words:
            say(f"{name} is not a command that jostle starts")
            return None
        options, argv = words[: words.index("--")], words[words.index("--") + 1 :]
        values = list(zip(options, options[1:]))
        environment = [value for flag, value in values if flag == "--env"]
        metric = next((value for flag, value in values if flag == "--metric"), None)
        self.kinds[name] = next((value for flag, value in values if flag == "--kind"), None)
        script = os.path.join(directory, f"run-{name}")
        targets = os.path.join(REPOSITORY, "scripts", "targets")
        with open(script, "w") as file:
            file.write("#!/bin/sh\n")
            file.write(f"cd {shlex.quote(directory)} || exit\nPATH={shlex.quote(targets)}:$PATH\nexport PATH\n")
            file.write("".join(f"export {shlex.quote(entry)}\n" for entry in environment))
            file.write("exec " + " ".join(shlex.quote(word) for word in argv) + "\n")
        os.chmod(script, 0o755)
        return script, [word.replace(targets + "/", "") for word in argv], metric

    def kind_options(self, names):
        """One `--kind` for all numbers that `names` print; nothing else has a kind."""
        kinds = {self.kinds[name] for name in names} - {None}
        return [word for kind in kinds for word in ("--kind", kind)]

    def clean(self):
        for name in self.known:
            groups = os.path.join(self.work, name, "groups")
            if os.path.exists(groups):
                with open(groups) as file:
                    for group in file.read().split():
                        if os.path.isdir(group):
                            os.rmdir(group)
        shutil.rmtree(self.work, ignore_errors=True)


def measure(args, binary, pair, wanted, applications):
    """The groups of one pair, or None."""
    commands = [applications.command(name) for name in pair]
    if None in commands:
        return None
    out = os.path.join(applications.work, "pairs.json")
    told = [args.jostle, "pairs", "--budget", f"{args.seconds}s", "--seed", str(args.seed), "--out", out]
    told += [f"--{placement}" for placement in wanted]
    told += applications.kind_options(pair)
    for name, (_, _, metric) in zip(pair, commands):
        if metric:
            told += ["--metric-of", f"{name}={metric}"]
    told += [f"{name}={script}" for name, (script, _, _) in zip(pair, commands)]
    ended = subprocess.run(told, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines() or ["nothing was said"]
        say(f"{' + '.join(pair)} failed: {said[-1]}")
        return None
    with open(out) as file:
        document = json.load(file)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    argv = {name: command[1] for name, command in zip(pair, commands)}
    for group in document["groups"]:
        group["recorded_at"] = now
        group["binary"] = binary
        for member in group["members"]:
            member["target"] = {"command": argv[member["app"]]}
    return document


def merge(old, new):
    """The groups of `new` in place of those of `old` that are the same."""
    if old and old["machine"]["fingerprint"] != new["machine"]["fingerprint"]:
        fail(2, "the file was measured on another machine; name another one with --out")
    fresh = {(members(group), group["placement"]) for group in new["groups"]}
    kept = [g for g in (old or {"groups": []})["groups"] if (members(g), g["placement"]) not in fresh]
    groups = kept + new["groups"]
    groups.sort(key=lambda group: (members(group), group["placement"]))
    return {**new, "groups": groups}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="measure these applications only, separated by commas")
    parser.add_argument("--all", action="store_true", help="measure every pair of them")
    parser.add_argument("--partners", type=int, default=PARTNERS, help="others that each is measured with [6]")
    parser.add_argument("--seconds", type=float, default=6.0, help="longest time for each placement [6]")
    parser.add_argument("--again", action="store_true", help="measure anew what another binary has measured")
    parser.add_argument("--most", type=int, help="measure so many pairs, and stop")
    parser.add_argument("--seed", type=int, default=1, help="chooses the pairs, and orders the blocks")
    parser.add_argument("--out", default=os.path.join(REPOSITORY, "profiles", "pairs.json"))
    parser.add_argument("--dry-run", action="store_true", help="print the pairs and how long they take, and stop")
    args = parser.parse_args()

    names = [name for name in sorted(os.listdir(RECORDINGS)) if not is_service(name)]
    if args.only:
        asked = args.only.split(",")
        for name in asked:
            if name not in names:
                fail(2, f"--only {name}: unknown, or a service; there are {' '.join(names)}")
        names = asked
    else:
        names = [name for name in USUAL if name in names]
    if len(names) < 2:
        fail(2, "--only: name two or more applications")
    partners = len(names) if args.all else args.partners
    pairs = chosen_pairs(names, partners, args.seed)

    args.jostle = os.environ.get("JOSTLE", os.path.join(REPOSITORY, "target", "release", "jostle"))
    if not os.access(args.jostle, os.X_OK):
        fail(3, f"{args.jostle} is no program; build it with cargo build --release, or set JOSTLE")
    args.jostle = os.path.abspath(args.jostle)
    with open(args.jostle, "rb") as file:
        binary = hashlib.sha256(file.read()).hexdigest()[:12]
    document = load(args.out)
    have = done(document, binary if args.again else None)
    missing = {pair: [p for p in PLACEMENTS if (pair, p) not in have] for pair in pairs}
    pending = [pair for pair in pairs if missing[pair]][: args.most]
    placements = sum(len(missing[pair]) for pair in pending)
    minutes = (placements * (args.seconds + SETUP_SECONDS) + 3 * len({n for p in pending for n in p})) / 60
    say(f"{len(pending)} of {len(pairs)} pairs, {minutes:.0f} minutes at most")
    if args.dry_run:
        for pair in pending:
            print(" + ".join(pair), ", ".join(missing[pair]))
        return

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = tempfile.mkdtemp(prefix="jostle-pairs.", dir=os.environ.get("RECORD_TMP", "/var/tmp"))
    applications = Applications(work)
    failed = []
    try:
        for number, pair in enumerate(pending, 1):
            say(f"{number} of {len(pending)}: {' + '.join(pair)}")
            found = measure(args, binary, pair, missing[pair], applications)
            if found is None:
                failed.append(" + ".join(pair))
                continue
            document = merge(document, found)
            save(document, args.out)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        applications.clean()
    if failed:
        fail(1, f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
