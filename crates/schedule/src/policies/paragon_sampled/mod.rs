//! Paragon's server selection by sampling.

use crate::app::App;
use crate::app::FULL_SCALE;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::summary::NodeSummary;
use crate::compare::below_zero;
use crate::compare::known_directions;
use crate::error::SampleSizeError;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::policy::Waiting;
use crate::predict::LANES;
use crate::search::draw::Draws;
use crate::search::ranking::Ranking;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// Draws R servers at random from those with room and takes the one of the
/// highest colocation quality (Paragon, section 3.3.3). With t of the server
/// and c of the newcomer as fractions of the full scale, over the N resources
/// on which both are known,
///
/// ```text
/// Q = sign(Σ (t − c)) · |1 − Σ |t − c| / N|,   rescaled to (Q + 1) / 2
/// ```
///
/// so that 1 is a perfect fit and below ½ the newcomer causes more in sum than
/// is tolerated. Paragon divides by 10, its number of resources; here by N, so
/// that a server does not look close because little is known of it. It rescales
/// by the extremes that it happens to see; ±1 are the bounds of the formula. A
/// sum of zero counts as positive: t = c everywhere is Paragon's ideal. A
/// server on which nothing is known comes after all others.
///
/// The measure is Paragon's with its limits: it asks whether the residents bear
/// the newcomer (D1) and not the reverse, an overrun on one resource is
/// balanced by headroom on another, and among servers with an overrun the
/// *smaller* one has the lower Q.
///
/// # How good the best of R is
///
/// Let x be the share of servers with room that are no better than the chosen
/// one. Draws are independent and each server has the same chance, so that the
/// best of R has P(x ≤ X) = X^R: Paragon's F(x) = x^R, exact for any
/// distribution of Q when x is counted by rank. Therefore R = ⌈ln p / ln q⌉
/// draws have at most chance p that none is above the share q:
/// [`sample_size`]. Paragon draws by hashing scores, which is only nearly so,
/// and drawing units instead of servers, as Tarcil does, would favour those
/// with many free CPUs.
#[derive(Debug)]
pub struct ParagonSampled {
    servers: u32,
    strict: bool,
    rng: ChaCha8Rng,
    draws: Draws,
}

/// Chance of missing the best tenth unless told otherwise.
const DEFAULT_P: f64 = 0.001;
/// The share of servers that is to be surpassed unless told otherwise.
const DEFAULT_Q: f64 = 0.9;

/// How many servers to draw so that with chance 1 − `p` the best of them is
/// above the share `q` of all: ⌈ln p / ln q⌉ (from Paragon's F(x) = x^R).
///
/// # Errors
///
/// When `p` or `q` is not between 0 and 1, or the count is beyond `u32`.
pub fn sample_size(p: f64, q: f64) -> Result<u32, SampleSizeError> {
    for (name, value) in [("p", p), ("q", q)] {
        if !(value > 0.0 && value < 1.0) {
            return Err(SampleSizeError::NotAChance { name, value });
        }
    }
    // Where the quotient is whole, rounding must not add one more.
    let needed = (p.ln() / q.ln() - 1e-9).ceil().max(1.0);
    if needed > f64::from(u32::MAX) {
        return Err(SampleSizeError::TooMany { p, q, needed });
    }
    Ok(needed as u32)
}

impl ParagonSampled {
    /// Draws `servers` (at least 1) for each decision.
    pub fn new(servers: u32, seed: u64) -> Self {
        ParagonSampled {
            servers: servers.max(1),
            strict: false,
            rng: ChaCha8Rng::seed_from_u64(seed),
            draws: Draws::default(),
        }
    }

    /// The default: p = 0.001, q = 0.9, which is R = 66.
    pub fn seeded(seed: u64) -> Self {
        let servers = sample_size(DEFAULT_P, DEFAULT_Q).unwrap_or(66);
        ParagonSampled::new(servers, seed)
    }

    /// The same that takes only servers on which no QoS is expected to break.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// R, how many are drawn.
    pub fn servers(&self) -> u32 {
        self.servers
    }
}

/// Colocation quality of the node of `row` for `app`, 0–1; `None` where D1 is
/// known of no resource. See [`ParagonSampled`].
pub fn colocation_quality(app: &App, summary: &NodeSummary) -> Option<f64> {
    let (known, _) = known_directions(app, summary);
    if known.is_empty() {
        return None;
    }
    let (mut sum, mut distance) = (0i64, 0u64);
    for lane in 0..LANES {
        let d = summary.tolerated[lane] - app.caused[lane];
        let kept = (known.bits() >> lane & 1).wrapping_neg();
        sum += i64::from(d & kept as i32);
        distance += u64::from(d.unsigned_abs() & kept);
    }
    let most = f64::from(known.len()) * f64::from(FULL_SCALE);
    let size = (1.0 - distance as f64 / most).abs();
    let quality = if sum < 0 { -size } else { size };
    Some((quality + 1.0) / 2.0)
}

fn say(quality: Option<f64>) -> String {
    match quality {
        Some(quality) => format!("colocation quality {quality:.3}"),
        None => "nothing to compare".into(),
    }
}

impl Policy for ParagonSampled {
    fn name(&self) -> &'static str {
        "paragon-sampled"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let mut ranking: Ranking<1> = Ranking::default();
        let (mut drawn, strict) = (0, self.strict);
        let count = self.servers as usize;
        self.draws
            .many(request, cluster, &mut self.rng, count, |node| {
                drawn += 1;
                let summary = cluster.summary(node);
                if strict {
                    let (d1, d2) = below_zero(request.app, summary);
                    if !d1.or(d2).is_empty() {
                        return;
                    }
                }
                // Drawn twice, it is still one; and one that others have displaced
                // cannot come back.
                if ranking.best().all(|(_, other)| other != node) {
                    let quality = colocation_quality(request.app, summary);
                    ranking.offer(node, [quality.unwrap_or(-1.0)]);
                }
            });
        if drawn > 0 && ranking.seen() == 0 {
            return Decision::Wait(Waiting::ForBetter, None);
        }
        let mut answer = ranking.answer(request, cluster);
        if let Decision::Place(choice) = &mut answer {
            choice.examined = drawn;
        }
        answer
    }

    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let chosen = choice.node();
        let of = |node| colocation_quality(request.app, cluster.summary(node));
        let drawn = choice.examined;
        Deciding::because(match choice.runners_up[0] {
            Some(next) => format!(
                "best of {drawn} drawn at random: {}, {} on {}",
                say(of(chosen)),
                say(of(next)),
                cluster.name(next)
            ),
            None => format!("the only one in {drawn} draws: {}", say(of(chosen))),
        })
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        say(colocation_quality(request.app, cluster.summary(node)))
    }

    fn unused(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        crate::search::greedy::describe_fit(request.app, cluster, node)
    }
}

#[cfg(test)]
mod tests;
