use super::*;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use std::fmt::Write;
use std::time::Duration;
use std::time::Instant;

/// Windows of two telling counters and one of noise on `nodes` nodes;
/// `chance` says how likely a straggler is.
fn windows(count: usize, nodes: usize, chance: impl Fn(f64, f64) -> f64) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut text = String::from("node,disk,network,noise,straggler\n");
    for at in 0..count {
        let [disk, network, noise] = [(); 3].map(|()| rng.random::<f64>());
        let straggler = rng.random::<f64>() < chance(disk, network);
        writeln!(
            text,
            "n{},{disk:.6},{network:.6},{noise:.6},{}",
            at % nodes,
            u8::from(straggler)
        )
        .unwrap();
    }
    text
}

fn trained(text: &str, options: TrainingOptions) -> WranglerModel {
    train_on_text(text, "windows.csv", options).unwrap()
}

fn shared(model: &WranglerModel) -> &Score {
    model.report().shared.value().unwrap()
}

fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        cpus: 4,
        memory_bytes: 0,
        platform: None,
        shares_cpus: false,
    }
}

fn probability(model: &WranglerModel, node: &str, values: &[f32]) -> f64 {
    model.forecast(&[node], "app", values).unwrap().probability
}

fn step(value: bool) -> f64 {
    f64::from(u8::from(value))
}

#[test]
fn what_can_be_separated_is() {
    let line = |disk: f64, network: f64| step(disk + network > 1.3);
    let model = trained(&windows(3000, 3, line), TrainingOptions::default());
    let report = model.report();
    assert_eq!(report.pairs.len(), 3);
    for score in report
        .pairs
        .iter()
        .flat_map(|pair| [pair.separate.value(), pair.shared.value()])
    {
        let score = score.unwrap();
        assert!(score.helps && score.brier < 0.05, "{score:?}");
        assert!(
            *score.true_positive_rate.value().unwrap() > 0.9,
            "{score:?}"
        );
        assert!(
            *score.false_positive_rate.value().unwrap() < 0.03,
            "{score:?}"
        );
    }
    assert!(probability(&model, "n0", &[0.9, 0.9, 0.5]) > 0.95);
    assert!(probability(&model, "n0", &[0.2, 0.2, 0.5]) < 0.05);
    let because = &report.pairs[0].causes.value().unwrap();
    let classes: Vec<&str> = because.iter().map(|cause| cause.class.as_str()).collect();
    assert!(
        classes.contains(&"disk") && classes.contains(&"network"),
        "{because:?}"
    );
    assert!(!classes.contains(&"system"), "{because:?}");
}

#[test]
fn probabilities_are_calibrated_on_noisy_and_unbalanced_data() {
    let chance = |disk: f64, network: f64| 1.0 / (1.0 + (7.5 - 5.0 * (disk + network)).exp());
    let text = windows(12_000, 1, chance);
    let model = trained(&text, TrainingOptions::default());
    let score = shared(&model);
    assert!(score.brier < 0.9 * score.brier_of_base_rate, "{score:?}");
    // Reliability on the last third: in every fifth of confidence with enough
    // windows, as many stragglers as predicted, within 0.05 or three standard
    // errors.
    let parsed = Windows::parse(&text, "w").unwrap();
    let mut bins = [(0.0, 0.0, 0.0); 5];
    for window in &parsed.windows[8000..] {
        let p = probability(&model, "n0", &window.values);
        let bin = &mut bins[((p * 5.0) as usize).min(4)];
        *bin = (bin.0 + 1.0, bin.1 + p, bin.2 + step(window.slow));
    }
    let looked_at = bins.iter().filter(|(count, ..)| *count >= 100.0);
    let mut bins_seen = 0;
    for (count, predicted, came) in looked_at {
        bins_seen += 1;
        let rate = came / count;
        let chance = 3.0 * (rate * (1.0 - rate) / count).sqrt();
        assert!(
            (predicted / count - rate).abs() < chance.max(0.05),
            "{bins:?}"
        );
    }
    assert!(bins_seen >= 3, "{bins:?}");
}

#[test]
fn noise_gives_no_veto_and_the_report_says_so() {
    for confidence in [Confidence::Above(0.7), Confidence::Tuned] {
        for rate in [0.1, 0.5, 0.8] {
            let options = TrainingOptions {
                confidence,
                ..TrainingOptions::default()
            };
            let model = trained(&windows(3000, 2, |_, _| rate), options);
            assert!(!shared(&model).helps, "{:?}", shared(&model));
            for pair in &model.report().pairs {
                assert_eq!(pair.used, Used::None, "{pair:?}");
                let why = pair.why.as_ref().unwrap();
                assert!(
                    why.contains("no better than always the same answer"),
                    "{why}"
                );
                assert!(pair.causes.value().is_none());
            }
            let unknown = model.forecast(&["n0"], "app", &[0.9; 3]).unwrap_err();
            assert!(unknown.contains("no better"), "{unknown}");
            let wrangler = Wrangler::new(Some(model));
            let readings = ["disk", "network", "noise"].map(|it| (it.to_string(), Some(0.99)));
            let verdict = wrangler.verdict("app", &node("n1"), Some(&readings.into()));
            assert!(verdict.unwrap().admitted);
        }
    }
}

