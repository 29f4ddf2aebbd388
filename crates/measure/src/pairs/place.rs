//! Which CPUs each member of a group has.

use jostle_host::machine::Machine;
use jostle_profile::cpulist::format_list;
use jostle_profile::pairs::GroupPlacement;
use jostle_statistics::ByNumber;

/// The placements that differ on this machine.
pub fn usual(machine: &Machine) -> Vec<GroupPlacement> {
    let mut placements = vec![GroupPlacement::SameCpu];
    if machine.allowed_cpus.len() > 1 {
        if has_several_caches(machine) {
            placements.push(GroupPlacement::SameLlc);
        }
        placements.push(GroupPlacement::OwnCpus);
    }
    placements
}

/// Whether CPUs that may be used have different last-level caches.
fn has_several_caches(machine: &Machine) -> bool {
    let first = machine.allowed_cpus.first();
    let group = first.map_or_else(Vec::new, |cpu| machine.llc_group(*cpu));
    let within = |cpu: &usize| group.contains(cpu);
    !group.is_empty() && !machine.allowed_cpus.iter().all(within)
}

/// CPUs of each member. `fixed` are those of members that were running before us and
/// stay where they are, `asked` those that the others may have.
///
/// # Errors
/// Why the placement is not possible, and what to do.
pub fn cpus(
    machine: &Machine,
    placement: GroupPlacement,
    fixed: &[Option<Vec<usize>>],
    asked: Option<&[usize]>,
) -> Result<Vec<Vec<usize>>, String> {
    match placement {
        GroupPlacement::SameCpu => shared(machine, fixed, asked),
        GroupPlacement::SameLlc | GroupPlacement::OwnCpus => {
            own(machine, placement == GroupPlacement::SameLlc, fixed, asked)
        }
    }
}

fn shared(
    machine: &Machine,
    fixed: &[Option<Vec<usize>>],
    asked: Option<&[usize]>,
) -> Result<Vec<Vec<usize>>, String> {
    let mut found = fixed.iter().flatten();
    let cpus = match (found.next(), asked) {
        (Some(first), _) => {
            if let Some(other) = found.find(|other| *other != first) {
                return Err(format!(
                    "one running process may use CPUs {} and another {}; pin both to the same with \
                     taskset -acp LIST PID",
                    format_list(first),
                    format_list(other)
                ));
            }
            first.clone()
        }
        (None, Some(asked)) => asked.to_vec(),
        (None, None) => machine
            .quietest_cpu()
            .map(|cpu| vec![cpu])
            .ok_or("no CPU is allowed to this process")?,
    };
    Ok(vec![cpus; fixed.len()])
}

fn own(
    machine: &Machine,
    same_llc: bool,
    fixed: &[Option<Vec<usize>>],
    asked: Option<&[usize]>,
) -> Result<Vec<Vec<usize>>, String> {
    let mut used: Vec<usize> = Vec::new();
    for cpus in fixed.iter().flatten() {
        if let Some(cpu) = cpus.iter().find(|cpu| used.contains(cpu)) {
            return Err(format!(
                "two running processes may both use CPU {cpu}; pin them apart with taskset -acp LIST \
                 PID"
            ));
        }
        used.extend(cpus);
    }
    let free: Vec<usize> = asked.unwrap_or(&machine.allowed_cpus).to_vec();
    let mut free: Vec<usize> = free.into_iter().filter(|cpu| !used.contains(cpu)).collect();
    let wanted = fixed.iter().filter(|cpus| cpus.is_none()).count();
    if same_llc {
        free = under_one_cache(machine, &used, &free, wanted)?;
    }
    if free.len() < wanted {
        let fixed = match used.is_empty() {
            true => String::new(),
            false => format!(
                " besides {}, which running processes use",
                format_list(&used)
            ),
        };
        return Err(format!(
            "{wanted} members need as many CPUs of their own, and there are {}{fixed}; name fewer \
             members, or measure them with --same-cpu",
            free.len()
        ));
    }
    // Asked for: all of them are dealt out.
    let each = match asked {
        Some(_) => free.len() / wanted.max(1),
        None => 1,
    };
    if asked.is_none() {
        free = apart(machine, &used, free, wanted);
    }
    let mut dealt = free.chunks(each.max(1)).map(<[usize]>::to_vec);
    let cpus = fixed.iter().map(|cpus| match cpus {
        Some(cpus) => cpus.clone(),
        None => dealt.next().unwrap_or_default(),
    });
    Ok(cpus.collect())
}

