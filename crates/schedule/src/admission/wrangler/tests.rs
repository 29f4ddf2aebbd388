use super::*;
use crate::cluster::Node;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use std::fmt::Write;

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

/// Stragglers found, of all stragglers; `None` when there was none.
fn found(confusion: &Confusion) -> Option<f64> {
    share(confusion.true_positives, confusion.false_negatives)
}

/// Others taken for stragglers, of all others; `None` when there was none.
fn false_alarms(confusion: &Confusion) -> Option<f64> {
    share(confusion.false_positives, confusion.true_negatives)
}

fn share(part: u32, rest: u32) -> Option<f64> {
    let all = part + rest;
    (all > 0).then(|| f64::from(part) / f64::from(all))
}

fn trained(text: &str, options: WranglerOptions) -> Wrangler {
    Wrangler::parse(text, "windows.csv", options).unwrap()
}

fn cluster(nodes: usize) -> Cluster {
    Cluster::new((0..nodes).map(|n| Node {
        name: format!("n{n}"),
        cpus: 4,
        memory_bytes: 0,
        platform: None,
        shares_cpus: false,
    }))
    .unwrap()
}

fn ids(cluster: &Cluster) -> Vec<NodeId> {
    cluster.ids().collect()
}

#[test]
fn what_can_be_separated_is() {
    let line = |disk: f64, network: f64| f64::from(u8::from(disk + network > 1.3));
    let wrangler = trained(&windows(3000, 3, line), WranglerOptions::default());
    let report = &wrangler.report().groups[0];
    assert_eq!((report.trained_on, report.tested_on), (2000, 1000));
    // Weighting up the rare class moves the sign's border towards the others;
    // the calibrated probability puts it right.
    assert!(found(&report.predicted).unwrap() > 0.99, "{report:?}");
    assert!(false_alarms(&report.predicted).unwrap() < 0.1, "{report:?}");
    assert!(found(&report.confident).unwrap() > 0.95, "{report:?}");
    assert!(
        false_alarms(&report.confident).unwrap() < 0.01,
        "{report:?}"
    );
    assert!(report.brier < 0.02, "{report:?}");
    let node = ids(&cluster(1))[0];
    assert!(wrangler.probability(node, &[0.9, 0.9, 0.5]).unwrap() > 0.95);
    assert!(wrangler.probability(node, &[0.2, 0.2, 0.5]).unwrap() < 0.05);
}

#[test]
fn probabilities_are_calibrated_on_noisy_and_unbalanced_data() {
    let chance = |disk: f64, network: f64| 1.0 / (1.0 + (7.5 - 5.0 * (disk + network)).exp());
    let text = windows(12_000, 1, chance);
    let wrangler = trained(&text, WranglerOptions::default());
    let report = &wrangler.report().groups[0];
    assert!(report.base_rate < 0.3, "{report:?}");
    assert!(
        report.brier < 0.9 * report.brier_of_base_rate,
        "no better than the base rate: {report:?}"
    );
    // Reliability on the last third: in every fifth of confidence with enough
    // windows, as many stragglers as foretold, within 0.05 or three standard
    // errors.
    let node = ids(&cluster(1))[0];
    let parsed = Windows::parse(&text, "w").unwrap();
    let mut bins = [(0.0, 0.0, 0.0); 5];
    for window in &parsed.windows[8000..] {
        let p = wrangler.probability(node, &window.counters).unwrap();
        let bin = &mut bins[((p * 5.0) as usize).min(4)];
        *bin = (
            bin.0 + 1.0,
            bin.1 + p,
            bin.2 + f64::from(u8::from(window.straggler)),
        );
    }
    let looked_at = bins.iter().filter(|(count, ..)| *count >= 100.0);
    let mut bins_seen = 0;
    for (count, foretold, came) in looked_at {
        bins_seen += 1;
        let rate = came / count;
        let chance = 3.0 * (rate * (1.0 - rate) / count).sqrt();
        assert!(
            (foretold / count - rate).abs() < chance.max(0.05),
            "{bins:?}"
        );
    }
    assert!(bins_seen >= 3, "{bins:?}");
}

#[test]
fn nothing_to_learn_gives_no_veto() {
    for confidence in [Confidence::Above(0.7), Confidence::Tuned] {
        let options = WranglerOptions {
            confidence,
            ..WranglerOptions::default()
        };
        let mut wrangler = trained(&windows(3000, 1, |_, _| 0.3), options);
        let report = wrangler.report().groups[0].clone();
        assert_eq!(report.confident.true_positives, 0, "{report:?}");
        assert_eq!(report.confident.false_positives, 0, "{report:?}");
        let node = ids(&cluster(1))[0];
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for job in 0..1000 {
            let counters = [(); 3].map(|()| rng.random::<f32>());
            assert!(wrangler.accept(job, node, &counters, 0.0), "{counters:?}");
        }
    }
}

