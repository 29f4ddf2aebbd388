//! The size that was chosen for a speed that was wanted, in words.

use crate::explanation::SizeReason;
use crate::scaling::Scaling;

/// Of an application of which `target` times the speed on one CPU is wanted, and which
/// got `parts`, the CPUs on each node; `None` where no speed is wanted. `sizes` says
/// whether the policy called `policy` chooses sizes.
pub(crate) fn reason(
    policy: &str,
    sizes: bool,
    target: Option<f64>,
    scaling: Option<&Scaling>,
    parts: &[u32],
) -> Option<SizeReason> {
    let target = target?;
    let total: u32 = parts.iter().sum();
    let nodes = parts.len() as u32;
    let plain = |why: String| SizeReason {
        target,
        cpus: total,
        nodes,
        speedup: None,
        ci95: None,
        why: format!("{why}: placed at the size asked for, {}", cpus(total)),
    };
    if !sizes {
        return Some(plain(format!("{policy} does not choose sizes")));
    }
    let Some(scaling) = scaling else {
        return Some(plain("no scaling curve".into()));
    };
    let each = |speed: &dyn Fn(f64) -> f64| {
        let speeds = parts.iter().map(|cpus| speed(f64::from(*cpus)));
        let mean = speeds.sum::<f64>() / f64::from(nodes.max(1));
        mean * scaling.by_nodes(f64::from(nodes))
    };
    let speedup = each(&|cpus| scaling.by_cpus(cpus));
    let interval = |cpus: f64| scaling.interval_by_cpus(cpus);
    let ci95 =
        interval(1.0).map(|_| [0, 1].map(|end| each(&|n| interval(n).map_or(0.0, |it| it[end]))));
    let what = match (scaling.by_copies(), total) {
        (true, 2..) => format!("{total} copies on {}", cpus(total)),
        _ => cpus(total),
    };
    let mut why = format!(
        "{what}{} ",
        if nodes > 1 {
            format!(" of {nodes} nodes")
        } else {
            String::new()
        }
    );
    why += &match ci95 {
        _ if total == 1 => format!("for {target:.2} times the speed of one"),
        Some([low, high]) => format!(
            "give {speedup:.2} times the speed of one (95 % interval {low:.2} to {high:.2}); {target:.2} is wanted"
        ),
        None => format!("give {speedup:.2} times the speed of one; {target:.2} is wanted"),
    };
    if let [only] = parts[..]
        && let Some(fewer) = only.checked_sub(1).filter(|fewer| *fewer > 0)
    {
        let speed = scaling.by_cpus(f64::from(fewer));
        why += &format!(
            ", and {} give{} {speed:.2}",
            cpus(fewer),
            if fewer == 1 { "s" } else { "" }
        );
    }
    if ci95.is_some_and(|[low, _]| low < target && target <= speedup) {
        why += "; the lower end of the interval is below that";
    }
    if speedup < target * (1.0 - 1e-9) {
        let most = scaling.most_measured();
        why += &match most.filter(|most| parts.iter().any(|cpus| cpus >= most)) {
            Some(most) => format!("; the curve ends at {}, and does not reach it", cpus(most)),
            None => "; that is not reached".to_string(),
        };
    }
    Some(SizeReason {
        target,
        cpus: total,
        nodes,
        speedup: Some(speedup),
        ci95,
        why,
    })
}

fn cpus(count: u32) -> String {
    match count {
        1 => "1 CPU".into(),
        count => format!("{count} CPUs"),
    }
}
