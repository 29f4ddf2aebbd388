//! Profiles: read, shown, predicted with, placed by, compared and merged.

use super::finite;
use crate::report::Style;
use crate::report::comparison_junit;
use crate::report::comparison_markdown;
use crate::report::comparison_page;
use crate::report::placement;
use crate::report::prediction;
use crate::report::profile_details;
use crate::report::profile_page;
use crate::report::resource_page;
use crate::report::switch_page;
use jostle_compare::MARGIN;
use jostle_compare::Settings;
use jostle_compare::compare as compared;
use jostle_compare::gate::Gate as Conditions;
use jostle_compare::merge;
use jostle_profile as format;
use jostle_profile::Profile;
use jostle_profile::layout;
use jostle_profile::rows;
use jostle_schedule::App;
use jostle_schedule::Cluster;
use jostle_schedule::Node;
use jostle_schedule::PolicyOptions;
use jostle_schedule::Wanted;
use jostle_schedule::admission::Gate;
use jostle_schedule::place_all;
use jostle_schedule::policy_kind;
use jostle_schedule::predict;
use jostle_schedule::predict::Population;
use jostle_schedule::predict::Subject;
use std::sync::Arc;

/// Between two profiles in one input.
const BETWEEN: &[u8] = b"\n====\n";

/// A profile that is accepted.
pub(super) fn accepted(data: &[u8]) -> Option<Profile> {
    let read = format::parse(data).ok()?;
    format::check(&read).ok()?;
    Some(read)
}

/// A profile from its bytes to a place on a node.
pub fn profile(data: &[u8]) {
    let Some(read) = accepted(data) else {
        return;
    };
    finite::check("the profile", &read);
    let text = layout::json(&read).expect("what was read can be written");
    let again = accepted(text.as_bytes()).expect("what was written can be read");
    assert!(again == read, "written and read, it is another profile");
    let style = Style::plain();
    profile_page(&read, style);
    profile_details(&read, style.with_width(60));
    for id in read.resources.keys() {
        resource_page(&read, id, style).expect("it has this resource");
    }
    if let Ok(page) = switch_page(&read, 0.003) {
        assert!(!page.is_empty());
    }
    finite::check("a row", &rows::rows("file", &read));
    let app = Arc::new(App::completed(&read, Population::bundled()));
    for shares_cpus in [false, true] {
        forecast(&read, &app, shares_cpus);
        placed(&app, shares_cpus);
    }
}

fn forecast(read: &Profile, app: &App, shares_cpus: bool) {
    let subject = |name| Subject {
        name,
        responses: &app.responses,
        counted: app.counted(shares_cpus),
        qos: read.qos.threshold,
    };
    let subjects = [subject("one"), subject("two"), subject("three")];
    let predictions = predict::co_location(&subjects, shares_cpus);
    finite::check("a prediction", &predictions);
    prediction::page(&predictions, shares_cpus, &[], Style::plain());
}

fn placed(app: &Arc<App>, shares_cpus: bool) {
    for name in ["jostle", "paragon", "bazaar", "quasar-sizing", "bloc"] {
        let Some(kind) = policy_kind(name) else {
            continue;
        };
        let node = |name: &str| Node {
            name: name.into(),
            cpus: 4,
            memory_bytes: 8 << 30,
            platform: None,
            shares_cpus,
        };
        let mut cluster = Cluster::new([node("a"), node("b")]).expect("two nodes");
        let mut policy = (kind.make)(&PolicyOptions {
            seed: 1,
            strict: false,
        });
        let wanted = Wanted {
            app: app.clone(),
            target: None,
            spread: false,
        };
        let wanted = vec![wanted; 3];
        let done = place_all(&wanted, policy.as_mut(), &mut Gate::default(), &mut cluster);
        let done = done.expect("the policies keep to the room there is");
        finite::check("a decision", &done);
        placement::page(
            name,
            &done.placed,
            &done.not_placed,
            &cluster,
            true,
            Style::plain(),
        );
    }
}

/// Two profiles, compared and merged.
pub fn compare(data: &[u8]) {
    let Some(at) = data.windows(BETWEEN.len()).position(|it| it == BETWEEN) else {
        return;
    };
    let (old, new) = (&data[..at], &data[at + BETWEEN.len()..]);
    let (Some(old), Some(new)) = (accepted(old), accepted(new)) else {
        return;
    };
    let settings = Settings {
        margin: MARGIN,
        anyway: true,
        gate: Conditions {
            conditions: Vec::new(),
        },
    };
    if let Ok(comparison) = compared(&old, &new, &settings) {
        finite::check("a comparison", &comparison);
        comparison_page(&comparison, Style::plain());
        comparison_markdown(&comparison);
        comparison_junit(&comparison, true);
    }
    if let Ok(merged) = merge(&[old, new]) {
        finite::check("a merged profile", &merged);
        if let Err(error) = format::check(&merged) {
            panic!("merged, it is no profile: {error}");
        }
        profile_page(&merged, Style::plain());
    }
}
