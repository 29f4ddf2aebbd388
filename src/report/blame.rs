//! Who slows a program, as a person reads it.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_profile::blame::Blame;
use jostle_profile::blame::Candidate;
use jostle_profile::blame::Effect;
use jostle_profile::blame::Shared;
use jostle_profile::blame::SharedWhat;
use jostle_profile::blame::UsedByOne;
use jostle_profile::blame::Verdict;
use jostle_profile::cpulist::format_list;
use jostle_profile::pairs::MemberTarget;
use jostle_profile::reading::Reading;

/// Slowdown per second of CPU time that is worth a word, percent.
const PER_CPU: f64 = 5.0;

/// The answer first, then a table, then what it rests on.
pub fn blame_page(blame: &Blame, style: Style) -> String {
    let mut page = text::wrap("", &answer(blame), style.prose());
    if !blame.candidates.is_empty() {
        page += "\n";
        page += &candidates(blame, style);
    }
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let lines = text::list("  - ", &lines, style.prose());
            page += &format!("\n{title}\n{lines}");
        }
    };
    section("Measured", measured(blame));
    section("Only observed, which proves nothing", observed(blame));
    let excluded = blame.excluded.iter().map(|it| {
        let name = text::clean(&it.name);
        format!("{name} (pid {}): {}", it.pid, text::clean(&it.reason))
    });
    section("Not tried", excluded.collect());
    let warnings = blame.warnings.iter();
    section(
        "Warnings",
        warnings.map(|it| text::clean(&it.message)).collect(),
    );
    page
}

/// One sentence.
pub fn answer(blame: &Blame) -> String {
    let victim = named(&blame.victim.name, &blame.victim.target);
    if let Reading::Unavailable { unavailable } = &blame.experiment {
        let count = blame.candidates.len();
        let first = blame.candidates.iter().find_map(|candidate| {
            let shared = candidate.observed.shares.first()?;
            Some((candidate, shared))
        });
        let likely = first.map_or_else(String::new, |(candidate, shared)| {
            format!(
                "; {} shares most with it ({}): --candidate {} tries it",
                named(&candidate.name, &candidate.target),
                text::clean(&shared.evidence),
                given(&candidate.target)
            )
        });
        return format!(
            "Nobody was paused ({}), so who slows {victim} is not known; {count} could be \
             tried{likely}",
            text::clean(unavailable)
        );
    }
    let slows = blame
        .candidates
        .iter()
        .filter(|it| it.verdict == Verdict::Slows);
    let guilty: Vec<String> = slows
        .filter_map(|it| Some(accusation(it, it.effect.value()?)))
        .collect();
    let others = blame
        .candidates
        .iter()
        .filter(|it| it.verdict != Verdict::Slows);
    let tried: Vec<&Effect> = others.filter_map(|it| it.effect.value()).collect();
    let most = tried.iter().map(|it| it.family95[1]).fold(0.0, f64::max);
    if guilty.is_empty() {
        return match tried.len() {
            0 => format!("No candidate was paused often enough to tell whether it slows {victim}"),
            1 => format!(
                "The candidate was not shown to slow {victim}: it costs {most:.1} % at most"
            ),
            many => format!(
                "None of {many} candidates was shown to slow {victim}: each costs {most:.1} % at most"
            ),
        };
    }
    let nobody = match tried.is_empty() {
        true => String::new(),
        false if most < 0.05 => "; nobody else".into(),
        false => format!("; nobody else by more than {most:.1} %"),
    };
    format!("{victim} is slowed {}{nobody}", guilty.join("; "))
}

