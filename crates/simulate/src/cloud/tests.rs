use super::*;
use crate::error::ScenarioError;
use crate::scenario::ScenarioFile;
use jostle_schedule::provision::Prices;
use jostle_schedule::provision::Strategy;
use std::path::Path;

const HIGH: &str = include_str!("../../../../scripts/scenarios/hcloud-high.toml");
const LOW: &str = include_str!("../../../../scripts/scenarios/hcloud-low.toml");
const STATIC: &str = include_str!("../../../../scripts/scenarios/hcloud-static.toml");

/// Half an hour with a surge.
fn short() -> CloudScenario {
    CloudScenario {
        load: vec![
            [0.0, 60.0],
            [8.0, 60.0],
            [10.0, 300.0],
            [14.0, 300.0],
            [16.0, 60.0],
            [30.0, 60.0],
        ],
        ..CloudScenario::default()
    }
}

fn parse(text: &str) -> Result<CloudScenario, ScenarioError> {
    match ScenarioFile::parse(Path::new("s.toml"), text)? {
        ScenarioFile::Cloud(scenario) => Ok(*scenario),
        other => panic!("{other:?} is no cloud"),
    }
}

fn of(outcome: &CloudOutcome, strategy: Strategy, known: bool) -> &StrategyOutcome {
    let mut those = outcome.strategies.iter();
    those
        .find(|o| o.strategy == strategy && o.with_profiles == known)
        .unwrap()
}

#[test]
fn the_papers_scenarios_are_read_and_the_manual_names_the_defaults() {
    let parsed = |text: &str| parse(text).unwrap();
    let high = parsed(HIGH);
    let defaults = CloudScenario {
        name: high.name.clone(),
        load: high.load.clone(),
        ..CloudScenario::default()
    };
    assert_eq!(high, defaults);
    assert_eq!(high.span(), (210.0, 1226.0));
    assert_eq!(parsed(LOW).span(), (605.0, 900.0));
    let points = parsed(STATIC);
    let (least, most) = points.span();
    assert!((most / least - 1.1).abs() < 0.01);
}

#[test]
fn equal_seeds_give_equal_outcomes_and_no_job_is_lost() {
    let scenario = short();
    let outcome = scenario.run(7).unwrap();
    assert_eq!(outcome, scenario.run(7).unwrap());
    assert_ne!(outcome.strategies, scenario.run(8).unwrap().strategies);
    assert_eq!(outcome.strategies.len(), 10);
    let jobs = outcome.strategies[0].jobs;
    assert!(jobs > 100, "{jobs}");
    for strategy in &outcome.strategies {
        assert_eq!(strategy.jobs, jobs, "{strategy:?}");
        assert!(strategy.performance <= strategy.performance_running + 1e-12);
        assert!((0.0..=1.0 + 1e-9).contains(&strategy.performance_running));
        assert!(strategy.on_demand_peak <= strategy.on_demand_instances);
        assert!(strategy.makespan_minutes >= 30.0);
    }
}

#[test]
fn what_each_strategy_rents_and_pays() {
    let outcome = short().run(3).unwrap();
    let sr = of(&outcome, Strategy::StaticReserved, true);
    // 300 vCPUs and an eighth more: 337.5, on 22 machines, at 1 per vCPU-hour.
    assert_eq!(sr.reserved_instances, 22);
    assert_eq!(sr.on_demand_instances, 0);
    let hours = sr.makespan_minutes / 60.0;
    assert!((sr.cost - 352.0 * hours).abs() < 1e-9 * sr.cost, "{sr:?}");
    assert_eq!(sr.cost_vs_sr, Some(1.0));
    for strategy in [Strategy::HybridFull, Strategy::HybridMixed] {
        let hybrid = of(&outcome, strategy, true);
        assert_eq!(hybrid.reserved_instances, 4, "the least load is 60");
        assert!(hybrid.on_demand_instances > 0);
        assert!(hybrid.cost < of(&outcome, Strategy::OnDemandFull, true).cost);
    }
    let odf = of(&outcome, Strategy::OnDemandFull, true);
    assert_eq!(
        (odf.reserved_instances, odf.reserved_utilization),
        (0, None)
    );
    // At most one at a time per job at once; surely fewer than rented by size.
    let odm = of(&outcome, Strategy::OnDemandMixed, true);
    assert!(odf.on_demand_peak < odm.on_demand_peak);
    // At the peak 300 vCPUs are busy, which takes 19 machines.
    assert!(odf.on_demand_peak >= 19, "{odf:?}");
}