#[test]
fn vetoes_where_it_is_sure_and_gives_in_at_the_cap() {
    let line = |disk: f64, _| f64::from(u8::from(disk > 0.8));
    let mut wrangler = trained(&windows(2000, 1, line), WranglerOptions::default());
    let node = ids(&cluster(1))[0];
    let (bad, good) = ([0.99, 0.5, 0.5], [0.1, 0.5, 0.5]);
    assert!(wrangler.accept(1, node, &good, 0.0));
    let answers: Vec<bool> = (0..4)
        .map(|_| wrangler.accept(1, node, &bad, 0.0))
        .collect();
    assert_eq!(answers, [false, false, false, true]);
    // What cannot be read is not held against the node.
    assert_eq!(wrangler.probability(node, &[0.99]), None);
    assert!(wrangler.accept(2, node, &[0.99], 0.0));
    assert!(wrangler.accept(2, node, &[f32::NAN, 0.5, 0.5], 0.0));
}

#[test]
fn nodes_with_enough_windows_have_a_model_of_their_own() {
    let mut text = String::from("node,disk,straggler\n");
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for at in 0..1800 {
        let disk = rng.random::<f64>();
        // On n0 a busy disk means stragglers, on n1 an idle one; n2 is rare.
        let (node, straggler) = match at % 9 {
            0..4 => ("n0", disk > 0.7),
            4..8 => ("n1", disk < 0.3),
            _ => ("n2", disk > 0.7),
        };
        writeln!(text, "{node},{disk},{}", u8::from(straggler)).unwrap();
    }
    let mut wrangler = trained(&text, WranglerOptions::default());
    let names: Vec<&str> = wrangler
        .report()
        .groups
        .iter()
        .map(|group| group.group.as_str())
        .collect();
    assert_eq!(names, ["all", "n0", "n1"]);
    assert_eq!(
        wrangler.report().shared,
        [(
            "n2".to_string(),
            "200 windows, 300 are needed for a model of its own".to_string()
        )]
    );
    let cluster = cluster(3);
    assert!(wrangler.next(0.0, &cluster).is_none());
    let nodes = ids(&cluster);
    assert!(wrangler.probability(nodes[0], &[0.95]).unwrap() > 0.8);
    assert!(wrangler.probability(nodes[1], &[0.95]).unwrap() < 0.2);
    assert!(wrangler.probability(nodes[1], &[0.05]).unwrap() > 0.8);
}

#[test]
fn an_explanation_covers_three_quarters() {
    let line = |disk: f64, network: f64| f64::from(u8::from(disk + 0.3 * network > 0.9));
    let wrangler = trained(&windows(3000, 1, line), WranglerOptions::default());
    let node = ids(&cluster(1))[0];
    let because = wrangler.explain(node, &[1.0, 0.5, 0.5]);
    assert_eq!(because[0].counter, "disk");
    let covered: f64 = because.iter().map(|share| share.share).sum();
    assert!((0.75..=1.0).contains(&covered), "{because:?}");
    let without_last = covered - because.last().unwrap().share;
    assert!(without_last < 0.75, "{because:?}");
    assert!(because.iter().all(|share| share.counter != "noise"));
}

#[test]
fn equal_seeds_give_equal_models() {
    let text = windows(900, 2, |disk, _| disk);
    let options = WranglerOptions::default();
    assert_eq!(trained(&text, options).all, trained(&text, options).all);
}

#[test]
fn the_order_of_jobs_is_the_inner_admissions() {
    let mut wrangler = trained(&windows(90, 1, |disk, _| disk), WranglerOptions::default());
    wrangler.inner = Box::new(crate::admission::Arq::default());
    assert_eq!(wrangler.waiting(), 0);
    assert_eq!(wrangler.name(), "wrangler");
    assert!(wrangler.next(0.0, &cluster(1)).is_none());
}

#[test]
fn data_that_cannot_teach_is_refused() {
    let error = |text: &str, options: WranglerOptions| match Wrangler::parse(text, "w.csv", options)
    {
        Ok(_) => panic!("learned from nothing"),
        Err(error) => error.to_string(),
    };
    let options = WranglerOptions::default();
    assert_eq!(
        error(&windows(12, 1, |_, _| 0.5), options),
        "w.csv: 12 windows are too few to learn from; at least 30 are needed"
    );
    assert!(error(&windows(90, 1, |_, _| 0.0), options).contains("none is a straggler"));
    assert!(error(&windows(90, 1, |_, _| 1.0), options).contains("every one is a straggler"));
    let sure = WranglerOptions {
        confidence: Confidence::Above(1.5),
        ..options
    };
    assert!(error(&windows(90, 1, |disk, _| disk), sure).contains("at least 0.5 and below 1"));
    let missing = Wrangler::load(Path::new("/no/such/windows.csv"), options);
    assert!(
        missing
            .err()
            .unwrap()
            .to_string()
            .starts_with("cannot read /no/such/windows.csv")
    );
}