fn accusation(candidate: &Candidate, effect: &Effect) -> String {
    let [low, high] = effect.slowed_percent.ci95;
    let mut text = format!(
        "by {:.0} % ({low:.0}–{high:.0}) by {}: {}",
        effect.slowed_percent.value,
        named(&candidate.name, &candidate.target),
        cause(&candidate.observed.shares)
    );
    if let Reading::Value(time) = &effect.time
        && candidate
            .observed
            .shares
            .first()
            .is_some_and(|it| it.what == SharedWhat::Cpu)
        && time.slowed_per_cpu_second_percent > PER_CPU
    {
        text += &format!(
            ", and it is {:.0} % slower per second of CPU time, too (caches, memory)",
            time.slowed_per_cpu_second_percent
        );
    }
    text
}

fn cause(shares: &[Shared]) -> String {
    let Some(first) = shares.first() else {
        return "what they share was not seen".into();
    };
    let before = first.evidence.split(':').next().unwrap_or_default();
    match first.what {
        SharedWhat::Cpu => format!("they share {before}"),
        SharedWhat::Disk => format!("they share {before}"),
        SharedWhat::Core => "they share a core".into(),
        SharedWhat::Network => "they may share the network".into(),
        SharedWhat::Llc => "they share caches or memory bandwidth, and no CPU".into(),
        SharedWhat::Memory => "they share memory bandwidth, and no CPU".into(),
    }
}

fn named(name: &str, target: &MemberTarget) -> String {
    let name = text::clean(name);
    match target {
        MemberTarget::Pid(pid) => format!("{name} (pid {pid})"),
        MemberTarget::Cgroup(_) => format!("{name} (cgroup)"),
        MemberTarget::Command(_) => name,
    }
}

fn given(target: &MemberTarget) -> String {
    match target {
        MemberTarget::Pid(pid) => format!("pid:{pid}"),
        MemberTarget::Cgroup(path) => format!("cgroup:{}", text::clean(path)),
        MemberTarget::Command(_) => "auto".into(),
    }
}

fn candidates(blame: &Blame, style: Style) -> String {
    let rows = blame.candidates.iter().map(|it| {
        let shares = it.observed.shares.first();
        let shares = shares.map_or_else(|| "–".into(), |it| text::clean(&it.evidence));
        let [slows, interval, pauses] = match &it.effect {
            Reading::Value(effect) => {
                let [low, high] = effect.slowed_percent.ci95;
                [
                    format!("{:.1} %", effect.slowed_percent.value),
                    format!("{low:.1} to {high:.1}"),
                    effect.pauses.to_string(),
                ]
            }
            Reading::Unavailable { .. } => ["–".into(), "–".into(), "0".into()],
        };
        let verdict = match it.verdict {
            Verdict::Slows => "slows it",
            Verdict::Helps => "helps it",
            Verdict::NotShown => "not shown",
            Verdict::NotTried => "not tried",
        };
        let used = &it.observed.used;
        [
            named(&it.name, &it.target),
            slows,
            interval,
            verdict.to_string(),
            pauses,
            format!("{:.0} %", used.cpu_percent),
            shares,
        ]
    });
    let titles = [
        "candidate",
        "slows by",
        "95 % interval",
        "verdict",
        "pauses",
        "CPU",
        "shares",
    ];
    table(style, titles, rows, &[0, 1, 2, 3, 4, 5])
}

