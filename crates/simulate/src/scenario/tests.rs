use super::*;
use std::path::Path;
use std::path::PathBuf;

fn shipped() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_shipped_scenario_makes_a_workload() {
    let files = shipped();
    let (mut jobs, mut clouds, mut consolidations) = (0, 0, 0);
    for file in files {
        let scenario = match ScenarioFile::load(&file).unwrap() {
            ScenarioFile::Jobs(scenario) => scenario,
            ScenarioFile::Cloud(scenario) => {
                scenario.check().unwrap();
                assert_eq!(
                    Some(scenario.name.as_str()),
                    file.file_stem().unwrap().to_str()
                );
                clouds += 1;
                continue;
            }
            ScenarioFile::Consolidation(scenario) => {
                scenario.check().unwrap();
                consolidations += 1;
                continue;
            }
        };
        jobs += 1;
        let workload = scenario.workload(1).unwrap();
        assert!(!workload.jobs.is_empty());
        let cpus: f64 = workload.nodes.iter().map(|node| f64::from(node.cpus)).sum();
        let last = workload.jobs.last().unwrap().arrival.max(1.0);
        let asked: f64 = workload
            .jobs
            .iter()
            .map(|job| job.work_seconds * f64::from(job.demand.cpus))
            .sum();
        eprintln!(
            "{}: {} jobs, {} nodes, {cpus} cpus, load {:.2}",
            scenario.name,
            workload.jobs.len(),
            workload.nodes.len(),
            asked / cpus / last
        );
        for pair in workload.jobs.windows(2) {
            assert!(pair[0].arrival <= pair[1].arrival);
        }
        for job in &workload.jobs {
            assert!(job.work_seconds > 0.0 && job.demand.cpus >= 1);
            assert_eq!(job.phases[0].from, 0.0);
            assert!(
                job.phases
                    .windows(2)
                    .all(|pair| pair[0].from < pair[1].from)
            );
            for phase in &job.phases {
                let truth = &workload.truth.apps[phase.truth as usize];
                assert_eq!(truth.speed.len(), workload.truth.platforms.len());
                assert_eq!(truth.name, phase.estimate.name());
                assert_eq!(phase.estimate.demand(), job.demand);
            }
            assert!(usize::from(job.class) < workload.classes.len());
        }
        let mut order: Vec<&str> = Vec::new();
        for node in &workload.nodes {
            let name = node.platform.as_deref().unwrap_or_default();
            if !order.contains(&name) {
                order.push(name);
            }
        }
        let platforms: Vec<&str> = workload
            .truth
            .platforms
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        assert_eq!(
            order, platforms,
            "platforms stand as in a cluster of these nodes"
        );
    }
    assert!(
        jobs >= 15 && clouds >= 3 && consolidations >= 1,
        "{jobs} of jobs, {clouds} of clouds, {consolidations} of consolidation"
    );
}

const MINIMAL: &str = "\
[cluster]
hardware = \"paragon-40\"
[jobs]
count = 20
[arrivals]
process = \"constant\"
mean_seconds = 1
";

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(Path::new("dir/some.toml"), text)
}

/// Refused on `line` with words that contain `says`.
fn refused(text: &str, line: usize, says: &str) {
    let error = parse(text).expect_err(text);
    assert_eq!(error.line, Some(line), "{error}\n{text}");
    let shown = error.to_string();
    assert!(
        shown.starts_with(&format!("dir/some.toml, line {line}: ")),
        "{shown}"
    );
    assert!(shown.contains(says), "`{says}` in: {shown}");
}

#[test]
fn the_least_scenario_has_defaults() {
    let scenario = parse(MINIMAL).unwrap();
    assert_eq!(scenario.name, "some");
    assert_eq!(scenario.admissions, ["none"]);
    assert_eq!(scenario.policies.len(), jostle_schedule::POLICIES.len());
    let settings = scenario.settings("least-loaded", "none", 3);
    assert_eq!((settings.agents.count, settings.seed), (1, 3));
    let workload = scenario.workload(3).unwrap();
    assert_eq!(
        workload.classes,
        ["single-threaded", "multithreaded", "mixes", "io"]
    );
    assert!(workload.faults.is_empty());
}

