//! Admission in the stream: who is held back, why, and for how long.

use super::*;

/// On node `n1` a job is slow beside 60 % of a CPU.
fn wrangler() -> Gate {
    let mut text = String::from("node,workload,node_cpu_percent,straggler\n");
    for at in 0..300 {
        let cpu = (at * 37) % 100;
        text += &format!("n1,web,{cpu},{}\n", u8::from(cpu > 60));
    }
    let model = crate::admission::train_on_text(&text, "w.csv", Default::default()).unwrap();
    Gate::new(Box::new(crate::admission::Wrangler::new(Some(model))))
}

fn reading(node: &str, cpu: Value, at: f64) -> String {
    let readings = json!({"node_cpu_percent": cpu});
    json!({"event": "node-reading", "name": node, "readings": readings, "at": at}).to_string()
}

fn words(answer: &Value) -> &str {
    answer["decision"]["admission"].as_str().unwrap()
}

#[test]
fn a_node_that_would_slow_a_job_is_vetoed_until_its_readings_change() {
    let mut stream = stream(&[("n1", 8)]).with_gate(wrangler());
    let unknown = one(&mut stream, &arrive("a", "web"));
    assert_eq!(unknown["answer"], "placed");
    assert!(words(&unknown).contains("n1: unknown, admitted: there is no reading"));
    one(&mut stream, &reading("n1", json!(95), 1.0));
    let vetoed = one(&mut stream, &arrive("b", "web"));
    assert_eq!(vetoed["answer"], "waiting", "{vetoed}");
    let why = vetoed["why"].as_str().unwrap();
    assert!(
        why.starts_with("vetoed: n1: ") && why.contains("because of cpu"),
        "{why}"
    );
    // Of another workload nothing is known but by what all share on that node.
    let calm = answers(&mut stream, &reading("n1", json!(10), 2.0));
    assert_eq!(calm[1]["id"], "b");
    assert!(
        words(&calm[1]).contains("likely to be slow there now"),
        "{calm:?}"
    );
    let missing = answers(&mut stream, &reading("n1", Value::Null, 3.0));
    assert_eq!(missing[0]["available"], 0);
    let admitted = one(&mut stream, &arrive("c", "web"));
    assert!(
        words(&admitted).contains("no reading of node_cpu_percent"),
        "{admitted}"
    );
}

#[test]
fn another_node_takes_what_one_vetoes_and_old_readings_say_nothing() {
    let mut stream = stream(&[("n1", 8), ("n2", 4)]).with_gate(wrangler());
    one(&mut stream, &reading("n1", json!(95), 1.0));
    let elsewhere = one(&mut stream, &arrive("a", "web"));
    assert_eq!(elsewhere["node"], "n2", "{elsewhere}");
    let later = json!({"event": "arrive", "id": "b", "app": "web", "at": 100}).to_string();
    let old = one(&mut stream, &later);
    assert_eq!(old["node"], "n1");
    assert!(words(&old).contains("its reading is 99 s old"), "{old}");
}

#[test]
fn a_veto_ends_after_three_readings() {
    let mut stream = stream(&[("n1", 8)]).with_gate(wrangler());
    one(&mut stream, &reading("n1", json!(95), 1.0));
    assert_eq!(one(&mut stream, &arrive("a", "web"))["answer"], "waiting");
    // The same reading vetoes once, however often it is asked.
    for at in 2..9 {
        let cost = json!({"event": "move-cost", "seconds": 1, "at": at}).to_string();
        assert_eq!(answers(&mut stream, &cost).len(), 1);
    }
    assert_eq!(
        answers(&mut stream, &reading("n1", json!(95), 10.0)).len(),
        1
    );
    assert_eq!(
        answers(&mut stream, &reading("n1", json!(94), 11.0)).len(),
        1
    );
    let last = answers(&mut stream, &reading("n1", json!(95), 12.0));
    assert!(
        words(&last[1]).contains("admitted after 3 readings that vetoed it"),
        "{last:?}"
    );
}

