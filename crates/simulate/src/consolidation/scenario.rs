//! The scenario of a consolidation.

use crate::error::InvalidKey;
use crate::error::Problem;
use jostle_schedule::policies::bloc::Rules;
use serde::Deserialize;
use serde::Serialize;
use serde::de::IgnoredAny;

/// A type of storage node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreType {
    pub name: String,
    pub count: usize,
    /// Rated, as the sum of its disks.
    pub bandwidth_mb_per_s: f64,
    pub capacity_gb: f64,
}

/// An application that keeps data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageApp {
    pub name: String,
    pub instances: usize,
    /// Mean over the day, of each instance.
    pub bandwidth_mb_per_s: f64,
    /// Peak of the day over its mean, 1 to 2.6.
    pub peak_over_mean: f64,
    /// Hour of the day of the peak, 0–24.
    pub peak_hour: f64,
    /// An instance's data, drawn between the two.
    pub size_gb: [f64; 2],
    /// Share of a node's rated bandwidth in use at which its latency reaches
    /// its bound (MB_i).
    pub bandwidth_limit: f64,
    /// Likewise of capacity (MC_i).
    pub capacity_limit: f64,
}

/// Ways to place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// A node for each instance; all nodes stay on.
    OneEach,
    /// Once, by capacity alone.
    Capacity,
    /// Once, by algorithm 1 with the peak demand of the days before; whole
    /// instances.
    BMax,
    /// Algorithms 1 and 2; whole instances.
    BDyn,
    /// Once, by algorithm 1 with demand at the start; pieces.
    BFine,
    /// Algorithms 1 and 2; pieces.
    Bloc,
    /// Algorithm 1 anew in every interval, with the demand that will be and the
    /// interference that is, and moves that cost nothing; pieces. Not the
    /// exhaustive search of the paper's oracle, which 640 pieces rule out.
    Oracle,
}

impl Scheme {
    pub const ALL: [Scheme; 7] = [
        Scheme::OneEach,
        Scheme::Capacity,
        Scheme::BMax,
        Scheme::BDyn,
        Scheme::BFine,
        Scheme::Bloc,
        Scheme::Oracle,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scheme::OneEach => "one-each",
            Scheme::Capacity => "capacity",
            Scheme::BMax => "b-max",
            Scheme::BDyn => "b-dyn",
            Scheme::BFine => "b-fine",
            Scheme::Bloc => "bloc",
            Scheme::Oracle => "oracle",
        }
    }
}

/// The scenario's parameters; those left out are BLOC's, or ours where the
/// source is silent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsolidationScenario {
    /// Read before everything else.
    pub kind: IgnoredAny,
    pub nodes: Vec<StoreType>,
    pub apps: Vec<StorageApp>,
    pub schemes: Vec<Scheme>,
    /// Days that are measured.
    pub days: usize,
    /// Days of demand known before, without consolidation.
    pub history_days: usize,
    pub interval_minutes: usize,
    /// Standard deviation of ln demand about its daily shape.
    pub demand_noise: f64,
    /// Chance that a spike begins in an interval; it lasts for two.
    pub spike_chance: f64,
    /// Demand in a spike over what it would be.
    pub spike_factor: f64,
    /// Greatest loss of one whole instance beside another, 0–1.
    pub most_interference: f64,
    /// Mean absolute error of the mirrors' interference, share of performance.
    pub mirror_error: f64,
    /// Share of errors that overestimate.
    pub mirror_overestimates: f64,
    /// Parts of an instance's data that are placed by themselves.
    pub pieces: usize,
    /// Bandwidth kept free for migration, share of what is rated (Δ_B).
    pub reserve: f64,
    /// Cap on a node's summed interference.
    pub interference_cap: f64,
    pub hysteresis_bandwidth: f64,
    pub hysteresis_capacity: f64,
    /// Power of an idle node over that of a busy one.
    pub idle_power: f64,
}

