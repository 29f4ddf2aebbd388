//! How long a policy takes to decide, against the size of the cluster.
//!
//! Clusters of 10² … 10⁶ resource units (CPUs; ten to a node on average, nodes
//! of 14 types) are filled to 70 % (unless told otherwise) with residents drawn from 400 synthetic
//! applications, each with known scores on ten resources. Then decisions are
//! timed one by one. Before each, one resident leaves at random and another
//! starts at random, so that every policy sees the same sequence of clusters.
//! Memory is what the process holds more of after building the cluster than
//! before. Everything but the times is the same for the same seed.

use clap::Parser;
use jostle_schedule::App;
use jostle_schedule::Cluster;
use jostle_schedule::Decision;
use jostle_schedule::Node;
use jostle_schedule::POLICIES;
use jostle_schedule::PlacementRequest;
use jostle_schedule::PolicyKind;
use jostle_schedule::PolicyOptions;
use jostle_schedule::ResidentId;
use jostle_schedule::policy_kind;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::Responses;
use jostle_statistics::mean;
use plotters::prelude::*;
use procfs_core::FromRead;
use procfs_core::process::Status;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use serde::Serialize;
use std::error::Error;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

/// CPUs of the 14 types; ten on average.
const TYPES: [u32; 14] = [4, 4, 4, 8, 8, 8, 8, 8, 12, 12, 12, 12, 16, 24];
const CPUS_PER_NODE: u32 = 10;
const APPS: usize = 400;
const KNOWN_LANES: usize = 10;

/// The cases that have a limit: policy, nodes, median in microseconds.
const LIMITS: &[(&str, usize, f64)] = &[
    ("paragon", 1_000, 20.0),
    ("paragon", 10_000, 200.0),
    ("tarcil", 1_000, 5.0),
    ("tarcil", 100_000, 5.0),
    ("jostle", 1_000, 200.0),
];

#[derive(Parser)]
#[command(about = "Times decisions of policies against the size of the cluster")]
struct Args {
    /// Policies to time.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "paragon,paragon-sampled,tarcil,jostle,least-loaded"
    )]
    policies: Vec<String>,
    /// Resource units (CPUs) of the clusters.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100,1000,10000,100000,1000000"
    )]
    units: Vec<u32>,
    /// Share of the resource units that are taken, 0–1.
    #[arg(long, default_value_t = 0.7, value_parser = share)]
    filled: f64,
    /// Seconds for each policy and size.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for decision_time.json and decision_time.svg; made if missing.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    seed: u64,
    filled: f64,
    clusters: Vec<Built>,
    policies: Vec<Timed>,
}

#[derive(Serialize)]
struct Built {
    units: u32,
    nodes: usize,
    residents: usize,
    /// Resident memory of the cluster with its residents.
    megabytes: f64,
    /// Of the whole process.
    process_megabytes: f64,
    build_seconds: f64,
}

#[derive(Serialize)]
struct Timed {
    policy: &'static str,
    sizes: Vec<Size>,
    /// Of median time against nodes, from 1,000 resource units on: the slope
    /// of the line through the logarithms. Absent for less than two sizes.
    growth_exponent: Option<f64>,
}

