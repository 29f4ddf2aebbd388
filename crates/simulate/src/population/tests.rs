use super::*;
use crate::hardware::ServerType;
use crate::hardware::hardware;
use crate::truth::TrueCurve;
use crate::truth::TruePlatform;
use jostle_schedule::predict::lane;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

fn papers_pool(seed: u64) -> (Vec<Member>, Vec<ServerType>) {
    let types = hardware("paragon-40").unwrap().types.to_vec();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let pools = CLASSES[..4].iter().map(|kind| pool(kind, &types, &mut rng));
    (pools.flatten().collect(), types)
}

#[test]
fn the_pool_is_the_papers() {
    let (members, types) = papers_pool(1);
    assert_eq!(members.len(), 29 + 22 + 350 + 25);
    for member in &members {
        assert_eq!(member.app.speed.len(), types.len());
        let best = member.app.speed.iter().copied().fold(0.0, f32::max);
        assert_eq!(best, 1.0);
        for curve in &member.app.curves {
            assert!(shared().contains(curve.lane()));
            assert_eq!(curve.at(0.0), 0.0);
        }
    }
}

/// What each of `members` keeps on a server of `platform` where all of them run.
fn kept(members: &[&Member], platform: &TruePlatform) -> Vec<f64> {
    (0..members.len())
        .map(|me| {
            let mut ln = 0.0;
            for curve in &members[me].app.curves {
                let lane = curve.lane();
                let others: f32 = (0..members.len())
                    .filter(|other| *other != me)
                    .map(|other| members[other].app.caused[lane])
                    .sum();
                ln += curve.at(others * platform.pressure_scale[lane]);
            }
            f64::from(ln).exp()
        })
        .collect()
}

/// A quarter of the jobs of each class, at random, onto every server until
/// nothing more fits; what those keep that are not alone.
fn packed(seed: u64) -> Vec<f64> {
    let (members, types) = papers_pool(seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed + 100);
    let mut all = Vec::new();
    for kind in &types {
        for _ in 0..kind.count {
            let (mut here, mut free) = (Vec::new(), kind.cpus);
            for _ in 0..50 {
                let class = rng.random_range(0..4);
                let names = CLASSES[class].name;
                let of: Vec<&Member> = members
                    .iter()
                    .filter(|member| member.app.name.starts_with(names))
                    .collect();
                let member = of[rng.random_range(0..of.len())];
                if member.demand.cpus <= free {
                    free -= member.demand.cpus;
                    here.push(member);
                }
            }
            if here.len() > 1 {
                all.extend(kept(&here, &kind.platform()));
            }
        }
    }
    all
}

#[test]
fn a_cluster_packed_at_random_hurts() {
    let all: Vec<f64> = (1..=5).flat_map(packed).collect();
    let share = |low: f64, high: f64| {
        let inside = all
            .iter()
            .filter(|kept| (low..high).contains(*kept))
            .count();
        inside as f64 / all.len() as f64
    };
    let lost_10_to_60 = share(0.4, 0.9);
    eprintln!(
        "{} apps: <0.4 {:.3}, 0.4-0.9 {lost_10_to_60:.3}, 0.9-0.95 {:.3}, >0.95 {:.3}, mean {:.3}",
        all.len(),
        share(0.0, 0.4),
        share(0.9, 0.95),
        share(0.95, 1.1),
        all.iter().sum::<f64>() / all.len() as f64
    );
    // Those that lose nothing compute, and touch little that is shared.
    let lost_over_10 = share(0.0, 0.9);
    assert!((0.4..0.65).contains(&lost_over_10), "{lost_over_10}");
    assert!(lost_10_to_60 > 0.33, "{lost_10_to_60}");
    assert!(share(0.0, 0.4) < 0.2);
}

#[test]
fn best_platforms_differ_and_the_worst_is_about_half_as_fast() {
    let (members, types) = papers_pool(3);
    let mut best = vec![0; types.len()];
    let mut near = 0.0;
    let mut worst = Vec::new();
    for member in &members {
        let speed = &member.app.speed;
        let first = (0..speed.len()).find(|at| speed[*at] == 1.0).unwrap();
        best[first] += 1;
        worst.push(1.0 / speed.iter().copied().fold(1.0, f32::min));
        let cores: u32 = types
            .iter()
            .zip(speed)
            .filter(|(_, speed)| **speed >= 0.95)
            .map(|(kind, _)| kind.cpus * kind.count)
            .sum();
        near += f64::from(cores) / 178.0 / members.len() as f64;
    }
    worst.sort_by(f32::total_cmp);
    let median = worst[worst.len() / 2];
    eprintln!("best by type {best:?}, near-best cores {near:.2}, worst {median:.2}");
    assert!(
        best.iter().filter(|count| **count > 0).count() >= 4,
        "{best:?}"
    );
    assert!((1.4..2.5).contains(&median), "{median}");
}