impl Default for ConsolidationScenario {
    fn default() -> Self {
        let rules = Rules::default();
        ConsolidationScenario {
            kind: IgnoredAny,
            nodes: default_nodes(),
            apps: default_apps(),
            schemes: Scheme::ALL.to_vec(),
            days: 7,
            history_days: 7,
            interval_minutes: 30,
            demand_noise: 0.03,
            spike_chance: 0.002,
            spike_factor: 1.5,
            most_interference: 0.85,
            mirror_error: 0.038,
            mirror_overestimates: 0.75,
            pieces: 16,
            reserve: rules.reserve,
            interference_cap: rules.interference,
            hysteresis_bandwidth: rules.hysteresis_bandwidth,
            hysteresis_capacity: rules.hysteresis_capacity,
            idle_power: 0.7,
        }
    }
}

/// The 40 machines of section B.7; rated bandwidth is ours, at 30 MB/s for
/// each disk: what 10,000 rpm give when accesses are mostly random.
fn default_nodes() -> Vec<StoreType> {
    let store = |name: &str, count, bandwidth_mb_per_s, capacity_gb| StoreType {
        name: name.into(),
        count,
        bandwidth_mb_per_s,
        capacity_gb,
    };
    vec![
        store("12-core, 4 disks", 18, 120.0, 1200.0),
        store("24-core, 4 disks", 10, 120.0, 1200.0),
        store("8-core, 12 disks", 12, 360.0, 5400.0),
    ]
}

/// The ten applications of section B.7 with 40 instances; demand, times and all
/// limits but websearch's and webmail's are ours.
fn default_apps() -> Vec<StorageApp> {
    let table = [
        ("websearch", 5, 20.0, 2.2, 14.0, 0.30),
        ("webmail", 4, 20.0, 2.4, 11.0, 0.70),
        ("d-process", 4, 32.0, 1.2, 2.0, 0.60),
        ("messenger", 5, 12.0, 2.5, 20.0, 0.50),
        ("user-content", 4, 20.0, 2.0, 21.0, 0.55),
        ("display-ads", 4, 18.0, 1.9, 16.0, 0.50),
        ("exchange", 4, 18.0, 2.5, 10.0, 0.45),
        ("tpc-c", 3, 24.0, 1.3, 12.0, 0.40),
        ("tpc-e", 3, 20.0, 1.3, 12.0, 0.40),
        ("tpc-h", 4, 32.0, 1.4, 3.0, 0.65),
    ];
    let app = |(name, instances, mean, peak, hour, limit): (&str, _, _, _, _, _)| StorageApp {
        name: name.into(),
        instances,
        bandwidth_mb_per_s: mean,
        peak_over_mean: peak,
        peak_hour: hour,
        size_gb: [50.0, 450.0],
        bandwidth_limit: limit,
        capacity_limit: 0.85,
    };
    table.map(app).to_vec()
}

/// Most nodes, and instances, of one kind.
const MOST_STORES: usize = 10_000;
/// Most values of demand that are drawn: 800 MB of them.
const MOST_DRAWN: usize = 100_000_000;

impl ConsolidationScenario {
    pub(super) fn rules(&self) -> Rules {
        Rules {
            reserve: self.reserve,
            interference: self.interference_cap,
            hysteresis_bandwidth: self.hysteresis_bandwidth,
            hysteresis_capacity: self.hysteresis_capacity,
        }
    }