#[test]
fn small_instances_suffer_from_strangers_and_whole_machines_do_not() {
    let quiet = CloudScenario {
        external: External {
            mean: 0.0,
            swing: 0.0,
            ..External::default()
        },
        with_profiles: vec![true],
        ..short()
    };
    let loud = CloudScenario {
        external: External::default(),
        ..quiet.clone()
    };
    let (quiet, loud) = (quiet.run(5).unwrap(), loud.run(5).unwrap());
    let running = |outcome: &CloudOutcome, s| of(outcome, s, true).performance_running;
    let mixed = Strategy::OnDemandMixed;
    assert!(running(&quiet, mixed) > 0.99, "{quiet:?}");
    assert!(running(&loud, mixed) < running(&quiet, mixed) - 0.03);
    let sr = Strategy::StaticReserved;
    assert_eq!(running(&quiet, sr), running(&loud, sr));
    // Hybrids keep those who would suffer off the small ones.
    let hm = of(&loud, Strategy::HybridMixed, true);
    let odm = of(&loud, mixed, true);
    assert!(hm.service_performance > odm.service_performance);
    assert!(hm.poor_share < odm.poor_share, "{hm:?} {odm:?}");
}

#[test]
fn a_higher_price_costs_more_and_changes_nothing_else() {
    let cheap = short();
    let dear = CloudScenario {
        prices: Prices {
            on_demand_ratio: 5.48,
            ..Prices::default()
        },
        ..short()
    };
    let (cheap, dear) = (cheap.run(1).unwrap(), dear.run(1).unwrap());
    let odf = Strategy::OnDemandFull;
    let (a, b) = (of(&cheap, odf, true), of(&dear, odf, true));
    assert!((b.cost / a.cost - 2.0).abs() < 1e-12);
    assert_eq!(a.performance, b.performance);
    assert!(b.break_even_weeks < a.break_even_weeks || a.break_even_weeks.is_none());
}

#[test]
fn every_mapping_and_a_policy_by_name_run() {
    for mapping in ["P1", "P2", "P3", "P4", "P5", "P6", "P7", "dynamic"] {
        let scenario = CloudScenario {
            mapping: mapping.into(),
            placement: "ibench-l1".into(),
            strategies: vec![Strategy::HybridMixed],
            load: vec![[0.0, 40.0], [3.0, 120.0], [6.0, 40.0]],
            ..CloudScenario::default()
        };
        let outcome = scenario.run(1).unwrap();
        assert!(outcome.strategies.iter().all(|o| o.jobs > 20), "{mapping}");
        assert_eq!(outcome.strategies[0].cost_vs_sr, None, "SR was not run");
    }
}

#[test]
fn errors_name_file_line_key_and_fix() {
    let error = |text: &str| {
        parse(&format!("kind = 'cloud'\n{text}"))
            .unwrap_err()
            .to_string()
    };
    let load = "load = [[0, 10], [9, 20]]\n";
    assert!(error("").starts_with("s.toml: key `load`: holds fewer than two points"));
    assert!(error("loud = 1\n").starts_with("s.toml, line 2: unknown field `loud`"));
    assert_eq!(
        error(&format!("{load}qos = 1.5\n")),
        "s.toml, line 3: key `qos`: is 1.5; write a number from 0.01 to 1"
    );
    assert!(error("\nload = [[0, 10], [0, 20]]").contains("line 3: key `load`: its minutes"));
    assert!(error("load = [[0, -1], [1, 20]]").contains("is -1; write a number from 1"));
    assert!(error("load = [[0, nan], [1, 20]]").contains("key `load`: is NaN"));
    assert!(error(&format!("{load}strategies = ['XY']")).contains("unknown variant `XY`"));
    assert!(error(&format!("{load}strategies = []")).contains("name some of SR, OdF"));
    assert!(error(&format!("{load}with_profiles = []")).contains("line 3: key `with_profiles`"));
    assert!(error(&format!("{load}mapping = 'P9'")).contains("write dynamic or P1 to P7"));
    assert!(error(&format!("{load}placement = 'best'")).contains("write greedy or one of"));
    assert!(error(&format!("{load}batch_sizes = [0, 0, 0, 0, 0]")).contains("all are 0"));
    assert_eq!(
        error(&format!("{load}[prices]\non_demand_ratio = -2\n")),
        "s.toml, line 4: key `prices.on_demand_ratio`: is -2; write a number from 0.001 to 1000000"
    );
    assert!(error(&format!("{load}[spin_up]\nusual_seconds = [9, 3]")).contains("is 3; write"));
}
