//! Colocation quality by hand, and F(x) = x^R.

use super::*;
use crate::cluster::Node;
use crate::predict::Responses;
use crate::predict::lane;
use std::collections::BTreeMap;
use std::sync::Arc;

fn app(terms: &[(&str, Option<f64>, Option<f64>)]) -> App {
    let mut app = App::bare("app", Responses::default());
    for (id, tolerated, caused) in terms {
        app.set_scores(lane(id).unwrap(), *tolerated, *caused);
    }
    app
}

fn cluster_of(residents: impl IntoIterator<Item = App>) -> Cluster {
    let residents: Vec<App> = residents.into_iter().collect();
    let nodes = (0..residents.len()).map(|index| Node {
        name: format!("n{index}"),
        cpus: 2 + index as u32 % 3,
        memory_bytes: 1 << 30,
        platform: None,
        shares_cpus: false,
    });
    let mut cluster = Cluster::new(nodes).unwrap();
    let ids: Vec<NodeId> = cluster.ids().collect();
    for (node, resident) in ids.into_iter().zip(residents) {
        cluster.admit(node, Arc::new(resident)).unwrap();
    }
    cluster
}

/// Quality of a node whose resident tolerates `t` (points) on two resources
/// for a newcomer that causes `c` there.
fn quality(t: [f64; 2], c: [f64; 2]) -> f64 {
    let ids = ["llc-capacity", "memory-bandwidth"];
    let resident = app(&[0, 1].map(|i| (ids[i], Some(t[i]), Some(0.0))));
    let new = app(&[0, 1].map(|i| (ids[i], Some(100.0), Some(c[i]))));
    let cluster = cluster_of([resident]);
    let node = cluster.ids().next().unwrap();
    colocation_quality(&new, cluster.summary(node)).unwrap()
}

#[test]
fn quality_by_hand() {
    // Σ|t − c| / 2 of (0.3, 0.1) is 0.2, the sum is positive: (1 + 0.8) / 2.
    assert!((quality([50.0, 30.0], [20.0, 20.0]) - 0.9).abs() < 1e-12);
    // (−0.3, 0.1): the same size, the sum is negative: (1 − 0.8) / 2.
    assert!((quality([20.0, 30.0], [50.0, 20.0]) - 0.1).abs() < 1e-12);
    // A perfect fit.
    assert_eq!(quality([20.0, 30.0], [20.0, 30.0]), 1.0);
    // As loose as can be, and as bad.
    assert_eq!(quality([100.0, 100.0], [0.0, 0.0]), 0.5);
    assert_eq!(quality([0.0, 0.0], [100.0, 100.0]), 0.5);
}

#[test]
fn what_is_not_known_is_left_out_of_the_quality() {
    let resident = app(&[
        ("llc-capacity", Some(50.0), None),
        ("memory-bandwidth", None, Some(90.0)),
        ("storage-bandwidth", Some(10.0), Some(10.0)),
    ]);
    let cluster = cluster_of([resident]);
    let summary = cluster.summary(cluster.ids().next().unwrap());
    let known = app(&[
        ("llc-capacity", None, Some(30.0)),
        ("memory-bandwidth", None, Some(30.0)),
        ("storage-bandwidth", Some(40.0), None),
    ]);
    // Only the LLC: 1 − 0.2 / 1.
    assert!((colocation_quality(&known, summary).unwrap() - 0.9).abs() < 1e-12);
    let nothing = app(&[("memory-bandwidth", Some(5.0), Some(30.0))]);
    assert_eq!(colocation_quality(&nothing, summary), None);
}

#[test]
fn sample_sizes() {
    assert_eq!(sample_size(0.001, 0.9), Ok(66));
    assert_eq!(sample_size(1e-6, 0.9), Ok(132));
    assert_eq!(sample_size(1e-3, 0.8), Ok(31));
    // 0.1³ is exactly 0.001.
    assert_eq!(sample_size(0.001, 0.1), Ok(3));
    assert_eq!(sample_size(0.9, 0.1), Ok(1));
    for (p, q) in [
        (0.0, 0.9),
        (1.0, 0.9),
        (0.1, 0.0),
        (0.1, 1.0),
        (f64::NAN, 0.5),
        (-1.0, 0.5),
    ] {
        let error = sample_size(p, q).unwrap_err();
        assert!(error.to_string().contains("between 0 and 1"), "{error}");
    }
    let error = sample_size(0.001, 1.0 - 1e-15).unwrap_err();
    assert!(matches!(error, SampleSizeError::TooMany { .. }), "{error}");
    assert_eq!(
        ParagonSampled::new(sample_size(0.001, 0.9).unwrap(), 1).servers(),
        66
    );
    assert_eq!(ParagonSampled::seeded(1).servers(), 66);
}

