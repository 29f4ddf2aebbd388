#!/usr/bin/env python3
"""Does the cost of a switch in a profile predict how fast a program runs on a CPU
that it shares with a busy neighbour?

usage: python3 scripts/switch-cost [--jostle PATH] [--budget TIME] [--pairs N] [--cpu N]
                                   [--out DIRECTORY] [NAME...]

Each program is profiled beside l2-capacity on one CPU. Then it runs to its end there,
alone and beside `jostle run l2-capacity`, an ordinary busy process under the scheduler,
in alternation. Predicted is half of the CPU, less what the profile expects to be lost in
the scheduler's own turns: the cost of a switch to the source, and of a switch at all.
The other columns say what an equal split alone would predict, and the loss at 100 % in
the profile's own short slices.

Needs: root (to find the progress of programs), Python 3.9, cc, 200 MB in the directory
for temporary files; the machine for itself.
Takes: the budget and about 25 s per program.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# The error that counts as right, percentage points of the speed alone.
BAR = 3.0

SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(x) as (select 1 union all select x+1 from n where x<100000)
  insert into t select x, 'row '||(x*7919%100003), x*1.5 from n;
create index i on t(b);
with recursive r(k) as (select 1 union all select k+1 from r where k<40)
  select sum((select count(*) from t where b like 'row '||(r.k%10)||'%')) from r;
"""
LUA = """
for k = 1, 150 do
  local t, s = {}, {}
  for i = 1, 8000 do t[i] = tostring(i * 48271 % 99991) end
  table.sort(t)
  for i = 1, 8000 do s[t[i]] = (s[t[i]] or 0) + i end
end
"""
PYTHON = """
import json
for k in range(400):
    d = {}
    for i in range(2000):
        k = "k%d" % (i * 7919 % 5003)
        d[k] = d.get(k, 0) + i
    sorted(json.loads(json.dumps(d)).items(), key=lambda x: x[1])
"""
PERL = """
my %h;
for my $i (1 .. 1500000) { $h{"k" . ($i * 7919 % 20011)} += $i; }
my @s = sort { $h{$a} <=> $h{$b} } keys %h;
"""

# The victims that are made for it, and real programs.
PROGRAMS = {
    "chase-600K": ["./chase", "600", "150000000"],
    "chase-1300K": ["./chase", "1300", "100000000"],
    "gzip": ["gzip", "-c", "text"],
    "zstd": ["zstd", "-q", "-9", "--single-thread", "-c", "text"],
    "sqlite3": ["sqlite3", ":memory:", ".read q.sql"],
    "lua": ["lua5.4", "w.lua"],
    "python3": ["/usr/bin/python3", "w.py"],
    "awk": ["gawk", "{for(i=1;i<=NF;i++)c[$i]++} END{for(w in c)n++; print n}", "text"],
    "sort": ["sort", "--parallel=1", "-S", "256M", "text"],
    "bzip2": ["bzip2", "-c", "part"],
    "openssl": ["openssl", "dgst", "-sha512", "noise"],
    "perl": ["perl", "w.pl"],
    "xz": ["xz", "-2", "-T1", "-c", "part"],
}


def inputs(directory):
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(20000)]
    with open(f"{directory}/text", "w") as file:
        written = 0
        while written < 16 << 20:
            written += file.write(" ".join(rng.choices(words, k=rng.randint(3, 12))) + "\n")
    with open(f"{directory}/text", "rb") as text, open(f"{directory}/part", "wb") as part:
        part.write(text.read(8 << 20))
    with open(f"{directory}/noise", "wb") as file:
        for _ in range(600):
            file.write(rng.randbytes(1 << 20))
    for name, text in [("q.sql", SQL), ("w.lua", LUA), ("w.py", PYTHON), ("w.pl", PERL)]:
        with open(f"{directory}/{name}", "w") as file:
            file.write(text)
    include = os.path.join(HERE, "..", "..", "include")
    subprocess.run(["cc", "-O2", "-I", include, "-o", f"{directory}/chase", f"{HERE}/chase.c"], check=True)


class Neighbour:
    """`jostle run l2-capacity` on the CPU; it is stopped unless it is let."""

    def __init__(self, jostle, cpu):
        command = [jostle, "run", "l2-capacity", "--intensity", "100", "--cpus", str(cpu), "--for", "1h"]
        self.profiler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)
        with open(f"/proc/{self.profiler.pid}/task/{self.profiler.pid}/children") as file:
            self.workers = [int(word) for word in file.read().split()]
        if self.profiler.poll() is not None or not self.workers:
            sys.exit("scripts/switch-cost: jostle run l2-capacity did not start")

    def let(self, runs):
        for worker in self.workers:
            os.kill(worker, signal.SIGCONT if runs else signal.SIGSTOP)

    def end(self):
        self.let(True)
        self.profiler.send_signal(signal.SIGINT)
        self.profiler.wait()