/// That n0 is slow most of the time is no reason to wait there: its readings say nothing.
#[test]
fn base_rates_that_differ_are_no_skill() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let mut text = String::from("node,disk,straggler\n");
    for at in 0..2000 {
        let often = if at % 2 == 0 { 0.85 } else { 0.1 };
        let slow = u8::from(rng.random::<f64>() < often);
        writeln!(text, "n{},{},{slow}", at % 2, rng.random::<f64>()).unwrap();
    }
    let options = TrainingOptions {
        confidence: Confidence::Tuned,
        ..TrainingOptions::default()
    };
    let model = trained(&text, options);
    assert!(!shared(&model).helps, "{:?}", shared(&model));
    let used = model.report().pairs.iter().map(|pair| pair.used);
    assert_eq!(used.collect::<Vec<_>>(), [Used::None, Used::None]);
}

/// The cause on n0 is the disk; on n1 a busy disk is a good sign.
#[test]
fn nodes_have_models_of_their_own_and_unseen_pairs_are_served_by_the_parts() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut text = String::from("node,workload,disk,straggler\n");
    for at in 0..1600 {
        let disk = rng.random::<f64>();
        let (node, workload) = (at % 2, (at / 2) % 2);
        // n1 never ran w1.
        if node == 1 && workload == 1 {
            continue;
        }
        let slow = if node == 0 { disk > 0.7 } else { disk < 0.3 };
        writeln!(text, "n{node},w{workload},{disk},{}", u8::from(slow)).unwrap();
    }
    let model = trained(&text, TrainingOptions::default());
    let of = |node: &str, workload: &str, disk: f32| {
        model
            .forecast(&[node], workload, &[disk])
            .unwrap()
            .probability
    };
    assert!(of("n0", "w0", 0.95) > 0.8 && of("n0", "w1", 0.95) > 0.8);
    assert!(of("n1", "w0", 0.95) < 0.2 && of("n1", "w0", 0.05) > 0.8);
    // By the parts of n1 and w1 together.
    assert!(of("n1", "w1", 0.95) < of("n1", "w1", 0.05));
    let unseen = model.forecast(&["n7"], "w9", &[0.9]).unwrap_err();
    assert!(
        unseen.contains("no windows of this workload or of this node"),
        "{unseen}"
    );
    // A platform's name serves its nodes.
    assert!(
        model
            .forecast(&["n7", "n0"], "w0", &[0.95])
            .unwrap()
            .probability
            > 0.8
    );
}

/// With few windows of each of many pairs that have one cause in common, what all
/// share is learned better than by each alone.
#[test]
fn sharing_helps_where_each_has_little() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut text = String::from("node,workload,cpu,disk,network,memory,straggler\n");
    for at in 0..36 * 34 {
        let x: [f64; 4] = std::array::from_fn(|_| rng.random());
        let chance = 1.0 / (1.0 + (9.0 - 10.0 * (x[0] + 0.8 * x[1])).exp());
        let slow = u8::from(rng.random::<f64>() < chance);
        let (node, workload) = (at % 6, at / 6 % 6);
        writeln!(
            text,
            "n{node},w{workload},{},{},{},{},{slow}",
            x[0], x[1], x[2], x[3]
        )
        .unwrap();
    }
    let model = trained(&text, TrainingOptions::default());
    let (mut separate, mut common) = (0.0, 0.0);
    for pair in &model.report().pairs {
        separate += pair.separate.value().map_or(0.25, |score| score.brier);
        common += pair.shared.value().unwrap().brier;
    }
    assert!(common < 0.95 * separate, "{common} {separate}");
}

