//! A validation as a person reads it.

mod matrix;
mod sources;

pub use matrix::grid;
pub use matrix::group_text;

use super::style::Style;
use super::text;
use jostle_measure::validate::Effect;
use jostle_measure::validate::Selectivity;
use jostle_measure::validate::Size;
use jostle_measure::validate::Validation;
use jostle_measure::validate::Victim;

/// The whole report: sources, the matrix, what stands out, what misses a bar.
pub fn page(validation: &Validation, style: Style) -> String {
    let mut page = head(validation, style);
    page += "\nEach source by itself\n\n";
    page += &sources::sources(validation, style);
    page += &sources::remarks(validation, style);
    page +=
        "\nWhat each source (row) costs each other (column), percent of its performance lost\n\n";
    page += &matrix::matrix(validation, style);
    page += &matrix::missing(validation, style);
    page += &matrix::standing_out(validation, style);
    page += &victims(validation, style);
    page += &verdict(validation, style);
    page
}

fn head(validation: &Validation, style: Style) -> String {
    text::facts("", 10, head_facts(validation), style.prose())
}

/// Which machine, when, and where.
pub fn head_facts(validation: &Validation) -> [(&'static str, Option<String>); 3] {
    let machine = &validation.machine;
    let virtualized = match &machine.virtualized {
        Some(by) => format!(", virtualized ({by})"),
        None => String::new(),
    };
    let machine = format!(
        "{}, {} CPUs, kernel {}{virtualized}",
        machine.model, machine.cpus, machine.kernel
    );
    let quick = match validation.quick {
        true => "; --quick: few levels, short windows",
        false => "",
    };
    let measured = format!(
        "{}, in {:.1} s, by jostle {}, seed {}{quick}",
        validation.recorded_at,
        validation.duration_seconds,
        validation.tool_version,
        validation.seed
    );
    let victims = format!(
        "on CPU {}; sources that share it take {:.0} % in turns every {:.2} ms",
        validation.target_cpu,
        validation.slice_share_percent,
        validation.slice_period_seconds * 1e3
    );
    [
        ("machine", Some(machine)),
        ("measured", Some(measured)),
        ("victims", Some(victims)),
    ]
}

/// What each victim points at, victims of one answer together.
fn victims(validation: &Validation, style: Style) -> String {
    let of = |wanted: Selectivity| -> Vec<&Victim> {
        let all = validation.victims.iter();
        all.filter(|victim| victim.selectivity == wanted).collect()
    };
    let answers = [
        (Selectivity::OwnFirst, "point at their own resource first"),
        (Selectivity::OtherFirst, "point at another resource first"),
        (
            Selectivity::NotShownHere,
            "surely lose less than the bar to their own source in this placement",
        ),
        (
            Selectivity::Unresolved,
            "lose an unresolved part to their own source",
        ),
        (
            Selectivity::NotMeasured,
            "were not measured under their own source",
        ),
    ];
    let lines: Vec<String> = answers
        .into_iter()
        .filter_map(|(answer, words)| {
            let victims = of(answer);
            let names: Vec<String> = victims
                .iter()
                .map(|victim| match answer {
                    Selectivity::OtherFirst => {
                        format!("{} ({})", victim.resource, victim.flagged.join(", "))
                    }
                    _ => victim.resource.clone(),
                })
                .collect();
            (!names.is_empty()).then(|| format!("{words}: {}", names.join(", ")))
        })
        .collect();
    text::titled("Victims", &lines, style.prose())
}

fn verdict(validation: &Validation, style: Style) -> String {
    let cross: Vec<&Effect> = validation
        .effects
        .iter()
        .filter(|effect| effect.is_cross_talk())
        .collect();
    let count = |size| cross.iter().filter(|effect| effect.size == size).count();
    let mut page = String::from("\n");
    page += &text::wrap(
        "",
        &format!(
            "Of {} effects on other resources {} are surely below {} %, {} surely not, {} unresolved.",
            cross.len(),
            count(Size::Small),
            validation.bars.cross_talk_percent,
            count(Size::Large),
            count(Size::Unresolved)
        ),
        style.prose(),
    );
    let failures = validation.failures();
    page += &match failures.is_empty() {
        true => "Every bar holds.\n".to_string(),
        false => text::titled("Bars missed", &failures, style.prose()),
    };
    page
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use jostle_host::machine::fake::cores;
    use jostle_measure::validate::Bars;
    use jostle_measure::validate::FORMAT;
    use jostle_measure::validate::Level;
    use jostle_measure::validate::Linearity;
    use jostle_measure::validate::Missing;
    use jostle_measure::validate::Source;
    use jostle_measure::validate::Status;
    use jostle_measure::validate::Strength;
    use jostle_profile::reading::Reading;

    /// One source that holds every bar, one that could not run, and effects of
    /// every size.
    pub fn example() -> Validation {
        let level = |percent: f64| Level {
            intensity_percent: percent,
            achieved_percent: vec![percent, percent + 1.0, percent - 1.0],
            median_percent: percent,
        };
        let source = |resource: &str| Source {
            resource: resource.to_string(),
            status: Status::Measured,
            reason: None,
            placement: None,
            linearity: Reading::Value(Linearity {
                measured_by: "operations".into(),
                levels: [0.0, 50.0, 100.0].map(level).to_vec(),
                r_squared: 0.999,
                slope: 1.0,
                worst_deviation_points: 0.5,
                worst_at_percent: 50.0,
                repeat_spread_points: 2.0,
                remark: None,
            }),
            displaced: None,
            strength: Reading::Value(Strength {
                achieved: 99e9,
                full_scale: 1e11,
                unit: "operations_per_second".into(),
                percent: 99.0,
                basis: "peak".into(),
            }),
        };
        let effect =
            |source: &str, victim: &str, loss: f64, size, explanation: Option<&str>| Effect {
                source: source.to_string(),
                victim: victim.to_string(),
                blocks: 8,
                reached_percent: 100.0,
                loss_percent: loss,
                ci95: [loss - 1.0, loss + 1.0],
                size,
                explanation: explanation.map(str::to_string),
            };
        Validation {
            format: FORMAT.to_string(),
            tool_version: "0".into(),
            recorded_at: "2026-01-01T00:00:00Z".into(),
            duration_seconds: 1.0,
            seed: 7,
            quick: false,
            machine: cores(2, 1).facts(),
            target_cpu: 1,
            slice_period_seconds: 0.0005,
            slice_share_percent: 20.0,
            sources: vec![
                source("int"),
                Source {
                    status: Status::NotShared,
                    reason: Some("it takes two <b>CPUs</b>".into()),
                    linearity: Reading::unavailable("no worker & no hope"),
                    strength: Reading::unavailable("no worker & no hope"),
                    ..source("interconnect")
                },
            ],
            effects: vec![
                effect("int", "int", 40.0, Size::Large, None),
                effect("int", "fp", 0.2, Size::Small, None),
                effect("fp", "int", -4.5, Size::Unresolved, None),
                effect(
                    "vector",
                    "int",
                    12.0,
                    Size::Large,
                    Some("lowers the frequency"),
                ),
            ],
            missing: vec![Missing {
                source: "memory-capacity".into(),
                victim: "int".into(),
                reason: "no time was left".into(),
            }],
            victims: vec![
                victim("int", Selectivity::OwnFirst, &["int"]),
                victim("fp", Selectivity::OtherFirst, &["vector", "fp"]),
            ],
            bars: Bars::default(),
        }
    }

    fn victim(resource: &str, selectivity: Selectivity, flagged: &[&str]) -> Victim {
        Victim {
            resource: resource.into(),
            selectivity,
            flagged: flagged.iter().map(|name| name.to_string()).collect(),
            reason: None,
        }
    }

    #[test]
    fn everything_found_is_shown_with_its_doubt() {
        let page = page(&example(), Style::plain());
        for text in [
            "[40]",
            " -5?",
            " 12!",
            "vector costs int 12.0 % (11.0 to 13.0, 8 blocks): lowers the frequency",
            "interconnect: no worker & no hope",
            "not shared",
            "Of 3 effects on other resources 1 are surely below 5 %, 1 surely not, 1 unresolved.",
            "memory-capacity on int: no time was left",
            "point at their own resource first: int",
            "point at another resource first: fp (vector, fp)",
        ] {
            assert!(page.contains(text), "no '{text}' in:\n{page}");
        }
        assert!(
            page.lines().all(|line| line.chars().count() <= 120),
            "{page}"
        );
    }

    #[test]
    fn what_was_not_measured_holds_no_bar() {
        let mut validation = example();
        validation.sources.pop();
        validation.missing.clear();
        validation.victims.pop();
        let held = |validation: &Validation| {
            let mut all = validation.clone();
            all.effects.retain(|effect| effect.size != Size::Unresolved);
            all
        };
        assert_eq!(held(&validation).failures(), Vec::<String>::new());
        let page = page(&held(&validation), Style::plain());
        assert!(page.contains("Every bar holds."), "{page}");
        assert!(validation.failures()[0].starts_with("1 of 3 effects"));
        let mut nothing = held(&validation);
        nothing.effects.clear();
        nothing.sources.push(nothing.sources[0].clone());
        assert_eq!(
            nothing.failures(),
            ["no effect of one source on another's victim was measured"]
        );
        let mut unseen = held(&validation);
        unseen.sources[0].displaced = Some(Reading::unavailable("others hold it"));
        assert_eq!(
            unseen.failures(),
            ["int (displaced): not measured: others hold it"]
        );
    }

    #[test]
    fn what_misses_a_bar_is_named() {
        let mut validation = example();
        validation.effects[3].explanation = None;
        if let Reading::Value(linearity) = &mut validation.sources[0].linearity {
            linearity.r_squared = 0.9;
            linearity.worst_deviation_points = 7.0;
        }
        if let Reading::Value(strength) = &mut validation.sources[0].strength {
            strength.percent = 80.0;
        }
        assert_eq!(
            validation.failures(),
            [
                "int: R² 0.9000, below 0.99",
                "int: 7.0 points off at 50 %, more than 5",
                "int: reaches 80.0 % of its full scale, less than 95 %",
                "interconnect: not measured: no worker & no hope",
                "2 of 4 effects on other resources are unresolved, more than 10 %; --budget gives them more time",
                "the fp demo points at vector, fp before its own resource",
                "vector on int: 12.0 % lost, unexplained",
            ]
        );
        let page = page(&validation, Style::plain());
        assert!(
            page.contains("Bars missed") && page.contains("UNEXPLAINED"),
            "{page}"
        );
    }
}