def run(command, cpu, directory):
    """Seconds, CPU seconds and times that it was taken off the CPU."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            os.sched_setaffinity(0, {cpu})
            os.chdir(directory)
            null = os.open("/dev/null", os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    _, status, used = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"scripts/switch-cost: {' '.join(command)} failed")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_nivcsw


def measure(neighbour, command, cpu, directory, pairs):
    """The speed beside the neighbour as a share of that alone, its standard error, the
    same for CPU time, and the turn in milliseconds."""
    run(command, cpu, directory)
    speeds, by_cpu, turns = [], [], []
    for index in range(pairs):
        results = {}
        for beside in ((False, True) if index % 2 else (True, False)):
            neighbour.let(beside)
            time.sleep(0.05)
            results[beside] = run(command, cpu, directory)
        speeds.append(results[False][0] / results[True][0])
        by_cpu.append(results[False][1] / results[True][1])
        turns.append(1e3 * results[True][1] / max(results[True][2], 1))
    neighbour.let(False)
    error = 1.25 * statistics.stdev(speeds) / len(speeds) ** 0.5
    return statistics.median(speeds), error, statistics.median(by_cpu), statistics.median(turns)


def profiled(args, name, command, directory):
    out = f"{args.out or directory}/{name}.json"
    metric = "progress:shm" if name.startswith("chase") else "progress:auto"
    told = [args.jostle, "profile", "--metric", metric, "--cpus", str(args.cpu), "--budget", args.budget]
    told += ["--resources", "l2-capacity", "--measure", "tolerated", "--out", out, "--"]
    ended = subprocess.run(told + command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        return None, ended.stderr.strip().splitlines()[-1]
    with open(out) as file:
        profile = json.load(file)
    entry = profile["resources"]["l2-capacity"]
    switch = entry.get("switch") or {"unavailable": "no switch in the profile"}
    if "unavailable" in switch:
        return None, switch["unavailable"]
    short = 100 * (1 - entry["curve"][-1]["performance"])
    scheduler = profile["conditions"]["scheduler"]
    plain = scheduler["plain_switch_microseconds"].get("value", 0.0)
    turn = 1e6 * scheduler["turn_seconds"]["value"]
    return (switch, 100 * (switch["cost_microseconds"]["value"] + plain) / turn, plain, short), None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jostle", default="target/release/jostle")
    parser.add_argument("--budget", default="30s")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--out", help="keep the profiles here")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in PROGRAMS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    args.jostle = os.path.abspath(args.jostle)
    if not os.access(args.jostle, os.X_OK):
        parser.error(f"--jostle {args.jostle}: not there; build it with cargo build --release")
    if args.out:
        args.out = os.path.abspath(args.out)
        os.makedirs(args.out, exist_ok=True)
    errors, equal = [], []
    with tempfile.TemporaryDirectory() as directory:
        inputs(directory)
        print(
            "program      cost per switch, us  plain   loss: expected / short slices   speed: predicted"
            " / measured (s.e.)   error   equal split   cpu speed   turn"
        )
        for name in args.names or PROGRAMS:
            command = PROGRAMS[name]
            if not (command[0].startswith("./") or shutil.which(command[0])):
                print(f"{name:12} missing", flush=True)
                continue
            found, reason = profiled(args, name, command, directory)
            if found is None:
                print(f"{name:12} not predicted: {reason}", flush=True)
                continue
            switch, loss, plain, short = found
            neighbour = Neighbour(args.jostle, args.cpu)
            try:
                speed, error, by_cpu, turn = measure(neighbour, command, args.cpu, directory, args.pairs)
            finally:
                neighbour.end()
            cost = switch["cost_microseconds"]
            predicted = 50 * (1 - loss / 100)
            errors.append(predicted - 100 * speed)
            equal.append(50 - 100 * speed)
            low, high = cost["ci95"]
            print(
                f"{name:12} {cost['value']:5.0f} ({low:5.0f} to {high:5.0f})  {plain:4.0f}   {loss:5.1f} % / {short:5.1f} %"
                f"              {predicted:5.1f} % / {100 * speed:5.1f} % ({100 * error:.1f})"
                f"          {errors[-1]:+5.1f}      {equal[-1]:+5.1f}       {100 * by_cpu:5.1f} %   {turn:.1f} ms",
                flush=True,
            )
    if errors:
        right = sum(abs(error) <= BAR for error in errors)
        mean = statistics.mean(abs(error) for error in errors)
        split = statistics.mean(abs(error) for error in equal)
        print(
            f"{right} of {len(errors)} within {BAR:.0f} points; mean absolute error {mean:.1f} points,"
            f" {split:.1f} by an equal split"
        )


if __name__ == "__main__":
    main()