#[test]
fn values_out_of_range_are_refused_where_they_stand() {
    let with = |more: &str| format!("{MINIMAL}{more}");
    for (text, line, says) in [
        (
            MINIMAL.replace("count = 20", "count = 0"),
            4,
            "is 0; write a whole number from 1",
        ),
        (
            MINIMAL.replace("count = 20", "count = 2.5"),
            4,
            "expected a whole number",
        ),
        (
            MINIMAL.replace("count = 20", "number = 20"),
            4,
            "unknown field `number`",
        ),
        (
            MINIMAL.replace("mean_seconds = 1", "mean_seconds = -1"),
            7,
            "is -1; write a number of 0 or more (in `mean_seconds = -1`)",
        ),
        (
            MINIMAL.replace("mean_seconds = 1", "mean_seconds = nan"),
            7,
            "is NaN",
        ),
        (
            MINIMAL.replace("constant", "steady"),
            6,
            "there is no `steady`; there are constant",
        ),
        (
            MINIMAL.replace("constant", "gausian"),
            6,
            "did you mean `gaussian`?",
        ),
        (
            MINIMAL.replace("constant", "gaussian"),
            6,
            "needs the key `sd_seconds`",
        ),
        (
            MINIMAL.replace("constant", "trace"),
            7,
            "process `trace` has none; it takes file",
        ),
        (
            MINIMAL.replace("paragon-40", "paragon-4"),
            2,
            "did you mean `paragon-40`?",
        ),
        (
            MINIMAL.replace(
                "[jobs]\ncount = 20\n",
                "[jobs]\nresidual_percent = 101\ncount = 20\n",
            ),
            4,
            "is 101; write a percentage",
        ),
        (
            with("[work]\nmedian_seconds = 0\n"),
            9,
            "is 0; write a number above 0",
        ),
        (
            with("[work]\nsigma = 1\n"),
            9,
            "either median_seconds and sigma",
        ),
        (
            with("[work]\nleast_seconds = 3\nmost_seconds = 2\n"),
            9,
            "3 is above most_seconds = 2",
        ),
        (
            with("[burst]\nafter = 21\njobs = 1\ngap_seconds = 1\n"),
            9,
            "is 21, but only 20 jobs come",
        ),
        (
            with("[[class]]\nname = \"io\"\npercent = 99\n"),
            10,
            "add up to 99, not to 100",
        ),
        (
            with("[[class]]\nname = \"mix\"\npercent = 100\n"),
            9,
            "did you mean `mixes`?",
        ),
        (
            with(
                "[[class]]\nname = \"io\"\npercent = 50\n[[class]]\nname = \"io\"\npercent = 50\n",
            ),
            12,
            "already used on line 9",
        ),
        (
            with("[profiling]\ninferred_percent = 60\nmissing_percent = 50\n"),
            9,
            "add up to more than 100",
        ),
        (
            with("[phases]\npercent = 10\nat = [0.5, 0.2]\nto = \"another\"\n"),
            10,
            "0.2 is not above 0.5",
        ),
        (
            with("[phases]\npercent = 10\nat = [1.5]\nto = \"another\"\n"),
            10,
            "is 1.5; write a fraction",
        ),
        (
            with("[phases]\npercent = 10\nat = [0.5]\nto = \"nobody\"\n"),
            11,
            "unknown variant `nobody`, expected `memory-load` or `another`",
        ),
        (
            with("[faults]\nnodes_per_hour = -2\nrepair_seconds = 1\n"),
            9,
            "is -2; write a number of 0 or more",
        ),
        (with("[agents]\ncount = 0\n"), 9, "is 0"),
        (with("[agents]\nsync_seconds = [9, 3]\n"), 9, "9 is above 3"),
        (format!("policies = []\n{MINIMAL}"), 1, "is empty"),
        (
            format!("policies = [\"least-loaded\", \"least-loaded\"]\n{MINIMAL}"),
            1,
            "named twice",
        ),
        (
            format!("policies = [\"least-laoded\"]\n{MINIMAL}"),
            1,
            "did you mean `least-loaded`?",
        ),
        (
            format!("admission = \"most\"\n{MINIMAL}"),
            1,
            "key `admission`: there is no `most`",
        ),
        (
            format!("admission = [\"none\", \"none\"]\n{MINIMAL}"),
            1,
            "`none` is named twice",
        ),
        (
            format!("admission = [\"none\", 3]\n{MINIMAL}"),
            1,
            "3 is not a name",
        ),
        (format!("admission = []\n{MINIMAL}"), 1, "is empty"),
        (
            format!("admission = \"wrangler\"\n{MINIMAL}"),
            1,
            "add a table [wrangler] with windows",
        ),
        (
            with("[wrangler]\nconfidence = 0.7\n"),
            8,
            "missing field `windows`",
        ),
        (
            with("[wrangler]\nwindows = \"w.csv\"\nconfidence = 1.5\n"),
            10,
            "is 1.5; write at least 0.5 and below 1",
        ),
        (with("[arq]\nqueues = 101\n"), 9, "is 101; write 1 to 100"),
        (with("[arq]\nqueues = 0\n"), 9, "is 0; write a whole number"),
        (
            with("[population]\nprofiles = \"nowhere\"\n"),
            9,
            "key `population.profiles`",
        ),
    ] {
        refused(&text, line, says);
    }
}

