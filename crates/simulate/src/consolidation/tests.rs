use super::*;

fn outcome(outcome: &ConsolidationOutcome, scheme: Scheme) -> &SchemeOutcome {
    outcome
        .schemes
        .iter()
        .find(|candidate| candidate.scheme == scheme)
        .unwrap()
}

fn brief() -> ConsolidationScenario {
    ConsolidationScenario {
        days: 2,
        ..ConsolidationScenario::default()
    }
}

#[test]
fn the_papers_cluster() {
    let scenario = ConsolidationScenario::default();
    assert_eq!(
        scenario.nodes.iter().map(|kind| kind.count).sum::<usize>(),
        40
    );
    assert_eq!(
        scenario.apps.iter().map(|app| app.instances).sum::<usize>(),
        40
    );
    assert_eq!((scenario.apps.len(), scenario.per_day()), (10, 48));
    scenario.check().unwrap();
}

#[test]
fn equal_seeds_equal_outcomes() {
    let scenario = ConsolidationScenario {
        schemes: vec![Scheme::Bloc],
        days: 1,
        ..ConsolidationScenario::default()
    };
    assert_eq!(scenario.run(5).unwrap(), scenario.run(5).unwrap());
    assert_ne!(scenario.run(5).unwrap(), scenario.run(6).unwrap());
}

#[test]
fn without_neighbours_nothing_is_lost() {
    let run = brief().run(1).unwrap();
    let alone = outcome(&run, Scheme::OneEach);
    assert_eq!(alone.active_share, 1.0);
    assert!((alone.energy_factor - 1.0).abs() < 1e-12);
    assert!(alone.mean_performance > 0.995, "{alone:?}");
    assert_eq!((alone.migrations, alone.initially_moved_gb), (0, 0.0));
}

#[test]
fn mean_demand_is_what_was_asked_for() {
    let scenario = ConsolidationScenario {
        demand_noise: 0.0,
        spike_chance: 0.0,
        ..ConsolidationScenario::default()
    };
    let scene = scene::Scene::draw(&scenario, 1);
    for (instance, demand) in scene.instances.iter().zip(&scene.demand) {
        let app = &scenario.apps[instance.app];
        let mean = demand.iter().sum::<f64>() / demand.len() as f64;
        assert!(
            (mean / app.bandwidth_mb_per_s - 1.0).abs() < 1e-9,
            "{}",
            app.name
        );
        let peak = demand.iter().copied().fold(0.0, f64::max);
        let ratio = peak / app.bandwidth_mb_per_s;
        assert!(
            (ratio - app.peak_over_mean).abs() < 0.01,
            "{}: {ratio}",
            app.name
        );
        assert!(demand.iter().all(|demand| *demand >= 0.0));
    }
}

#[test]
fn mirrors_err_as_much_as_they_should() {
    let scenario = ConsolidationScenario {
        history_days: 1,
        days: 1,
        ..ConsolidationScenario::default()
    };
    let errors = (0..100).map(|seed| scene::Scene::draw(&scenario, seed).mirror_error());
    let mean = errors.sum::<f64>() / 100.0;
    assert!((mean - 0.038).abs() < 0.003, "{mean}");
}

#[test]
fn the_scenario_file_says_the_defaults() {
    let text = include_str!("../../../../scripts/scenarios/consolidation.toml");
    let mut table: toml::Table = toml::from_str(text).unwrap();
    assert_eq!(
        table.remove("kind").unwrap().as_str(),
        Some("consolidation")
    );
    let scenario: ConsolidationScenario = table.try_into().unwrap();
    assert_eq!(scenario, ConsolidationScenario::default());
}

#[test]
fn the_papers_order() {
    let mut factors = [0.0; 3];
    for seed in 0..3 {
        let scenario = ConsolidationScenario {
            schemes: vec![Scheme::Capacity, Scheme::BMax, Scheme::BDyn, Scheme::Bloc],
            ..brief()
        };
        let run = scenario.run(seed).unwrap();
        let of = |scheme| outcome(&run, scheme);
        let (bloc, max) = (of(Scheme::Bloc), of(Scheme::BMax));
        let (dynamic, capacity) = (of(Scheme::BDyn), of(Scheme::Capacity));
        // Capacity alone saves most and costs most.
        assert!(capacity.mean_performance < bloc.mean_performance - 0.1);
        for scheme in [bloc, max, dynamic] {
            assert!(scheme.mean_performance > 0.9, "{scheme:?}");
            assert!(scheme.energy_factor > 1.0);
        }
        assert!(bloc.migration_bandwidth_share < 0.1, "{bloc:?}");
        assert!(bloc.migrations > 0 && max.migrations == 0);
        for (sum, scheme) in factors.iter_mut().zip([max, dynamic, bloc]) {
            *sum += scheme.energy_factor / 3.0;
        }
    }
    // Adapting saves what provisioning for the peak does not. That pieces save
    // more than whole instances do, as in the paper, is not so here.
    let [max, dynamic, bloc] = factors;
    assert!(1.2 * max < dynamic && 1.2 * max < bloc, "{factors:?}");
}

#[test]
fn parameters_that_cannot_be_are_named() {
    let with = |change: fn(&mut ConsolidationScenario)| {
        let mut scenario = ConsolidationScenario::default();
        change(&mut scenario);
        scenario.run(1).unwrap_err().key
    };
    assert_eq!(with(|s| s.nodes.clear()), "nodes");
    assert_eq!(with(|s| s.apps.clear()), "apps");
    assert_eq!(with(|s| s.apps[0].instances = 50), "apps");
    assert_eq!(with(|s| s.schemes.clear()), "schemes");
    assert_eq!(with(|s| s.interval_minutes = 7), "interval_minutes");
    assert_eq!(with(|s| s.pieces = 0), "pieces");
    assert_eq!(with(|s| s.demand_noise = f64::NAN), "demand_noise");
    assert_eq!(
        with(|s| s.nodes[1].capacity_gb = -1.0),
        "nodes[1].capacity_gb"
    );
    assert_eq!(
        with(|s| s.apps[2].size_gb = [5.0, 4.0]),
        "apps[2].size_gb[1]"
    );
    let unknown = toml::from_str::<ConsolidationScenario>("dayz = 3").unwrap_err();
    assert!(unknown.to_string().contains("dayz"));
}
