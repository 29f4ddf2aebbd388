"""Tables for docs/profiles.md, written between markers like `<!-- programs -->` and
`<!-- end of programs -->`."""

import pathlib
import re
import statistics

import agreement
import profiles

KINDS = {
    "service": "services",
    "database": "databases",
    "compressor": "compressors",
    "compiler": "compilers",
    "interpreter": "interpreters",
    "text": "text",
    "media": "media",
    "numeric": "numeric",
    "solver": "solvers",
    "crypto": "digests",
    "files": "files",
    "storage": "storage",
}
# Columns of the table by kind: resources that are disturbed in the same way.
GROUPS = {
    "CPU time": ("cpu-time",),
    "units": ("int", "fp", "vector", "branch", "prefetcher"),
    "L1, TLB": ("l1i", "l1d", "tlb"),
    "L2": ("l2-capacity", "l2-bandwidth"),
    "LLC": ("llc-capacity", "llc-bandwidth"),
    "memory": ("memory-capacity", "memory-bandwidth", "interconnect"),
    "storage": ("storage-capacity", "storage-bandwidth"),
}
RECORDINGS = pathlib.Path(__file__).resolve().parent.parent / "recordings"
# Counters of the machine as a whole say that the source runs, not what it does.
OWN = ("target", "cpus")
# Changes by less than this part are not worth a word; other counters must have
# grown so much.
NOTABLE = 0.05
GROWN = 1.2
USED_FROM = 1.0
# What is aimed at: agreement of repetitions, and entries decided in 30 s.
AGREE = 0.93
DECIDED = 0.85


class NoMarkers(Exception):
    pass