#[derive(Serialize)]
struct Size {
    units: u32,
    nodes: usize,
    decisions: usize,
    median_us: f64,
    p99_us: f64,
    examined: f64,
    /// Share of decisions for which a condition was given up.
    relaxed: f64,
    placed: f64,
    limit_us: Option<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let kinds = chosen(&args.policies)?;
    let pool = pool(args.seed);
    let mut report = Report {
        seed: args.seed,
        filled: args.filled,
        clusters: Vec::new(),
        policies: kinds
            .iter()
            .map(|kind| Timed {
                policy: kind.name,
                sizes: Vec::new(),
                growth_exponent: None,
            })
            .collect(),
    };
    println!(
        "{:>9} {:>8}  {:<18} {:>10} {:>10} {:>10} {:>8} {:>9}  limit",
        "units", "nodes", "policy", "median µs", "p99 µs", "examined", "relaxed", "decisions"
    );
    for units in &args.units {
        let before = resident_bytes()?;
        let started = Instant::now();
        let mut world = Filled::new(*units, args.filled, &pool, args.seed)?;
        let build_seconds = started.elapsed().as_secs_f64();
        let after = resident_bytes()?;
        report.clusters.push(Built {
            units: *units,
            nodes: world.cluster.len(),
            residents: world.running.len(),
            megabytes: after.saturating_sub(before) as f64 / 1e6,
            process_megabytes: after as f64 / 1e6,
            build_seconds,
        });
        for (kind, timed) in kinds.iter().zip(&mut report.policies) {
            let size = time(kind, &mut world, &pool, *units, &args);
            println!(
                "{:>9} {:>8}  {:<18} {:>10.2} {:>10.2} {:>10.0} {:>7.0}% {:>9}  {}",
                units,
                size.nodes,
                kind.name,
                size.median_us,
                size.p99_us,
                size.examined,
                100.0 * size.relaxed,
                size.decisions,
                match size.limit_us {
                    Some(limit) if size.median_us <= limit => format!("≤ {limit} µs: met"),
                    Some(limit) => format!("≤ {limit} µs: MISSED"),
                    None => String::new(),
                }
            );
            timed.sizes.push(size);
        }
    }
    println!();
    for timed in &mut report.policies {
        timed.growth_exponent = growth(&timed.sizes);
        match timed.growth_exponent {
            Some(exponent) => println!("{:<18} time ∝ nodes^{exponent:.2}", timed.policy),
            None => println!("{:<18} growth: needs two sizes", timed.policy),
        }
    }
    println!();
    for built in &report.clusters {
        println!(
            "{:>9} units: {:>6} nodes, {:>6} residents, {:>7.1} MB (process {:.1} MB), built in {:.2} s",
            built.units,
            built.nodes,
            built.residents,
            built.megabytes,
            built.process_megabytes,
            built.build_seconds
        );
    }
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)?;
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(out.join("decision_time.json"), json + "\n")?;
        plot(&out.join("decision_time.svg"), &report)?;
        println!(
            "\nwritten: {0}/decision_time.json and {0}/decision_time.svg",
            out.display()
        );
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static PolicyKind>, String> {
    let kind = |name: &String| {
        policy_kind(name).ok_or_else(|| {
            let known: Vec<&str> = POLICIES.iter().map(|kind| kind.name).collect();
            let known = known.join(", ");
            format!("--policies: no policy is called `{name}`; there are {known}")
        })
    };
    names.iter().map(kind).collect()
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=0.99).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 0.99 is expected".into()),
    }
}

/// Applications that know ten resources each: every fifth causes much, the
/// others little; tolerance is uniform over the upper part of the scale.
fn pool(seed: u64) -> Vec<Arc<App>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    (0..APPS)
        .map(|index| {
            let mut lanes: Vec<usize> = (0..LANES).collect();
            lanes.shuffle(&mut rng);
            let heavy = index % 5 == 0;
            let mut app = App::bare(&format!("app-{index}"), Responses::default());
            for lane in &lanes[..KNOWN_LANES] {
                let caused = rng.random_range(0.0..if heavy { 40.0 } else { 15.0 });
                app.set_scores(*lane, Some(rng.random_range(30.0..100.0)), Some(caused));
            }
            let speed = TYPES.map(|_| Some(rng.random_range(0.4f32..=1.0)));
            let cpus = [1, 1, 2, 2, 4][rng.random_range(0..5usize)];
            let app = app.with_demand(cpus, 1 << 30);
            Arc::new(app.with_platform_speed(speed.to_vec()))
        })
        .collect()
}

/// A cluster, what runs on it, and what changes it.
struct Filled {
    cluster: Cluster,
    running: Vec<ResidentId>,
    /// Units that are to be free.
    free: usize,
    rng: ChaCha8Rng,
}

impl Filled {
    fn new(units: u32, share: f64, pool: &[Arc<App>], seed: u64) -> Result<Self, Box<dyn Error>> {
        let count = (units / CPUS_PER_NODE).max(1) as usize;
        let nodes = (0..count).map(|index| {
            let kind = index % TYPES.len();
            Node {
                name: format!("n{index}"),
                cpus: TYPES[kind],
                memory_bytes: u64::from(TYPES[kind]) << 32,
                platform: Some(format!("type-{kind}")),
                shares_cpus: false,
            }
        });
        let mut filled = Filled {
            cluster: Cluster::new(nodes)?,
            running: Vec::new(),
            free: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
        };
        filled.free = ((1.0 - share) * filled.cluster.units().len() as f64) as usize;
        while filled.cluster.units().len() > filled.free {
            filled.start_somewhere(pool);
        }
        Ok(filled)
    }

    /// Starts an application drawn at random, on the node of a free unit drawn
    /// at random, if it fits there.
    fn start_somewhere(&mut self, pool: &[Arc<App>]) {
        let app = &pool[self.rng.random_range(0..pool.len())];
        let units = self.cluster.units();
        if !units.is_empty()
            && let Some(node) = units.node_at(self.rng.random_range(0..units.len()))
            && let Ok(id) = self.cluster.admit(node, app.clone())
        {
            self.running.push(id);
        }
    }