#[test]
fn readings_that_cannot_be_are_refused() {
    let mut stream = stream(&[("n1", 8)]).with_gate(wrangler());
    for (line, says) in [
        (
            r#"{"event":"node-reading","name":"n1"}"#,
            "`readings` is missing",
        ),
        (
            r#"{"event":"node-reading","readings":{}}"#,
            "`name` is missing",
        ),
        (
            r#"{"event":"node-reading","name":"x","readings":{}}"#,
            "no node is called `x`",
        ),
        (
            r#"{"event":"node-reading","name":"n1","readings":{"a":"b"}}"#,
            "key `readings",
        ),
        (
            r#"{"event":"node-reading","name":"n1","readings":{"a":1e999}}"#,
            "key `readings",
        ),
        (
            r#"{"event":"node-reading","name":"n1","state":{}}"#,
            "key `state`",
        ),
        (
            r#"{"event":"depart","id":"a","readings":{}}"#,
            "`depart` has none",
        ),
    ] {
        let answer = one(&mut stream, line);
        assert_eq!(answer["answer"], "error");
        assert!(
            answer["message"].as_str().unwrap().contains(says),
            "{answer}"
        );
    }
}

#[test]
fn arq_orders_those_who_wait_and_says_why() {
    let gate = Gate::new(Box::new(crate::admission::Arq::default()));
    let mut stream = stream(&[("n1", 4)]).with_gate(gate);
    assert_eq!(one(&mut stream, &arrive("a", "big"))["answer"], "placed");
    let late = json!({"event": "arrive", "id": "b", "app": "big", "seconds": 1000}).to_string();
    let waits = one(&mut stream, &late);
    assert_eq!(waits["answer"], "waiting", "{waits}");
    let why = waits["why"].as_str().unwrap();
    assert!(why.contains("arq: class 10 of 10, 0 ahead of it"), "{why}");
    let over = one(&mut stream, &arrive("c", "big"));
    assert!(
        over["why"]
            .as_str()
            .unwrap()
            .contains("takes any server with room"),
        "{over}"
    );
    let freed = answers(&mut stream, r#"{"event":"depart","id":"a","at":1}"#);
    // Without `seconds` there is no window in which c would wait for quality.
    assert_eq!(
        (&freed[1]["answer"], &freed[1]["id"]),
        (&json!("placed"), &json!("c"))
    );
    let gone = answers(&mut stream, r#"{"event":"node-down","name":"n1","at":2}"#);
    assert_eq!(
        (&gone[1]["answer"], &gone[1]["from"]),
        (&json!("waiting"), &json!("n1"))
    );
    let back = answers(&mut stream, r#"{"event":"node-up","name":"n1","at":3}"#);
    assert_eq!(back[1]["answer"], "placed");
}

proptest! {
    /// Whatever the order of events, nobody is lost behind an admission.
    #[test]
    fn admissions_keep_the_books(events in prop::collection::vec((0..6u8, 0..6u8, 0..100u8), 1..60)) {
        for name in ["arq", "wrangler"] {
            let gate = match name {
                "arq" => Gate::new(Box::new(crate::admission::Arq::default())),
                _ => wrangler(),
            };
            let mut stream = stream(&[("n1", 4), ("n2", 4)]).with_gate(gate);
            for (at, (kind, who, value)) in events.iter().enumerate() {
                let app = if value % 2 == 0 { "web" } else { "big" };
                let node = if who % 2 == 0 { "n1" } else { "n2" };
                let line = match kind {
                    0 | 1 => json!({"event": "arrive", "id": who.to_string(), "app": app, "seconds": u32::from(*value) * 20, "at": at}),
                    2 => json!({"event": "depart", "id": who.to_string(), "at": at}),
                    3 => json!({"event": "node-down", "name": node}),
                    4 => json!({"event": "node-up", "name": node}),
                    _ => serde_json::from_str(&reading(node, json!(value), at as f64)).unwrap(),
                };
                let answers = stream.handle(&line.to_string());
                prop_assert!(!answers.is_empty());
                check(&stream).map_err(TestCaseError::fail)?;
            }
        }
    }
}