    /// Intervals in a day.
    pub(super) fn per_day(&self) -> usize {
        24 * 60 / self.interval_minutes
    }

    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// The first key whose value makes no sense.
    pub fn check(&self) -> Result<(), InvalidKey> {
        let wrong = |key: &str, problem| Err(InvalidKey::new(key, problem));
        let of_kind = self.nodes.iter().map(|kind| kind.count);
        let of_app = self.apps.iter().map(|app| app.instances);
        let (nodes, instances): (usize, usize) = (of_kind.clone().sum(), of_app.clone().sum());
        let key_of_kind = |(at, count)| (format!("nodes[{at}].count"), count);
        let key_of_app = |(at, count)| (format!("apps[{at}].instances"), count);
        let counts = of_kind.enumerate().map(key_of_kind);
        let mut counts = counts.chain(of_app.enumerate().map(key_of_app));
        if let Some((key, count)) = counts.find(|(_, count)| *count > MOST_STORES) {
            let most = MOST_STORES;
            return wrong(&key, Problem::TooMany { count, most });
        }
        if nodes == 0 {
            return wrong("nodes", Problem::None("nodes"));
        }
        if instances == 0 {
            return wrong("apps", Problem::None("instances"));
        }
        if instances > nodes {
            return wrong("apps", Problem::FewNodes { instances, nodes });
        }
        if self.schemes.is_empty() {
            let known = Scheme::ALL.map(Scheme::name).join(", ");
            return wrong("schemes", Problem::Empty(format!("known are {known}")));
        }
        let minutes = self.interval_minutes;
        if minutes == 0 || 24 * 60 % minutes != 0 {
            return wrong("interval_minutes", Problem::DividesNoDay(minutes));
        }
        let ranges = [
            ("days", self.days as f64, 1.0, 366.0),
            ("history_days", self.history_days as f64, 1.0, 366.0),
            ("pieces", self.pieces as f64, 1.0, 64.0),
            ("demand_noise", self.demand_noise, 0.0, 2.0),
            ("spike_chance", self.spike_chance, 0.0, 1.0),
            ("spike_factor", self.spike_factor, 0.0, 100.0),
            ("most_interference", self.most_interference, 0.0, 1.0),
            ("mirror_error", self.mirror_error, 0.0, 1.0),
            ("mirror_overestimates", self.mirror_overestimates, 0.0, 1.0),
            ("reserve", self.reserve, 0.0, 1.0),
            ("interference_cap", self.interference_cap, 0.0, 10.0),
            ("hysteresis_bandwidth", self.hysteresis_bandwidth, 0.0, 1.0),
            ("hysteresis_capacity", self.hysteresis_capacity, 0.0, 1.0),
            ("idle_power", self.idle_power, 0.0, 1.0),
        ];
        within("", ranges)?;
        let drawn = (self.days + self.history_days) * self.per_day() * instances;
        if drawn > MOST_DRAWN {
            let most = MOST_DRAWN;
            return wrong("days", Problem::TooManyIntervals { drawn, most });
        }
        for (at, kind) in self.nodes.iter().enumerate() {
            let ranges = [
                ("bandwidth_mb_per_s", kind.bandwidth_mb_per_s, 1e-3, 1e9),
                ("capacity_gb", kind.capacity_gb, 1e-3, 1e9),
            ];
            within(&format!("nodes[{at}]."), ranges)?;
        }
        for (at, app) in self.apps.iter().enumerate() {
            let ranges = [
                ("bandwidth_mb_per_s", app.bandwidth_mb_per_s, 1e-6, 1e9),
                ("peak_over_mean", app.peak_over_mean, 1.0, 2.6),
                ("peak_hour", app.peak_hour, 0.0, 24.0),
                ("size_gb[0]", app.size_gb[0], 1e-6, 1e9),
                ("size_gb[1]", app.size_gb[1], app.size_gb[0], 1e9),
                ("bandwidth_limit", app.bandwidth_limit, 1e-3, 1.0),
                ("capacity_limit", app.capacity_limit, 1e-3, 1.0),
            ];
            within(&format!("apps[{at}]."), ranges)?;
        }
        Ok(())
    }
}

/// Whether the value of each key of `table` is within least … most.
fn within<const N: usize>(
    table: &str,
    ranges: [(&str, f64, f64, f64); N],
) -> Result<(), InvalidKey> {
    for (key, value, least, most) in ranges {
        if !(least..=most).contains(&value) {
            let value = value.to_string();
            let problem = Problem::NotWithin { value, least, most };
            return Err(InvalidKey::new(format!("{table}{key}"), problem));
        }
    }
    Ok(())
}