    /// One leaves; others come while it is less full than it should be.
    fn churn(&mut self, pool: &[Arc<App>]) {
        if !self.running.is_empty() {
            let place = self.rng.random_range(0..self.running.len());
            let left = self.running.swap_remove(place);
            self.cluster.remove(left);
        }
        for _ in 0..8 {
            if self.cluster.units().len() <= self.free {
                break;
            }
            self.start_somewhere(pool);
        }
    }
}

fn time(kind: &PolicyKind, world: &mut Filled, pool: &[Arc<App>], units: u32, args: &Args) -> Size {
    let mut policy = (kind.make)(&PolicyOptions {
        seed: args.seed,
        strict: false,
    });
    let mut arrivals = ChaCha8Rng::seed_from_u64(args.seed);
    let (mut times, mut examined, mut relaxed, mut placed) = (Vec::new(), 0u64, 0u64, 0u64);
    let whole = Duration::from_secs_f64(args.seconds);
    let started = Instant::now();
    // The first decisions, which size buffers and warm caches, do not count.
    for number in 0..100_000 + WARM_UP {
        if started.elapsed() > whole && times.len() >= 100 {
            break;
        }
        world.churn(pool);
        let app = &pool[arrivals.random_range(0..pool.len())];
        let request = PlacementRequest::of(app);
        let begun = Instant::now();
        let decision = policy.choose(&request, &world.cluster);
        let took = begun.elapsed();
        if number < WARM_UP {
            continue;
        }
        times.push(took.as_secs_f64() * 1e6);
        if let Decision::Place(choice) = decision {
            placed += 1;
            examined += u64::from(choice.examined);
            relaxed += u64::from(!choice.relaxed.is_empty());
        }
    }
    times.sort_by(f64::total_cmp);
    let nodes = world.cluster.len();
    let count = times.len() as f64;
    let percentile = |share: f64| times[((share * count).ceil() as usize).max(1) - 1];
    let limit = LIMITS
        .iter()
        .find(|(policy, of, _)| *policy == kind.name && *of == nodes);
    Size {
        units,
        nodes,
        decisions: times.len(),
        median_us: percentile(0.5),
        p99_us: percentile(0.99),
        examined: examined as f64 / count,
        relaxed: relaxed as f64 / count,
        placed: placed as f64 / count,
        limit_us: limit.map(|(_, _, limit)| *limit),
    }
}

const WARM_UP: usize = 20;

/// Least squares through (ln nodes, ln median).
fn growth(sizes: &[Size]) -> Option<f64> {
    let points: Vec<(f64, f64)> = sizes
        .iter()
        .filter(|size| size.units >= 1_000)
        .map(|size| ((size.nodes as f64).ln(), size.median_us.ln()))
        .collect();
    if points.len() < 2 {
        return None;
    }
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (x, y) = (mean(&x), mean(&y));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    (variance > 0.0).then(|| covariance / variance)
}

/// Bytes of memory that the process holds (VmRSS).
fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let status = Status::from_file("/proc/self/status")?;
    let kib = status
        .vmrss
        .ok_or("/proc/self/status says nothing of VmRSS")?;
    Ok(kib * 1024)
}

fn plot(path: &Path, report: &Report) -> Result<(), Box<dyn Error>> {
    let sizes = || report.policies.iter().flat_map(|timed| &timed.sizes);
    let units = || sizes().map(|size| size.units);
    let least = units().min().ok_or("nothing was timed")?;
    let most = units().max().unwrap_or(least);
    let highest = sizes().map(|size| size.p99_us).fold(1.0, f64::max);
    let lowest = sizes().map(|size| size.median_us).fold(highest, f64::min);
    let area = SVGBackend::new(path, (760, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .caption(
            "Time per decision: lines are medians, loose dots p99",
            ("sans-serif", 18),
        )
        .build_cartesian_2d(
            (f64::from(least)..f64::from(most.max(least + 1))).log_scale(),
            (lowest / 2.0..highest * 2.0).log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 228, 232))
        .x_desc("resource units (ten to a node)")
        .y_desc("microseconds")
        .x_label_formatter(&|units| format!("{units:.0}"))
        .y_label_formatter(&|us| format!("{us}"))
        .draw()?;
    for (index, timed) in report.policies.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let sizes = timed.sizes.iter();
        let median = sizes.clone().map(|s| (f64::from(s.units), s.median_us));
        let p99 = sizes.map(|s| (f64::from(s.units), s.p99_us));
        chart
            .draw_series(LineSeries::new(median, color.stroke_width(2)).point_size(3))?
            .label(timed.policy)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
        chart.draw_series(p99.map(|point| Circle::new(point, 2, color)))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(RGBColor(225, 228, 232))
        .draw()?;
    area.present()?;
    Ok(())
}