fn measured(blame: &Blame) -> Vec<String> {
    let Reading::Value(experiment) = &blame.experiment else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if let Reading::Value(metric) = &blame.victim.metric {
        let name = text::clean(&metric.name);
        lines.push(format!(
            "speed by {name}, pauses of {:.0} ms for {:.0} s, no candidate for more than {} % of \
             its time; verdicts allow for many candidates (Holm)",
            1e3 * experiment.pause_seconds,
            experiment.seconds,
            text::number(experiment.max_pause_percent)
        ));
    }
    if let Reading::Value(placebo) = &experiment.placebo {
        let [low, high] = placebo.slowed_percent.ci95;
        lines.push(format!(
            "placebo: pausing a process that does nothing made a difference of {:.1} % ({low:.1} \
             to {high:.1})",
            placebo.slowed_percent.value
        ));
    }
    for it in &blame.candidates {
        let name = named(&it.name, &it.target);
        let effect = match &it.effect {
            Reading::Value(effect) => effect,
            Reading::Unavailable { unavailable } => {
                lines.push(format!("{name}: {}", text::clean(unavailable)));
                continue;
            }
        };
        if it.verdict != Verdict::Slows {
            continue;
        }
        let mut line = format!(
            "{name}: the victim gains {:.0} % while it is paused",
            effect.gain_percent.value
        );
        if let Reading::Value(time) = &effect.time {
            line += &format!(
                "; its CPU time rises from {:.0} to {:.0} %, its waiting for a CPU goes from {:.0} \
                 to {:.0} %, and it is {:.0} % slower per second of CPU time beside the candidate",
                time.cpu_percent.running,
                time.cpu_percent.paused,
                time.waiting_percent.running,
                time.waiting_percent.paused,
                time.slowed_per_cpu_second_percent
            );
        }
        line += &format!(
            "; stopping took {:.2} ms, resuming {:.2} ms",
            1e3 * effect.stop_seconds,
            1e3 * effect.resume_seconds
        );
        lines.push(line);
    }
    let beyond_time = blame
        .candidates
        .iter()
        .any(|it| it.verdict != Verdict::NotTried);
    if beyond_time {
        lines.push(
            "while somebody is paused for milliseconds its CPU time and bandwidth are free; the \
             caches and the memory that it filled are not, so that part of a slowdown is \
             understated"
                .into(),
        );
    }
    lines
}

fn observed(blame: &Blame) -> Vec<String> {
    let seen = &blame.victim.observed;
    let percent = |reading: &Reading<f64>| match reading {
        Reading::Value(value) => format!("{value:.0} %"),
        Reading::Unavailable { unavailable } => format!("unknown ({})", text::clean(unavailable)),
    };
    let mut lines = vec![format!(
        "{} in {:.0} s: {}; its threads waited for a CPU {} of the time; pressure (some): CPU {}, \
         memory {}, I/O {}; cycles per instruction: {}",
        named(&blame.victim.name, &blame.victim.target),
        seen.seconds,
        used(&seen.used),
        percent(&seen.run_queue_delay_percent),
        percent(&seen.psi_cpu_some_percent),
        percent(&seen.psi_memory_some_percent),
        percent(&seen.psi_io_some_percent),
        match &seen.cycles_per_instruction {
            Reading::Value(value) => format!("{value:.2}"),
            Reading::Unavailable { unavailable } =>
                format!("unknown ({})", text::clean(unavailable)),
        },
    )];
    for it in &blame.candidates {
        let mut line = format!(
            "{}: {}",
            named(&it.name, &it.target),
            used(&it.observed.used)
        );
        if let Reading::Value(found) = &it.observed.correlation {
            let [low, high] = found.ci95;
            line += &format!(
                "; its CPU use and the victim's speed correlate by {:+.2} ({low:+.2} to {high:+.2})",
                found.value
            );
        }
        let others = it.observed.shares.iter().skip(1);
        let others: Vec<String> = others.map(|it| text::clean(&it.evidence)).collect();
        if !others.is_empty() {
            line += &format!("; also: {}", others.join("; "));
        }
        lines.push(line);
    }
    lines
}

fn used(used: &UsedByOne) -> String {
    let cpus: Vec<usize> = used.cpus.iter().map(|it| it.cpu).collect();
    let mut text = format!("{:.0} % of a CPU", used.cpu_percent);
    if !cpus.is_empty() {
        text += &format!(" (CPU {})", format_list(&cpus));
    }
    let disk = [
        ("read", &used.disk_read_bytes_per_second),
        ("wrote", &used.disk_written_bytes_per_second),
    ];
    for (verb, reading) in disk {
        if let Reading::Value(bytes) = reading
            && *bytes >= 1e4
        {
            text += &format!(", {verb} {:.2} MB/s", bytes / 1e6);
        }
    }
    text
}
