use super::*;
use crate::report::validation::tests::example;
use jostle_schedule::predict::Population;
use serde_json::json;

fn profile(name: &str) -> Profile {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("tests/fixtures/profiles/kv-store.json");
    let mut profile = jostle_profile::load(&path).unwrap();
    profile.workload.name = name.into();
    profile
}

/// Every element that is opened is closed, in order.
fn assert_whole(page: &str) {
    let body = page.split_once("<body>").expect("a body").1;
    let body = body.split_once("<script>").expect("a script").0;
    let mut open: Vec<&str> = Vec::new();
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("tags end");
        let name = tag.split([' ', '/']).next().unwrap();
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "in {body}"),
            None if tag.ends_with('/') || name == "input" => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, [""; 0]);
}

const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[31m\"' onload=x \u{202e}";

#[test]
fn a_page_begins_with_its_conclusion_and_holds_all_of_the_profile() {
    let subjects = Subjects {
        profiles: vec![profile("kv")],
        ..Subjects::default()
    };
    let page = report(&subjects, None);
    let sentence = page.find("Most sensitive to llc-capacity").expect("words");
    assert!(sentence < page.find("<table").unwrap(), "conclusion first");
    for expected in [
        "<h1>Sensitivity of kv</h1>",
        "llc-capacity",
        "Conditions",
        "Curves",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    // Nothing without a number has a bar.
    let row = page.split("llc-capacity</th>").nth(1).unwrap();
    let row = row.split("</tr>").next().unwrap();
    assert!(row.contains("<rect width="), "{row}");
    assert_whole(&page);
}

#[test]
fn several_stand_side_by_side_and_beside_each_other() {
    let profiles = vec![profile("a"), profile(HOSTILE)];
    let matrices = matrices(&profiles, &Population::default());
    let subjects = Subjects {
        profiles,
        ..Subjects::default()
    };
    let page = report(&subjects, Some(&matrices));
    assert!(!page.contains("<script>alert"), "names are text");
    assert!(!page.contains(['\u{1b}', '\u{202e}']), "nothing steers");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("2 profiles of one machine."));
    assert!(page.contains("Of 1 pairs"));
    // Two programs: two maps of four cells.
    let cells = page.matches("keeps ").count();
    assert!(cells >= 8, "{cells}");
    assert_whole(&page);
    for svg in [matrix_svg(&matrices[0]), vector_svg(&subjects.profiles[1])] {
        assert!(!svg.contains("<script"), "{svg}");
        assert_eq!(svg.matches("<svg").count(), 1);
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}

#[test]
fn a_validation_has_its_checks_first_and_marks_its_cells() {
    let page = validation_page(&example());
    assert!(page.contains("no worker &amp; no hope"));
    assert!(
        page.contains(">12 !</td>") && page.contains(">−5 ?</td>"),
        "{page}"
    );
    assert_eq!(
        page.matches("class=\"plot\"").count(),
        1,
        "one source was measured"
    );
    assert_whole(&page);
}

#[test]
fn simulations_are_tables_of_what_their_document_has() {
    let jobs = json!({"scenario": "s<", "policies": [
        {"policy": "a", "admission": "none", "mean": {"mean_performance": 0.5, "qos_share": 0.25},
         "performance_cdf": [[0.1, 0.0], [0.9, 1.0]]},
        {"policy": "b", "admission": "none", "mean": {"mean_performance": 0.75, "qos_share": 0.5},
         "standard_error": {"mean_performance": 0.01, "qos_share": 0.02},
         "performance_cdf": [[0.3, 0.0], [1.0, 1.0]]},
    ]});
    let simulation = Simulation::of(jobs).unwrap();
    let page = simulation.content(2);
    assert!(page.contains("best under b: 75.0\u{a0}%"), "{page}");
    assert!(page.contains("50.0 ± 2.0\u{a0}%"), "{page}");
    assert_eq!(page.matches("class=\"plot\"").count(), 1);
    let other = json!({"scenario": "s", "schemes": [{"scheme": "x", "nodes": {"mean": 3.0}}]});
    assert!(
        Simulation::of(other)
            .unwrap()
            .content(2)
            .contains(">3</td>")
    );
    for bad in [
        json!({}),
        json!({"scenario": "s"}),
        json!({"scenario": "s", "policies": []}),
        json!([1]),
    ] {
        assert!(Simulation::of(bad.clone()).is_none(), "{bad}");
    }
}
