"""What is printed, and the same as a document."""

import dials
import pairs

# Other processes may take so much of one CPU before they are spoken of first.
QUIET_PERCENT = 10

def scaled(value, unit):
    """Four digits with a decimal prefix."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def aligned(rows):
    """Columns as wide as their widest cell; numbers need no other alignment."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def text(all_pairs, all_dials, without, conditions):
    parts = [
        f"{conditions['machine']}; CPU {conditions['cpu']}, {conditions['rounds']} rounds of "
        f"{conditions['rounds_requested']}, seed {conditions['seed']}, "
        f"{conditions['seconds']:.0f} s"
    ]
    if conditions["others_percent_of_cpu"] > QUIET_PERCENT:
        parts.append(
            f"Not idle: other processes took {conditions['others_percent_of_cpu']:.0f} % of one "
            "CPU; repeat this when they are gone"
        )
    if all_pairs:
        parts += ["Ours at 100 % against the best public tool"]
        parts += [aligned(strength_rows(all_pairs))]
    if all_dials:
        parts += ["Requested against achieved, percent of the peak", aligned(dial_rows(all_dials))]
    parts.append("\n".join(notes(all_pairs, all_dials, without, conditions)))
    return "\n\n".join(parts)


def strength_rows(all_pairs):
    head = ["resource", "", "ours", "peer (* the best)", "peer", "ours/peer", "range", "of best",
            f"bar {pairs.BAR}"]
    rows = [head]
    for pair in all_pairs:
        best = pair.best_peer()
        ours = pair.ours.median()
        first = [pair.resource, pair.case, "-" if ours is None else scaled(ours, pair.unit)]
        if not pair.peers:
            rows.append([*first, "none", "", "", "", "", pair.verdict()])
        for peer in sorted(pair.peers, key=lambda peer: peer is not best):
            star = " *" if peer is best else ""
            theirs = "-" if peer.median() is None else scaled(peer.median(), pair.unit)
            ratio = pair.ratio(peer)
            numbers = ["", "", ""]
            if ratio:
                reach = f"{ratio.low:.2f}-{ratio.high:.2f} ({ratio.rounds})"
                numbers = [f"{ratio.median:.2f}", reach, f"{ratio.of_best:.2f}"]
            verdict = pair.verdict() if first[0] else ""
            rows.append([*first, peer.name + star, theirs, *numbers, verdict])
            first = ["", "", ""]
    return rows


def dial_rows(all_dials):
    rows = [["dial", *(f"{level} %" for level in dials.LEVELS), "worst error",
             f"bar {dials.BAR_POINTS:g} points"]]
    for dial in all_dials:
        readings = [dial.reading(level) for level in dials.LEVELS]
        worst = dial.worst_error()
        verdict = ""
        if dial.ours:
            verdict = "unavailable" if worst is None else over_bar(worst)
        rows.append([
            dial.name,
            *("-" if value is None else f"{value:.1f}" for value in readings),
            "-" if worst is None else f"{worst:.1f}",
            verdict,
        ])
    return rows


def over_bar(worst):
    over = worst - dials.BAR_POINTS
    return "met" if over <= 0 else f"over by {over:.1f}"


def notes(all_pairs, all_dials, without, conditions):
    lines = ["Notes"]
    lines += [f"- {name}: no peer with a comparable unit: {why}." for name, why in without.items()]
    lines += [f"- {pair.resource}: {pair.note}." for pair in all_pairs if pair.note]
    sides = [side for pair in all_pairs for side in (pair.ours, *pair.peers)]
    failed = [(side.name, side.reason) for side in (*sides, *all_dials) if side.reason]
    # Once each, in order.
    lines += [f"- {name}: {unavailable(reason)}" for name, reason in dict.fromkeys(failed)]
    if all_pairs:
        lines += [
            "- ours/peer: median, smallest and largest of the rounds in which both ran (how many); "
            "of best: best round of ours by best round of the peer.",
            f"- A peer below {pairs.HOPELESS:g} of the best one in {pairs.TRIALS} rounds plays no "
            "more.",
            "- l1d: one load of a line counts for its 64 bytes, as likwid's load of a whole line "
            "does.",
        ]
    if all_dials:
        lines.append(
            "- Sources that hold bytes or entries report what they keep touching, not what the "
            "hardware keeps for them."
        )
    lines.append(
        f"- Other processes took {conditions['others_percent_of_cpu']:.0f} % of one CPU during the "
        f"run, the hypervisor {conditions['stolen_percent_of_cpu']:.0f} %."
    )
    return lines


def unavailable(reason):
    return reason if "unavailable" in reason else f"unavailable: {reason}"


def document(all_pairs, all_dials, without, conditions):
    """Everything measured; units are those of `unit`, never multiples."""
    return {
        "format": "jostle-peers/1",
        "conditions": conditions,
        "bar": pairs.BAR,
        "pairs": [pair_document(pair) for pair in all_pairs],
        "without_peer": without,
        "dials": [
            {
                "resource": dial.resource,
                "name": dial.name,
                "ours": dial.ours,
                "achieved_percent": {str(level): dial.achieved[level] for level in dial.achieved},
                "worst_error_points": dial.worst_error(),
                "unavailable": dial.reason,
            }
            for dial in all_dials
        ],
    }


def pair_document(pair):
    best = pair.best_peer()
    return {
        "resource": pair.resource,
        "case": pair.case,
        "unit": pair.unit,
        "ours": side_document(pair.ours),
        "peers": [
            {**side_document(peer), "best": peer is best, "ratio": ratio_document(pair.ratio(peer))}
            for peer in pair.peers
        ],
        "verdict": pair.verdict(),
    }


def side_document(side):
    return {
        "name": side.name,
        "by_round": {str(turn): value for turn, value in side.values.items()},
        "median": side.median(),
        "unavailable": side.reason,
    }


def ratio_document(ratio):
    return ratio and vars(ratio)
