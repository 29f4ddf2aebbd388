#!/usr/bin/env python3
"""Asks of many real programs whether `progress:auto` finds their progress, and how
much of their profile is decided then.

usage: python3 scripts/progress-auto [--jostle PATH] [--budget TIME] [--out DIRECTORY] [NAME…]

Each program that is installed is profiled once; the others are named as missing. The
NAME `short` stands for those of SHORT, whose runs take a tenth of a second or so.
One line per program: what was found, its rate, its cost, its variation, and how
many entries (directions of resources that the machine allows) were decided.

Needs: root (for uprobes), Python 3.9, 400 MB in the directory for temporary files.
Takes: about the budget and 5 s per program.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

WORDS = 20000
TEXT_BYTES = 64 << 20

SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(x) as (select 1 union all select x+1 from n where x<200000)
  insert into t select x, 'row '||(x*7919%100003), x*1.5 from n;
create index i on t(b);
with recursive r(k) as (select 1 union all select k+1 from r where k<40)
  select sum((select count(*) from t where b like 'row '||(r.k%10)||'%')) from r;
"""

LUA = """
local t = {}
for k = 1, 1e9 do
  local s = {}
  for i = 1, 200 do s[i] = tostring(i * k) end
  t[k % 100] = table.concat(s, ",")
  table.sort(s)
end
"""

PYTHON = """
import json
while True:
    d = {}
    for i in range(2000):
        k = "k%d" % (i * 7919 % 5003)
        d[k] = d.get(k, 0) + i
    sorted(json.loads(json.dumps(d)).items(), key=lambda x: x[1])
"""

PERL = """
my (%h, $i);
while (1) {
  $i++;
  $h{"k" . ($i % 5000)} .= "x$i,";
  if ($i % 1000 == 0) {
    my $s = join("|", sort keys %h);
    my @w = split(/\\|/, $s);
    %h = () if $i % 20000 == 0;
  }
}
"""