proptest::proptest! {
    /// R is the least count with q^R ≤ p.
    #[test]
    fn the_sample_is_as_large_as_needed_and_no_larger(p in 1e-9..0.999f64, q in 1e-3..0.999f64) {
        let count = f64::from(sample_size(p, q).unwrap());
        proptest::prop_assert!(q.powf(count) <= p * (1.0 + 1e-6));
        proptest::prop_assert!(count == 1.0 || q.powf(count - 1.0) > p * (1.0 - 1e-6));
    }
}

const SERVERS: usize = 2_000;
const DECISIONS: usize = 2_000;

/// Shares of servers that are no better than the one chosen, over many
/// decisions on one cluster.
fn shares(draws: u32) -> Vec<f64> {
    // Tolerances from 20 to 99.96 points, all different, so qualities are too.
    let residents = (0..SERVERS).map(|index| {
        let tolerated = 20.0 + 0.04 * (index * 7 % SERVERS) as f64;
        app(&[("llc-capacity", Some(tolerated), Some(1.0))])
    });
    let cluster = cluster_of(residents);
    let new = Arc::new(app(&[("llc-capacity", Some(50.0), Some(45.0))]));
    let mut by_quality: Vec<(f64, NodeId)> = cluster
        .ids()
        .map(|node| {
            (
                colocation_quality(&new, cluster.summary(node)).unwrap(),
                node,
            )
        })
        .collect();
    // Two servers as far above c as below it are of opposite sign; none tie.
    by_quality.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rank: BTreeMap<NodeId, usize> = (1..)
        .zip(&by_quality)
        .map(|(rank, (_, node))| (*node, rank))
        .collect();
    let mut policy = ParagonSampled::new(draws, 42);
    (0..DECISIONS)
        .map(
            |_| match policy.choose(&PlacementRequest::of(&new), &cluster) {
                Decision::Place(choice) => {
                    assert_eq!(choice.examined, draws);
                    rank[&choice.node()] as f64 / SERVERS as f64
                }
                answer => panic!("{answer:?} although there is room"),
            },
        )
        .collect()
}

/// The largest distance between the distribution of `shares` and x^`exponent`.
/// Shares are whole ranks, so both are compared at these; with whole ranks the
/// usual critical values are on the safe side (too rarely exceeded).
fn kolmogorov_smirnov(shares: &[f64], exponent: f64) -> f64 {
    let mut at_rank = vec![0usize; SERVERS + 1];
    for share in shares {
        at_rank[(share * SERVERS as f64).round() as usize] += 1;
    }
    let mut below = 0;
    let mut largest = 0.0f64;
    for (rank, count) in at_rank.iter().enumerate() {
        below += count;
        let expected = (rank as f64 / SERVERS as f64).powf(exponent);
        let observed = below as f64 / shares.len() as f64;
        largest = largest.max((observed - expected).abs());
    }
    largest
}

#[test]
fn the_best_of_r_is_distributed_as_x_to_the_r() {
    // Exceeded with chance 0.01: 1.628 / √n.
    let critical = 1.628 / (DECISIONS as f64).sqrt();
    for draws in [8, 16, 32, 64] {
        let shares = shares(draws);
        let r = f64::from(draws);
        let right = kolmogorov_smirnov(&shares, r);
        assert!(right < critical, "R = {draws}: {right} ≥ {critical}");
        // The test tells a wrong exponent from the right one.
        for wrong in [r * 0.8, r * 1.25] {
            let distance = kolmogorov_smirnov(&shares, wrong);
            assert!(distance > critical, "R = {draws}, {wrong}: {distance}");
        }
    }
}

#[test]
fn few_with_room_are_found_and_equal_seeds_draw_equally() {
    let full = (0..500).map(|_| app(&[]).with_demand(2, 0));
    let mut cluster = cluster_of(full);
    // Only nodes of more than two CPUs have room; allow one of them.
    let one = cluster.ids().nth(301).unwrap();
    let allowed = [one].into_iter().collect();
    let new = Arc::new(app(&[]).with_demand(1, 0));
    let request = PlacementRequest {
        allowed: Some(&allowed),
        ..PlacementRequest::of(&new)
    };
    let Decision::Place(choice) = ParagonSampled::seeded(3).choose(&request, &cluster) else {
        panic!("one has room");
    };
    assert_eq!((choice.node(), choice.examined), (one, 66));
    cluster.take_down(one);
    let answer = ParagonSampled::seeded(3).choose(&request, &cluster);
    assert_eq!(answer, Decision::Wait(Waiting::NoRoom, None));

    let run = |seed| {
        let mut policy = ParagonSampled::new(3, seed);
        let request = PlacementRequest::of(&new);
        let nodes: Vec<NodeId> = (0..50)
            .map(|_| match policy.choose(&request, &cluster) {
                Decision::Place(choice) => choice.node(),
                answer => panic!("{answer:?}"),
            })
            .collect();
        nodes
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
