//! What the numbers mean, for people.

use super::node_view::NodeView;
use super::place::newcomer;
use super::place::on_node;
use super::value::Weights;
use crate::app::App;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::explanation::ExpectedPerformance;
use crate::explanation::MostAffected;
use crate::policy::Choice;
use crate::predict::Company;
use crate::predict::LANES;
use crate::predict::Lanes;
use crate::predict::performance;
use crate::predict::resource_id;

fn percent(performance: f32) -> String {
    format!("{:.0} %", performance * 100.0)
}

/// One node in a line.
pub fn at(app: &App, cluster: &Cluster, node: NodeId, weights: &Weights) -> String {
    let view = NodeView::of(node, cluster, weights);
    let there = on_node(app, cluster, node, &view, weights);
    let own = newcomer(app, cluster.summary(node), &view, weights);
    let below = match own.keeps {
        true => "",
        false => " (below its QoS)",
    };
    let mut line = format!("keeps {}{below}", percent(own.performance));
    if there.lost >= 0.005 {
        line.push_str(&format!(", those there lose {}", percent(there.lost)));
    }
    if own.keeps && there.breaks {
        line.push_str(", and one of them falls below its QoS");
    }
    line
}

/// ln performance that the newcomer, and then the residents, lose on each
/// resource of the node.
fn losses(app: &App, cluster: &Cluster, node: NodeId, weights: &Weights) -> Lanes<f32> {
    let summary = cluster.summary(node);
    let mut losses = [0.0; LANES];
    let before = NodeView::of(node, cluster, weights).company;
    let all = app.counted(summary.shares_cpus);
    let after = before.with(&app.responses, all);
    let own = after.around(&app.responses, all);
    for lane in all.iter() {
        let only = std::iter::once(lane).collect();
        losses[lane] -= performance(&app.responses, &own, only).ln;
    }
    for (_, resident) in cluster.residents(node) {
        let resident = &resident.app;
        let counted = resident.counted(summary.shares_cpus);
        let around = |company: &Company| company.around(&resident.responses, counted);
        let (before, after) = (around(&before), around(&after));
        for lane in counted.and(all).iter() {
            let only = std::iter::once(lane).collect();
            let of = |pressure| performance(&resident.responses, pressure, only).ln;
            losses[lane] += of(&before) - of(&after);
        }
    }
    losses
}

/// The resource on which the chosen node beats the next best by the most, or
/// the platform.
pub fn why(app: &App, cluster: &Cluster, choice: &Choice, weights: &Weights) -> Deciding {
    let chosen = choice.node();
    let Some(next) = choice.runners_up[0] else {
        return match choice.examined {
            0 | 1 => crate::policy::only_candidate(cluster, chosen),
            _ => Deciding::because("the only node where nobody is expected to lose its QoS"),
        };
    };
    let (ours, theirs) = (
        losses(app, cluster, chosen, weights),
        losses(app, cluster, next, weights),
    );
    let (lane, most) = (0..LANES)
        .map(|lane| (lane, theirs[lane] - ours[lane]))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((0, 0.0));
    let platform_ln = |node| app.platform_ln(cluster.summary(node).platform);
    let platform = -platform_ln(next) + platform_ln(chosen);
    let name = cluster.name(next);
    let there = at(app, cluster, next, weights);
    let resource = match (platform > most, most > 0.001) {
        (true, _) if platform > 0.001 => Some("platform".to_string()),
        (false, true) => Some(resource_id(lane).to_string()),
        _ => None,
    };
    let why = match &resource {
        None => format!("on {name} it would do no better: {there}"),
        Some(_) => format!("on {name} it {there}"),
    };
    Deciding { resource, why }
}

/// What is predicted for the newcomer, and who would lose the most by it.
pub fn expected(app: &App, cluster: &Cluster, node: NodeId) -> ExpectedPerformance {
    let summary = cluster.summary(node);
    let weights = Weights::default();
    let view = NodeView::of(node, cluster, &weights);
    let counted = app.counted(summary.shares_cpus);
    let pressure = view.company.before(&app.responses, counted);
    let mut own = performance(&app.responses, &pressure, counted);
    if summary.residents > 0 {
        own = own.widened(app.responses.unexplained[usize::from(summary.shares_cpus)]);
    }
    own.ln += app.platform_ln(summary.platform);
    let after = view.company.with(&app.responses, counted);
    let most_hurt = cluster
        .residents(node)
        .map(|(_, resident)| {
            let resident = &resident.app;
            let counted = resident.counted(summary.shares_cpus);
            let among = |company: &Company| {
                let pressure = company.around(&resident.responses, counted);
                performance(&resident.responses, &pressure, counted).performance()
            };
            MostAffected {
                app: resident.name().into(),
                before: among(&view.company),
                after: among(&after),
            }
        })
        .max_by(|a, b| (a.before - a.after).total_cmp(&(b.before - b.after)))
        .filter(|hurt| hurt.before - hurt.after > 0.0005);
    ExpectedPerformance {
        performance: own.performance(),
        ci95: own.ci95(),
        most_hurt,
    }
}