def inputs(directory):
    """Writes what the programs read."""
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(WORDS)]
    with open(f"{directory}/text", "w") as file:
        written = 0
        while written < TEXT_BYTES:
            line = " ".join(rng.choices(words, k=rng.randint(3, 12))) + "\n"
            written += file.write(line)
    with open(f"{directory}/text", "rb") as text, open(f"{directory}/part", "wb") as part:
        part.write(text.read(TEXT_BYTES // 4))
    with open(f"{directory}/text", "rb") as text, open(f"{directory}/short", "wb") as short:
        short.write(text.read(TEXT_BYTES // 2))
    with open(f"{directory}/noise", "wb") as file:
        for _ in range(256):
            file.write(rng.randbytes(1 << 20))
    with open(f"{directory}/functions.c", "w") as file:
        for i in range(3000):
            file.write(
                f"int f{i}(int a,int*b){{int s=0;for(int i=0;i<a;i++){{s+=b[i]*{i + 3};"
                f"if(s>{i * 7})s-=b[i^1];switch(s&7){{case 1:s+=3;break;case 2:s^=a;break;"
                f"default:s<<=1;}}}}return s;}}\n"
            )
    for name, text in [("q.sql", SQL), ("w.lua", LUA), ("w.py", PYTHON), ("w.pl", PERL)]:
        with open(f"{directory}/{name}", "w") as file:
            file.write(text)


PROGRAMS = {
    "zstd": ["zstd", "-3", "-c", "-f", "text"],
    "bzip2": ["bzip2", "-c", "text"],
    "xz": ["xz", "-3", "-T1", "-c", "text"],
    "gzip": ["gzip", "-c", "text"],
    "sqlite3": ["sqlite3", ":memory:", ".read q.sql"],
    "lua": ["lua5.4", "w.lua"],
    "python3": ["/usr/bin/python3", "w.py"],
    "perl": ["perl", "w.pl"],
    "gcc": ["gcc", "-O2", "-c", "functions.c", "-o", "functions.o"],
    "sort": ["sort", "text", "-o", "sorted"],
    "openssl": ["openssl", "dgst", "-sha512", "noise"],
    "ffmpeg": ["ffmpeg", "-v", "error", "-threads", "1", "-f", "lavfi", "-i", "testsrc=d=600:s=640x360:r=30", "-c:v", "mpeg4", "-f", "null", "-"],
    "awk": ["awk", "{for(i=1;i<=NF;i++)c[$i]++} END{for(w in c)n++; print n}", "text"],
    "sha256sum": ["sha256sum", "noise"],
    "redis-benchmark": None,
    "flac": ["flac", "-8", "-f", "-s", "--force-raw-format", "--endian=little", "--channels=2", "--bps=16", "--sample-rate=44100", "--sign=signed", "-o", "noise.flac", "noise"],
    "lz4": ["lz4", "-9", "-c", "text"],
    "md5sum": ["md5sum", "noise"],
    "sed": ["sed", "s/ab.*yz/q/", "text"],
    "node": ["node", "-e", "let m={};for(let i=0;;i++){m['k'+(i%5000)]=JSON.stringify({a:i,b:[i,i+1]})}"],
    "make": ["make", "-s", "-f", "/dev/null", "--eval", "all:;@for i in 1 2 3; do true; done"],
}

# Which end in about a tenth of a second.
SHORT = {
    "short-md5sum": ["md5sum", "text"],
    "short-base64": ["sh", "-c", "base64 text > /dev/null"],
    "short-sed": ["sh", "-c", "sed -E 's/(a+)b/\\1/g' part > /dev/null"],
    "short-uniq": ["sh", "-c", "uniq -c short > /dev/null"],
    "short-openssl": ["openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-k", "x", "-in", "text", "-out", "/dev/null"],
    "short-find": ["find", "/usr/share", "/usr/lib", "-type", "f"],
    "short-python3": ["/usr/bin/python3", "-c", "print(sum(i * i for i in range(1500000)))"],
    "short-perl": ["perl", "-e", "$x{$_ % 1000} += $_ for 1..1800000"],
    "short-lua": ["lua5.4", "-e", "local s = 0; for i = 1, 8e6 do s = s + i % 7 end; print(s)"],
}


def entries(profile, directions=("tolerated", "caused")):
    """Decided `directions`, and all that the machine allows in the time.

    Decided is what has a verdict, or a score whose 95 % interval is at most 20 points
    wide. A source whose switches alone take longer than the budget is not allowed.
    """
    decided = allowed = 0
    for entry in profile["resources"].values():
        if entry["status"] in ("not-shared", "unavailable"):
            continue
        if "a switch there and back takes" in (entry.get("reason") or ""):
            continue
        for direction in directions:
            allowed += 1
            score = entry.get(direction)
            known = score is not None and score["ci95"][1] - score["ci95"][0] <= 20
            verdict = direction == "tolerated" and entry.get("sensitive") is not None
            decided += known or verdict
    return decided, allowed


def line(name, profile):
    metric = profile["metric"]
    because = metric["chosen_because"]
    decided, allowed = entries(profile)
    share = 100 * decided / max(allowed, 1)
    found = re.search(r"called (\d+) times per second, with (\d+) %.* cost of ([\d.]+) %", because)
    if not found:
        return f"{name:16} {metric['name']:9} {decided:2}/{allowed:2} = {share:3.0f} %  {because}"
    rate, variation, cost = found.groups()
    return (
        f"{name:16} found     {decided:2}/{allowed:2} = {share:3.0f} %  {rate:>6}/s  "
        f"{variation:>2} % variation  {cost} % cost  {metric['name']}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jostle", default="target/release/jostle")
    parser.add_argument("--budget", default="30s")
    parser.add_argument("--out", help="keep the profiles here")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    programs = PROGRAMS | SHORT
    names = [name for asked in args.names for name in (SHORT if asked == "short" else [asked])]
    unknown = [name for name in names if name not in programs]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are short, {', '.join(programs)}")
    jostle = os.path.abspath(args.jostle)
    if not os.access(jostle, os.X_OK):
        parser.error(f"--jostle {args.jostle}: not there; build it with cargo build --release")
    kept = os.path.abspath(args.out) if args.out else None
    if kept:
        os.makedirs(kept, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        inputs(directory)
        found = wanted = decided = allowed = 0
        of_all = {"tolerated": [0, 0], "caused": [0, 0]}
        for name in names or PROGRAMS:
            server = None
            command = programs[name]
            if name == "redis-benchmark":
                if shutil.which("redis-server"):
                    server = subprocess.Popen(
                        ["redis-server", "--port", "7391", "--save", "", "--appendonly", "no"],
                        stdout=subprocess.DEVNULL,
                    )
                command = ["redis-benchmark", "-p", "7391", "-n", "100000000", "-t", "get", "-q"]
            if not shutil.which(command[0]) or (name == "redis-benchmark" and not server):
                print(f"{name:16} missing", flush=True)
                continue
            out = f"{kept or directory}/{name}.json"
            run = subprocess.run(
                [jostle, "profile", "--metric", "progress:auto", "--budget", args.budget, "--out", out, "--"] + command,
                cwd=directory,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            if server:
                server.kill()
                server.wait()
            wanted += 1
            if run.returncode != 0:
                print(f"{name:16} failed    {run.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            with open(out) as file:
                profile = json.load(file)
            print(line(name, profile), flush=True)
            for direction, so_far in of_all.items():
                of_all[direction] = [sum(both) for both in zip(so_far, entries(profile, [direction]))]
            if profile["metric"]["name"].startswith("progress"):
                found += 1
                some, all_of_them = entries(profile)
                decided, allowed = decided + some, allowed + all_of_them
        share = 100 * decided / max(allowed, 1)
        print(f"found in {found} of {wanted}; {decided} of {allowed} of their entries decided ({share:.0f} %)")
        for direction, (decided, allowed) in of_all.items():
            print(f"{direction}, whatever the metric: {decided} of {allowed} decided")


if __name__ == "__main__":
    sys.exit(main())