#[test]
fn nodes_and_apps_of_ones_own_are_checked() {
    let nodes = |more: &str| {
        let rest = MINIMAL.split_once("[jobs]").unwrap().1;
        format!(
            "[[node]]\nname = \"n\"\ncpus = 4\nmemory = \"8GiB\"\nplatform = \"mine\"\n{more}[jobs]{rest}"
        )
    };
    for (text, line, says) in [
        (
            nodes("[[node]]\nname = \"n\"\ncpus = 1\nmemory = \"1GiB\"\n"),
            7,
            "already used on line 2",
        ),
        (
            nodes("[[node]]\nname = \"m\"\ncpus = 0\nmemory = \"1GiB\"\n"),
            8,
            "is 0",
        ),
        (
            nodes("[[node]]\nname = \"m\"\ncpus = 1\nmemory = \"1\"\n"),
            9,
            "no unit",
        ),
        (
            nodes("[[platform]]\nname = \"yours\"\n"),
            7,
            "no node is of platform `yours`",
        ),
        (
            nodes("[[app]]\nname = \"a\"\n[[app]]\nname = \"a\"\n"),
            9,
            "already used on line 7",
        ),
        (
            nodes("[[app]]\nname = \"a\"\ntolerates = { llc = 5 }\n"),
            8,
            "there is no `llc`",
        ),
        (
            nodes("[[app]]\nname = \"a\"\ncauses = { int = 5 }\n"),
            8,
            "`int` is not shared",
        ),
        (
            nodes("[[app]]\nname = \"a\"\ncauses = { llc-capacity = 105 }\n"),
            8,
            "is 105",
        ),
        (
            nodes("[[app]]\nname = \"a\"\nspeed = { mnie = 0.5 }\n"),
            8,
            "did you mean `mine`?",
        ),
        (
            nodes("[[app]]\nname = \"a\"\nthen = \"b\"\nat = 0.5\n"),
            8,
            "there is no `b`",
        ),
        (
            nodes("[[app]]\nname = \"a\"\nthen = \"a\"\n"),
            8,
            "needs `at`",
        ),
        (
            nodes(
                "[[app]]\nname = \"a\"\nthen = \"b\"\nat = 0.2\n[[app]]\nname = \"b\"\nthen = \"a\"\nat = 0.4\n",
            ),
            8,
            "run in a circle",
        ),
        (
            nodes(
                "[[app]]\nname = \"a\"\nthen = \"b\"\nat = 0.6\n[[app]]\nname = \"b\"\nthen = \"c\"\nat = 0.4\n[[app]]\nname = \"c\"\n",
            ),
            13,
            "fractions are of the whole work",
        ),
    ] {
        refused(&text, line, says);
    }
    let none = MINIMAL.replace("[cluster]\nhardware = \"paragon-40\"\n", "");
    let error = parse(&none).unwrap_err();
    assert!(error.to_string().contains("holds no node"), "{error}");
}

#[test]
fn apps_of_ones_own_are_as_written() {
    let text = "\
[[node]]
name = \"fast\"
cpus = 4
memory = \"8GiB\"
platform = \"new\"
count = 2
[[node]]
name = \"slow\"
cpus = 4
memory = \"8GiB\"
platform = \"old\"
[[platform]]
name = \"old\"
pressure = 1.5
[[app]]
name = \"db\"
cpus = 2
memory = \"2GiB\"
work_seconds = 100
tolerates = { llc-capacity = 20 }
causes = { memory-bandwidth = 30 }
speed = { new = 2, old = 1 }
then = \"db-busy\"
at = 0.5
[[app]]
name = \"db-busy\"
[jobs]
count = 5
[arrivals]
process = \"poisson\"
per_second = 1
[[class]]
name = \"given\"
percent = 100
";
    let workload = parse(text).unwrap().workload(1).unwrap();
    let names: Vec<&str> = workload
        .truth
        .apps
        .iter()
        .map(|app| app.name.as_str())
        .collect();
    assert_eq!(names, ["db", "db-busy"]);
    assert_eq!(workload.nodes.len(), 3);
    let old = workload
        .truth
        .platforms
        .iter()
        .position(|p| p.name == "old")
        .unwrap();
    let db = &workload.truth.apps[0];
    assert_eq!((db.speed[old], db.speed[1 - old]), (0.5, 1.0));
    let llc = jostle_schedule::predict::lane("llc-capacity").unwrap();
    assert_eq!(workload.truth.platforms[old].pressure_scale[llc], 1.5);
    // At 20 points 5 % are lost, at 40 points 5 % of the rest again.
    assert!((db.curves[0].at(40.0) - 2.0 * 0.95f32.ln()).abs() < 1e-4);
    let job = workload
        .jobs
        .iter()
        .find(|job| job.phases[0].truth == 0)
        .unwrap();
    assert_eq!((job.work_seconds, job.demand.cpus), (100.0, 2));
    let phases: Vec<(f64, u32)> = job.phases.iter().map(|p| (p.from, p.truth)).collect();
    assert_eq!(phases, [(0.0, 0), (0.5, 1)]);
}