#[test]
fn caused_follows_sensitivity_without_being_given_by_it() {
    let (members, _) = papers_pool(4);
    let (mut t, mut c) = (Vec::new(), Vec::new());
    for member in &members[..51] {
        for lane in shared().iter() {
            if member.app.caused[lane] > 0.0 {
                t.push(tolerated(&member.app, lane).unwrap_or(100.0));
                c.push(f64::from(member.app.caused[lane]));
            }
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mt, mc) = (mean(&t), mean(&c));
    let cov: f64 = t.iter().zip(&c).map(|(t, c)| (t - mt) * (c - mc)).sum();
    let sd = |values: &[f64], mean: f64| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let r = cov / (sd(&t, mt) * sd(&c, mc)).sqrt();
    assert!((-0.85..-0.3).contains(&r), "{r}");
}

#[test]
fn the_threshold_is_where_the_curve_crosses() {
    let (members, _) = papers_pool(2);
    let llc = lane("llc-capacity").unwrap();
    let mut app = members[0].app.clone();
    app.qos = 0.9;
    app.curves = vec![TrueCurve::new(llc, |x| 1.0 - x / 200.0)];
    let t = tolerated(&app, llc).unwrap();
    assert!((t - 20.0).abs() < 0.01, "{t}");
    app.curves = vec![TrueCurve::new(llc, |x| 1.0 - x / 2000.0)];
    assert_eq!(tolerated(&app, llc), None);
    app.curves.clear();
    assert_eq!(tolerated(&app, llc), None);
}

#[test]
fn a_high_memory_load_presses_and_feels_more() {
    let (members, _) = papers_pool(6);
    let llc = lane("llc-capacity").unwrap();
    let network = lane("network-bandwidth").unwrap();
    for member in &members {
        let high = under_memory_load(&member.app);
        assert!(high.caused[llc] >= member.app.caused[llc].min(99.0) + 1.0);
        assert_eq!(high.caused[network], member.app.caused[network]);
        for (before, after) in member.app.curves.iter().zip(&high.curves) {
            assert!(after.at(30.0) <= before.at(30.0));
        }
    }
}

/// Where a profile says nothing, the truth is that of another one.
#[test]
fn recorded_profiles_are_true_and_the_rest_is_like_others() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles");
    let profiles = load_profiles(&dir).unwrap();
    assert!(profiles.len() > 1);
    let types = hardware("paragon-40").unwrap().types;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let members = recorded(&profiles, types, &mut rng);
    let said: Vec<_> = profiles
        .iter()
        .map(jostle_schedule::predict::Responses::from_profile)
        .collect();
    let mut like_others = 0;
    for (member, responses) in members.iter().zip(&said) {
        let cpu_time = lane("cpu-time").unwrap();
        assert_eq!(member.app.caused[cpu_time], 0.0, "CPUs are their own");
        for curve in &responses.curves {
            if !member.profiled.contains(curve.lane()) {
                continue;
            }
            let truth = member
                .app
                .curves
                .iter()
                .find(|c| c.lane() == curve.lane())
                .unwrap();
            assert!((truth.at(50.0) - curve.at(50.0).0.max(1e-3f32.ln())).abs() < 1e-4);
        }
        for lane in member.profiled.iter() {
            assert_eq!(member.app.caused[lane], responses.caused[lane]);
        }
        for lane in shared().without(responses.caused_known).iter() {
            let caused = member.app.caused[lane];
            let known = said.iter().filter(|it| it.caused_known.contains(lane));
            let mut known = known.map(|it| it.caused[lane]);
            assert!(
                caused == 0.0 || known.any(|of| of == caused),
                "{lane}: {caused}"
            );
            like_others += usize::from(caused > 0.0);
        }
    }
    assert!(like_others > 0, "some entries are open");
    let network = lane("network-bandwidth").unwrap();
    let asks = |member: &&Member| member.app.caused[network] > 0.0;
    assert!(
        !members.iter().any(|member| asks(&member)),
        "no profile knows"
    );
    let empty = tempfile::tempdir().unwrap();
    let error = load_profiles(empty.path()).unwrap_err().to_string();
    assert!(error.contains("holds no profile"), "{error}");
}