def write(document, fleet):
    """Fills every part of `document` that has markers."""
    try:
        with open(document) as file:
            text = file.read()
    except OSError as error:
        raise NoMarkers(f"{document}: {error.strerror}") from error
    for name, part in PARTS.items():
        pattern = re.compile(f"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise NoMarkers(f"{document}: there is no `<!-- {name} -->` … `<!-- end of {name} -->`")
        filled = part(fleet)
        text = pattern.sub(lambda found: f"{found[1]}\n{filled}\n\n{found[2]}", text)
    with open(document, "w") as file:
        file.write(text)


def loss(entry):
    """Percent lost at 100 %, with the interval; negative is a gain."""
    point = profiles.at_full(entry, "tolerated")
    if not point:
        return None
    low, high = point["ci95"]
    return [100 * (1 - value) for value in (point["performance"], high, low)]


def percent(value):
    return f"{max(value, 0):.0f}"


def mechanism(profile, entry):
    """How the loss came about, by the counters of the target and its CPUs: less CPU
    time, more CPU time for each operation, and what grew most beside the work."""
    facts = profile["conditions"].get("counters", {})
    ratios = {}
    for name, pair in entry.get("counters", {}).items():
        ratio = pair.get("ratio")
        if pair.get("moved") and facts.get(name, {}).get("owner") in OWN and ratio:
            ratios[name] = ratio["value"]
    time = ratios.pop("task-clock", 1 if "task-clock" in entry.get("counters_steady", []) else None)
    # A latency is no share of the work that is done.
    latency = profile["metric"]["name"].startswith("latency")
    kept = None if latency else profiles.at_full(entry, "tolerated")
    parts = []
    if time is not None and time < 1 - NOTABLE:
        parts.append(f"CPU time ×{time:.2g}")
    if time is not None and kept and kept["performance"] > 0:
        each = time / kept["performance"]
        if each > 1 + NOTABLE:
            parts.append(f"CPU time per operation ×{each:.2g}")
    grown = max(ratios.items(), key=lambda one: one[1], default=None)
    if grown and grown[1] > GROWN:
        parts.append(f"{grown[0]} ×{grown[1]:.2g}")
    return parts


def sensitive(profile):
    """Resources shown to cost the target something, the costliest first."""
    found = [(name, entry) for name, entry in profile["resources"].items() if entry.get("sensitive")]
    return sorted(found, key=lambda one: -(loss(one[1]) or [0])[0])


def loses(profile):
    parts = []
    for name, entry in sensitive(profile):
        text = name
        lost = loss(entry)
        if lost:
            text += f" {percent(lost[0])} ({percent(lost[1])}–{percent(lost[2])})"
        score = entry.get("tolerated")
        if score and profiles.decided({"tolerated": score}, "tolerated"):
            text += f" from {score['score']:.0f}"
        causes_of_it = mechanism(profile, entry)
        if causes_of_it:
            text += f": {', '.join(causes_of_it)}"
        parts.append(text)
    return "; ".join(parts) or "nothing shown"


def causes(profile):
    """What the target was shown to take from the sources of interference."""
    found = []
    for name, entry in profile["resources"].items():
        score = entry.get("caused")
        if score and score["ci95"][0] > 0 and profiles.decided({"caused": score}, "caused"):
            found.append((-score["score"], f"{name} {score['score']:.0f}"))
    return ", ".join(text for _, text in sorted(found)) or "–"


def uses(profile):
    """Shares of the machine's peaks that were read directly."""
    found = []
    for name, quantity in profile.get("usage", {}).get("quantities", {}).items():
        share = quantity.get("share", {})
        if share.get("percent", 0) >= USED_FROM:
            found.append((-share["percent"], f"{name} {share['percent']:.0f}"))
    return ", ".join(text for _, text in sorted(found)) or "–"


def ruled_out(profile):
    return sum(entry.get("sensitive") is False for entry in profile["resources"].values())


def open_entries(profile):
    threshold = profile["qos"]["threshold"]
    return sum(
        profiles.allowed(entry)
        and not profiles.decided(entry, "tolerated")
        and not profiles.at_the_line(entry, "tolerated", threshold)
        for entry in profile["resources"].values()
    )


def metric(profile):
    """How performance was read, short."""
    facts = profile["metric"]
    name = facts["name"]
    if name.startswith("progress:"):
        return "calls" if "probe" in name else name
    return name.split(":")[0] if name.startswith(("stdout", "file", "exec")) else name


def service(name):
    """A service's name and load, or the name and nothing."""
    base, _, load = name.rpartition("-")
    return (base, load) if load in ("30", "60", "90", "closed") else (name, "")


def kind_of(profile):
    """Its label, or what the recording of that name says now."""
    name = profile["workload"]["name"]
    return profiles.label(profile, "kind") or ("demo" if name.startswith("demo-") else recording_kind(name))


def recording_kind(name):
    for file in (name, service(name)[0]):
        path = RECORDINGS / file
        if path.is_file():
            return re.search(r"^kind=(\w+)$", path.read_text(), re.MULTILINE)[1]
    return ""


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def programs(fleet):
    """A row for each program; the loads of a service share one."""
    found = {}
    for name, rounds in fleet.items():
        if kind_of(rounds[0]) in KINDS:
            found.setdefault((kind_of(rounds[0]), service(name)[0]), []).append((service(name)[1], rounds[0]))
    rows = []
    for kind in KINDS:
        for (of, name), loads in sorted(found.items()):
            if of == kind:
                rows.append(row(name, loads) if loads[0][0] == "" else service_row(name, loads))
    head = ["program", "metric", "loses %, at 100 % of the source", "ruled out, open", "takes", "uses %"]
    return table(head, rows) if rows else "Nothing is recorded."


def row(name, loads):
    profile = loads[0][1]
    counts = f"{ruled_out(profile)}, {open_entries(profile)}"
    return [name, metric(profile), loses(profile), counts, causes(profile), uses(profile)]


def service_row(name, loads):
    loads = sorted(loads)
    by_resource = {}
    for load, profile in loads:
        for resource, entry in sensitive(profile):
            lost = loss(entry)
            if lost:
                by_resource.setdefault(resource, {})[load] = percent(lost[0])
    names = [load for load, _ in loads]
    costs = [
        f"{resource} {' / '.join(lost.get(load, '–') for load in names)}"
        for resource, lost in by_resource.items()
    ]
    counts = "; ".join(f"{ruled_out(p)}, {open_entries(p)}" for _, p in loads)
    last = loads[-1][1]
    open_loop = [(load, profile) for load, profile in loads if load != "closed"]
    metrics = []
    if open_loop:
        metrics.append(f"{metric(open_loop[0][1])} at {', '.join(load for load, _ in open_loop)} % load")
    if "closed" in names:
        metrics.append(f"{metric(last)}, closed loop")
    return [name, "; ".join(metrics), "; ".join(costs) or "nothing shown", counts, causes(last), uses(last)]


def kinds(fleet):
    """Losses of each kind of program by groups of resources: the median and the worst
    of what was shown, and of how many programs."""
    rows = []
    for kind, title in KINDS.items():
        chosen = [rounds[0] for rounds in fleet.values() if kind_of(rounds[0]) == kind]
        if chosen:
            rows.append([f"{title} ({len(chosen)})", *(group(chosen, of) for of in GROUPS.values())])
    return table(["kind", *GROUPS], rows) if rows else "Nothing is recorded."


def group(chosen, resources):
    shown, clear, possible = [], 0, False
    for profile in chosen:
        entries = [profile["resources"][r] for r in resources if r in profile["resources"]]
        entries = [entry for entry in entries if profiles.allowed(entry)]
        possible |= bool(entries)
        lost = [loss(entry)[0] for entry in entries if entry.get("sensitive") and loss(entry)]
        if lost:
            shown.append(max(lost))
        clear += bool(entries) and all(entry.get("sensitive") is False for entry in entries)
    if shown:
        worst = f", at most {percent(max(shown))}" if len(shown) > 1 else ""
        return f"{len(shown)} lose {percent(statistics.median(shown))}{worst}"
    if clear:
        return f"none of {clear}"
    return "open" if possible else "–"


def demos(fleet):
    """Whether each demo's own resource was found, and what else was."""
    found, others, lines = [], [], []
    for name, rounds in sorted(fleet.items()):
        if kind_of(rounds[0]) != "demo":
            continue
        own = name[len("demo-") :]
        entry = rounds[0]["resources"].get(own, {})
        if entry and profiles.allowed(entry):
            lost = loss(entry) if entry.get("sensitive") else None
            found.append(f"{own} {percent(lost[0])}" if lost else f"{own} not shown")
        also = [f"{r} {percent((loss(e) or [0])[0])}" for r, e in sensitive(rounds[0]) if r != own]
        if also:
            others.append(f"{own}: {', '.join(also)}")
    lines.append(f"Loss in % at 100 % of the demo's own resource: {', '.join(found) or 'none recorded'}.")
    lines.append(f"Other resources that cost it something: {'; '.join(others) or 'none'}.")
    return "\n\n".join(lines)


def agree(fleet):
    """Agreement and decided entries over all applications, and for the resources that
    are below what is aimed at."""
    own = agreement.applications(fleet)
    tables = [
        (agreement.collect(own, agreement.scores), AGREE),
        (agreement.collect(own, agreement.losses), AGREE),
        (agreement.decisions(own), DECIDED),
    ]
    resources = sorted({key[1] for found, _ in tables for key in found})
    rows = []
    for resource in [None, *resources]:
        only = {"resource": resource} if resource else {}
        shares = [
            (agreement.total(found, direction=direction, **only), bar)
            for found, bar in tables
            for direction in profiles.DIRECTIONS
        ]
        if not resource or any(share.all and share.some / share.all < bar for share, bar in shares):
            rows.append([resource or "all", *(share.text() for share, _ in shares)])
    head = ["", "score: tolerated", "caused", "loss: tolerated", "caused", "decided: tolerated", "caused"]
    near = [agreement.near_the_line(own, direction) for direction in profiles.DIRECTIONS]
    at_the_line = "Of the decided entries, {} of *tolerated* and {} of *caused* have no verdict, but end at the line."
    return f"{table(head, rows)}\n\n{at_the_line.format(*near)}"


def recorded(fleet):
    """Where and when."""
    every = [profile for rounds in fleet.values() for profile in rounds]
    if not every:
        return "Nothing is recorded."
    machines = sorted({describe(profile["machine"]) for profile in every})
    days = sorted(profile["conditions"]["recorded_at"][:10] for profile in every)
    budgets = sorted({f"{profile['conditions']['budget_seconds']:.0f} s" for profile in every})
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    own = agreement.applications(fleet)
    return (
        f"{len(own)} recordings of applications and {len(fleet) - len(own)} of demos, "
        f"{len(every)} profiles in all, with a budget of {', '.join(budgets)}, {when}, on "
        f"{'; '.join(machines)}."
    )


def describe(machine):
    parts = [machine.get("model", "an unknown CPU"), f"{machine['cpus']} CPUs"]
    if not machine.get("smt"):
        parts.append("no SMT")
    if machine.get("virtualized"):
        parts.append(f"virtualized ({machine['virtualized']})")
    return ", ".join(parts)


PARTS = {
    "recorded": recorded,
    "kinds": kinds,
    "programs": programs,
    "demos": demos,
    "agreement": agree,
}