#[test]
fn a_trace_says_when_and_what() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.toml");
    let text = MINIMAL.replace(
        "process = \"constant\"\nmean_seconds = 1",
        "process = \"trace\"\nfile = \"t.csv\"",
    );
    std::fs::write(
        dir.path().join("t.csv"),
        "seconds,app\n1,io\n2,mixes-350\n4.5\n",
    )
    .unwrap();
    let workload = Scenario::parse(&path, &text).unwrap().workload(1).unwrap();
    let arrivals: Vec<f64> = workload.jobs.iter().map(|job| job.arrival).collect();
    assert_eq!(arrivals, [1.0, 2.0, 4.5]);
    assert_eq!(workload.classes[usize::from(workload.jobs[0].class)], "io");
    assert_eq!(workload.jobs[1].phases[0].estimate.name(), "mixes-350");
    for (trace, says) in [
        (
            "1,nobody\n",
            "t.csv, line 1: key `app`: there is no `nobody`",
        ),
        ("x\n", "line 1: `x` does not begin with seconds"),
    ] {
        std::fs::write(dir.path().join("t.csv"), trace).unwrap();
        let error = Scenario::parse(&path, &text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn equal_seeds_make_equal_workloads() {
    let scenario = parse(&format!(
        "{MINIMAL}[phases]\npercent = 50\nat = [0.5]\nto = \"another\"\n[faults]\nnodes_per_hour = 9\ncpus_per_hour = 9\nrepair_seconds = 60\n"
    ))
    .unwrap();
    let shown = |seed| format!("{:?}", scenario.workload(seed).unwrap());
    assert_eq!(shown(4), shown(4));
    assert_ne!(shown(4), shown(5));
    let workload = scenario.workload(4).unwrap();
    assert!(!workload.faults.is_empty());
    assert!(
        workload
            .faults
            .windows(2)
            .all(|pair| pair[0].0 <= pair[1].0)
    );
    assert!(workload.jobs.iter().any(|job| job.phases.len() == 2));
}

#[test]
fn reservations_are_too_much_or_too_little_as_often_as_said() {
    let text = MINIMAL.replace("count = 20", "count = 4000");
    let plain = parse(&text).unwrap().workload(1).unwrap();
    let reserved = parse(&format!(
        "{text}[reservations]\nover_percent = 70\nover_factor = 10\nunder_percent = 20\nunder_factor = 5\n"
    ))
    .unwrap()
    .workload(1)
    .unwrap();
    let (mut over, mut count) = (0, 0);
    for job in &reserved.jobs {
        let truth = &reserved.truth.apps[job.phases[0].truth as usize];
        let target = job.target.unwrap();
        let given = truth.scaling.by_cpus(f64::from(job.demand.cpus));
        over += u32::from(given > target + 1e-9);
        count += 1;
        assert!(job.demand.cpus <= 12);
    }
    assert!(plain.jobs.iter().all(|job| job.target.is_none()));
    // Less than 70 %: single-threaded programs gain nothing by more CPUs.
    let share = f64::from(over) / f64::from(count);
    assert!((0.3..0.7).contains(&share), "{share}");
}

#[test]
fn admissions_are_told_what_the_scenario_says() {
    let scenario = parse(&format!(
        "admission = [\"arq\", \"wrangler\"]\n{MINIMAL}[arq]\nqueues = 3\nsjf = true\n\
         priorities = true\nrelative = false\n[wrangler]\nwindows = \"w.csv\"\nconfidence = \"tuned\"\n"
    ))
    .unwrap();
    assert_eq!(scenario.admissions, ["arq", "wrangler"]);
    let options = scenario.settings("random", "arq", 1).admission_options;
    assert_eq!(options.queues, 3);
    assert!(options.sjf && options.priorities && !options.relative);
    assert_eq!(options.wrangler, Some(PathBuf::from("dir/w.csv")));
    assert_eq!(options.wrangler_confidence, None);
    scenario.check_admission("wrangler").unwrap();
    let without = parse(MINIMAL).unwrap();
    without.check_admission("arq").unwrap();
    let error = without.check_admission("wrangler").unwrap_err().to_string();
    assert!(
        error.starts_with("dir/some.toml: ") && error.contains("[wrangler]"),
        "{error}"
    );
}