/// Those of `free` that lie under one last-level cache, with what is used.
fn under_one_cache(
    machine: &Machine,
    used: &[usize],
    free: &[usize],
    wanted: usize,
) -> Result<Vec<usize>, String> {
    let groups = free.iter().map(|cpu| machine.llc_group(*cpu));
    let fitting = groups.map(|group| {
        let inside = |cpu: &&usize| group.contains(cpu);
        let all = used.iter().all(|cpu| group.contains(cpu));
        let cpus: Vec<usize> = free.iter().filter(inside).copied().collect();
        if all { cpus } else { Vec::new() }
    });
    let most = fitting.max_by_key(Vec::len).unwrap_or_default();
    match most.len() >= wanted {
        true => Ok(most),
        false => Err(format!(
            "no last-level cache has {wanted} free CPUs under it that may be used"
        )),
    }
}

/// `wanted` of `free`, one after another as far from those before as there are: on
/// another last-level cache, else on another core; first the one that devices
/// interrupt least.
fn apart(machine: &Machine, used: &[usize], mut free: Vec<usize>, wanted: usize) -> Vec<usize> {
    let mut taken: Vec<usize> = Vec::new();
    let quiet = machine.quietest_cpu();
    while taken.len() < wanted && !free.is_empty() {
        let near = |cpu: usize| {
            let others = used.iter().chain(&taken);
            others
                .map(|other| {
                    let core = machine.core_siblings(cpu).contains(other);
                    let llc = machine.llc_group(cpu).contains(other);
                    100 * u32::from(core) + u32::from(llc)
                })
                .sum::<u32>()
        };
        let best = (0..free.len()).min_by_key(|at| (near(free[*at]), Some(free[*at]) != quiet));
        taken.push(free.remove(best.unwrap_or(0)));
    }
    taken
}

/// CPUs for groups of `sizes`, of `asked` or of all that may be used: those of a group
/// close together, groups as far from each other as there are. Hidden siblings of a core
/// that is taken come last.
///
/// # Errors
/// When there are too few.
pub fn divided(
    machine: &Machine,
    sizes: &[usize],
    asked: Option<&[usize]>,
) -> Result<Vec<Vec<usize>>, String> {
    let mut free = asked.unwrap_or(&machine.allowed_cpus).to_vec();
    let wanted: usize = sizes.iter().sum();
    if wanted > free.len() {
        return Err(format!(
            "{wanted} CPUs are needed, and there are {}",
            free.len()
        ));
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_number(|group| -(sizes[*group] as f64));
    let mut dealt = vec![Vec::new(); sizes.len()];
    let mut used: Vec<usize> = Vec::new();
    for group in order {
        let mut own = apart(machine, &used, free.clone(), 1);
        while own.len() < sizes[group] {
            let rest = free.iter().filter(|cpu| !own.contains(cpu));
            let far = |cpu: usize| {
                let taken = used.iter().chain(&own);
                let sibling = |other: &&usize| machine.core_siblings(cpu).contains(other);
                let llc = own.first().map(|first| machine.llc_group(*first));
                let inside = llc.is_some_and(|llc| llc.contains(&cpu));
                (taken.filter(sibling).count(), !inside, cpu)
            };
            match rest.copied().min_by_key(|cpu| far(*cpu)) {
                Some(cpu) => own.push(cpu),
                None => break,
            }
        }
        free.retain(|cpu| !own.contains(cpu));
        used.extend(&own);
        own.sort_unstable();
        dealt[group] = own;
    }
    Ok(dealt)
}