#[test]
fn a_planted_cause_is_found_in_windows_of_an_agent() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut text = format!(
        "# {}\ntime,node,machine,workload,node_cpu_percent,workload_cpu_percent,\
         node_disk_written_bytes_per_second,workload_disk_written_bytes_per_second,\
         node_psi_cpu_some_percent,performance,qos,slow\n",
        jostle_profile::windows::FORMAT
    );
    for at in 0..600 {
        let [hog, disk] = [rng.random_range(0.0..100.0), rng.random_range(0.0..1e8)];
        // A web server that uses much itself, and is slow where others do.
        let own = rng.random_range(50.0..100.0);
        let slow = u8::from(hog > 60.0);
        writeln!(
            text,
            "2026-01-01T00:{:02}:{:02}Z,n,m,web,{},{own},{disk},,{hog},0.9,0.95,{slow}",
            at / 60,
            at % 60,
            hog + own
        )
        .unwrap();
    }
    let model = trained(&text, TrainingOptions::default());
    let pair = &model.report().pairs[0];
    let score = pair.separate.value().unwrap();
    assert!(score.accuracy > 0.9, "{score:?}");
    let causes = pair.causes.value().unwrap();
    assert_eq!(causes[0].class, "cpu");
    assert_eq!(causes[0].counters[0].counter, "cpu_percent");
    assert_eq!(
        model.report().later_third_from.as_deref(),
        Some("2026-01-01T00:06:40Z")
    );
    let disk = model.report().features.iter();
    let disk = disk.clone().find(|it| it.name.starts_with("disk_written"));
    assert_eq!(disk.unwrap().available, 0.0, "its own share was never read");

    // The model survives a file, and answers of a node without the workload.
    let again = WranglerModel::from_json(&model.to_json(), "m.json").unwrap();
    assert_eq!(again, model);
    let wrangler = Wrangler::new(Some(again));
    let verdict = |cpu: Option<f64>| {
        let readings = NodeReadings::from([("node_cpu_percent".to_string(), cpu)]);
        wrangler
            .verdict("web", &node("n"), Some(&readings))
            .unwrap()
    };
    let vetoed = verdict(Some(95.0));
    assert!(!vetoed.admitted, "{vetoed:?}");
    assert!(
        vetoed.words.contains("because of cpu (cpu_percent)"),
        "{vetoed:?}"
    );
    assert!(verdict(Some(10.0)).admitted);
    let unknown = verdict(None);
    assert!(
        unknown.admitted && unknown.words.contains("no reading of cpu_percent"),
        "{unknown:?}"
    );
    let unread = wrangler.verdict("web", &node("n"), None).unwrap();
    assert!(
        unread.admitted && unread.words.contains("no reading of the node"),
        "{unread:?}"
    );
    let unlearned = Wrangler::new(None)
        .verdict("web", &node("n"), None)
        .unwrap();
    assert!(
        unlearned.admitted && unlearned.words.contains("no model"),
        "{unlearned:?}"
    );
}

#[test]
fn foreign_and_future_models_are_refused() {
    let error = |text: &str| {
        WranglerModel::from_json(text, "m.json")
            .unwrap_err()
            .to_string()
    };
    assert!(error("{").starts_with("m.json: not JSON"));
    assert!(error("{}").contains("no format"));
    assert!(error(r#"{"format":"other/1"}"#).contains("'other/1'"));
    assert!(error(r#"{"format":"jostle-wrangler/2"}"#).contains("newer jostle"));
    assert!(error(r#"{"format":"jostle-wrangler/1"}"#).contains("missing field"));
    let model = trained(
        &windows(300, 1, |disk, _| step(disk > 0.5)),
        TrainingOptions::default(),
    );
    let narrower = model.to_json().replacen("\"disk\",\n", "", 1);
    assert!(
        error(&narrower).contains("not of 2 features"),
        "{}",
        error(&narrower)
    );
}

#[test]
fn equal_seeds_give_equal_models() {
    let text = windows(900, 2, |disk, _| disk);
    let options = TrainingOptions::default();
    assert_eq!(trained(&text, options), trained(&text, options));
}

#[test]
fn too_little_data_is_said_instead_of_a_number() {
    let mut text = windows(300, 1, |disk, _| step(disk > 0.5));
    text += "rare,0.5,0.5,0.5,1\n";
    let model = trained(&text, TrainingOptions::default());
    let rare = model
        .report()
        .pairs
        .iter()
        .find(|it| it.node == "rare")
        .unwrap();
    assert!(
        rare.separate
            .reason()
            .unwrap()
            .starts_with("too little data"),
        "{rare:?}"
    );
    assert!(
        rare.shared.reason().unwrap().starts_with("too little data"),
        "{rare:?}"
    );
    assert!(rare.always_not_slow.value().is_none());
    // What all share stands in.
    assert_eq!(rare.used, Used::Shared);
}

#[test]
fn data_that_cannot_teach_is_refused() {
    let error = |text: &str, options: TrainingOptions| {
        train_on_text(text, "w.csv", options)
            .unwrap_err()
            .to_string()
    };
    let options = TrainingOptions::default();
    assert_eq!(
        error(&windows(12, 1, |_, _| 0.5), options),
        "w.csv: 12 windows are too few to learn from; at least 30 are needed"
    );
    assert!(error(&windows(90, 1, |_, _| 0.0), options).contains("none is slow"));
    assert!(error(&windows(90, 1, |_, _| 1.0), options).contains("every one is slow"));
    assert!(error("node,a,straggler\n", options).contains("0 windows are too few"));
    let sure = TrainingOptions {
        confidence: Confidence::Above(1.5),
        ..options
    };
    assert!(error(&windows(90, 1, |disk, _| disk), sure).contains("at least 0.5 and below 1"));
    let missing = train(&["/no/such/windows.csv"], options)
        .unwrap_err()
        .to_string();
    assert!(missing.starts_with("cannot read /no/such/windows.csv"));
}

/// Generous: without optimization beside other tests.
const TRAINING_LIMIT: Duration = Duration::from_secs(120);

#[test]
fn a_hundred_thousand_windows_do_not_take_long() {
    let noisy = |disk: f64, network: f64| 0.2 + 0.6 * step(disk + network > 1.0);
    let text = windows(100_000, 4, noisy);
    let began = Instant::now();
    let model = trained(&text, TrainingOptions::default());
    assert!(began.elapsed() < TRAINING_LIMIT, "{:?}", began.elapsed());
    assert!(shared(&model).helps);
}
