use super::super::change::Change;
use super::super::change::release;
use super::super::harm::tests::recorded;
use super::super::planner::Planner;
use super::super::queue;
use super::*;
use serde_json::Value;
use serde_json::json;

const NOW: u64 = 1_000_000;

/// What the helper keeps.
struct Helper {
    world: World,
    planner: Planner,
}

impl Helper {
    fn submit(&mut self, question: &Question, now: u64) -> Answer {
        self.world.submit(question, now)
    }

    /// A round, without making the changes.
    fn refresh(&mut self, nodes: Nodes, jobs: &[Job], now: u64) -> Vec<Change> {
        let tickets = self.world.open_tickets(jobs, now);
        let (board, changes) = self.planner.plan(&nodes, jobs, &tickets, now);
        self.world.accept(nodes, board, self.world.last_ticket());
        changes
    }
}

fn world() -> Helper {
    Helper {
        world: World::new(recorded(), 7),
        planner: Planner::new(recorded(), 600),
    }
}

/// `count` nodes of two CPUs; `idle` of each.
fn nodes(idle: &[u32]) -> Nodes {
    let line = |(at, idle): (usize, &u32)| format!("n{at}|1000|mix|p*|{}/{idle}/0/2\n", 2 - idle);
    let text: String = idle.iter().enumerate().map(line).collect();
    queue::nodes(&text)
}

fn jobs(list: &[Value]) -> Vec<Job> {
    queue::jobs(json!({"jobs": list}).to_string().as_bytes()).unwrap()
}

fn running(id: u64, profile: &str, node: &str) -> Value {
    json!({"job_id": id, "job_state": "RUNNING", "cpus": 1, "nodes": node, "partition": "p",
        "comment": format!("jostle={profile}")})
}

fn pending(id: u64, profile: &str, admin_comment: &str) -> Value {
    let required = admin_comment.split("node=").nth(1);
    let required = required.and_then(|it| it.split(':').next());
    json!({"job_id": id, "job_state": "PENDING", "state_reason": "Resources", "cpus": 1,
        "tasks": 1, "partition": "p", "priority": 1_000_000 - id, "eligible_time": NOW + 5,
        "required_nodes": required.unwrap_or_default(), "admin_comment": admin_comment,
        "comment": format!("jostle={profile}")})
}

fn question(profile: &str) -> Question {
    Question {
        event: "submit".into(),
        profile: profile.into(),
        cpus: 1,
        ..Question::default()
    }
}

fn submitted(answer: Answer) -> (Option<String>, Option<u64>, Note) {
    match answer {
        Answer::Steer {
            node,
            wait,
            comment,
        } => (node, wait, Note::parse(&comment).expect("a note")),
        Answer::None { why } => panic!("{why}"),
    }
}

#[test]
fn nothing_is_said_before_the_cluster_was_seen() {
    let answer = world().submit(&question("xz"), NOW);
    assert!(matches!(answer, Answer::None { .. }), "{answer:?}");
}

#[test]
fn jobs_submitted_at_once_are_kept_apart_before_slurm_shows_them() {
    let mut world = world();
    world.refresh(nodes(&[2, 2]), &[], NOW);
    let (first, _, note) = submitted(world.submit(&question("numpy-stream"), NOW));
    let (second, _, other) = submitted(world.submit(&question("awk"), NOW));
    assert!(first.is_some() && second.is_some() && first != second);
    assert_ne!(note.ticket, other.ticket);
    // Still not in the list: held for them, until they must have come.
    world.refresh(nodes(&[2, 2]), &[], NOW + 1);
    let (third, wait, note) = submitted(world.submit(&question("numpy-stream"), NOW + 1));
    assert_eq!((third, wait), (None, Some(LEASE_S)));
    assert_eq!(note.given, Given::Waiting(NOW + 1));
    world.refresh(nodes(&[2, 2]), &[], NOW + 20);
    let (fourth, _, _) = submitted(world.submit(&question("numpy-stream"), NOW + 20));
    assert!(fourth.is_some());
}

#[test]
fn the_place_of_a_job_that_was_cancelled_at_once_is_free_again() {
    let mut world = world();
    world.refresh(nodes(&[2]), &[], NOW);
    let (node, _, note) = submitted(world.submit(&question("numpy-stream"), NOW));
    assert_eq!(node.as_deref(), Some("n0"));
    let mut cancelled = pending(1, "numpy-stream", &note.text());
    cancelled["job_state"] = json!("CANCELLED");
    world.refresh(nodes(&[2]), &jobs(&[cancelled]), NOW + 1);
    let (node, _, _) = submitted(world.submit(&question("awk"), NOW + 1));
    assert_eq!(node.as_deref(), Some("n0"));
}

#[test]
fn what_is_unknown_or_fixed_is_not_steered() {
    let mut world = world();
    world.refresh(nodes(&[2]), &[], NOW);
    let answer = world.submit(&question("$(reboot)\"\n"), NOW);
    let Answer::Steer { comment, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(comment, "jostle: no profile is called $(reboot)' ");
    let mut fixed = question("awk");
    fixed.fixed = "it names nodes".into();
    let (node, wait, note) = submitted(world.submit(&fixed, NOW));
    assert_eq!((node, wait, note.given), (None, None, Given::Free));
    let mut excluded = question("awk");
    excluded.exclude = "n0".into();
    let (node, wait, note) = submitted(world.submit(&excluded, NOW));
    assert_eq!((node, wait, note.given), (None, None, Given::Free));
}

#[test]
fn a_pending_job_is_moved_when_a_place_without_harm_comes_free() {
    let mut world = world();
    let given = "jostle profile=awk ticket=1 node=n1: why";
    let list = jobs(&[
        running(1, "numpy-stream", "n0"),
        running(2, "redis-closed", "n1"),
        running(3, "redis-closed", "n1"),
        running(4, "redis-closed", "n2"),
        pending(5, "awk", given),
    ]);
    assert_eq!(world.refresh(nodes(&[1, 0, 0]), &list, NOW), []);
    let changes = world.refresh(nodes(&[1, 0, 1]), &list, NOW);
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].job, "5");
    assert_eq!(changes[0].settings[0], "ReqNodeList=n2");
    assert!(
        changes[0].settings[1].starts_with("AdminComment=jostle profile=awk ticket=1 node=n2: ")
    );
}

#[test]
fn one_that_would_hurt_everywhere_waits_renews_and_starts_in_the_end() {
    let mut world = world();
    let around = [running(1, "numpy-stream", "n0")];
    let with = |comment: &str| {
        let mut all = around.to_vec();
        all.push(pending(2, "awk", comment));
        jobs(&all)
    };
    let settings = |world: &mut Helper, comment: &str, now: u64| {
        let changes = world.refresh(nodes(&[1]), &with(comment), now);
        changes
            .into_iter()
            .flat_map(|it| it.settings)
            .collect::<Vec<_>>()
    };
    let first = settings(&mut world, "", NOW);
    assert_eq!(first[0], "StartTime=now+60");
    let note = first[1].strip_prefix("AdminComment=").expect("a note");
    assert!(
        note.contains(" waiting-since=1000000: would hurt on every node"),
        "{note}"
    );
    // Eligible in more than half a minute: nothing to renew.
    assert!(settings(&mut world, note, NOW - 40).is_empty());
    let again = settings(&mut world, note, NOW + 1);
    assert_eq!(again, ["StartTime=now+60"]);
    let end = settings(&mut world, note, NOW + 600);
    assert_eq!(end[..2], ["ReqNodeList=n0", "StartTime=now"]);
    assert!(end[2].contains("waited long enough"), "{end:?}");
}

#[test]
fn tasks_of_an_array_are_given_nodes_one_by_one() {
    let mut world = world();
    let mut array = pending(9, "numpy-stream", "");
    array["array_job_id"] = json!(9);
    array["array_task_string"] = json!("1-30%9");
    let changes = world.refresh(nodes(&[2, 2]), &jobs(&[array]), NOW);
    let starting = changes
        .iter()
        .filter(|it| it.settings[0].starts_with("ReqNodeList="));
    let starting: Vec<&str> = starting.map(|it| it.job.as_str()).collect();
    assert_eq!(starting, ["9_1", "9_2"]);
    assert_eq!(changes.last().map(|it| it.job.as_str()), Some("9_[17-30]"));
    assert_eq!(changes.last().unwrap().settings[0], "StartTime=now+60");
}

#[test]
fn tasks_that_were_given_nodes_keep_them_when_slurm_tells_them_apart() {
    let mut world = world();
    let mut rest = pending(9, "numpy-stream", "");
    rest["array_job_id"] = json!(9);
    rest["array_task_string"] = json!("2-3");
    let mut first = pending(
        10,
        "numpy-stream",
        "jostle profile=numpy-stream ticket=1 node=n0: x",
    );
    first["array_job_id"] = json!(9);
    first["array_task_id"] = json!(1);
    first["priority"] = rest["priority"].clone();
    let changes = world.refresh(nodes(&[2]), &jobs(&[rest, first]), NOW);
    let changed: Vec<&str> = changes.iter().map(|it| it.job.as_str()).collect();
    assert_eq!(changed, ["9_2", "9_3"]);
    assert!(
        changes
            .iter()
            .all(|it| it.settings[0].starts_with("StartTime="))
    );
}

#[test]
fn a_new_process_knows_from_the_notes_what_was_given() {
    let given = "jostle profile=awk ticket=old-1 node=n0: why";
    let list = jobs(&[running(1, "redis-closed", "n1"), pending(2, "awk", given)]);
    assert_eq!(world().refresh(nodes(&[1, 1]), &list, NOW), []);
    // The user's comment has another name than what was asked for at submission.
    let list = jobs(&[pending(2, "no-such-profile", given)]);
    assert_eq!(world().refresh(nodes(&[1, 1]), &list, NOW), []);
}

#[test]
fn a_job_that_is_answered_during_a_round_keeps_its_place() {
    let mut helper = world();
    helper.refresh(nodes(&[2]), &[], NOW);
    let before = helper.world.last_ticket();
    let (board, _) = helper.planner.plan(&nodes(&[2]), &[], &[], NOW);
    submitted(helper.submit(&question("numpy-stream"), NOW));
    helper.world.accept(nodes(&[2]), board, before);
    let (node, wait, _) = submitted(helper.submit(&question("awk"), NOW));
    assert_eq!((node, wait), (None, Some(LEASE_S)));
}

#[test]
fn what_others_wrote_into_the_admin_comment_is_kept() {
    let mut list = pending(2, "awk", "");
    list["admin_comment"] = json!("by the boss");
    let changes = world().refresh(nodes(&[1]), &jobs(&[list.clone()]), NOW);
    let note = changes[0].settings[1]
        .strip_prefix("AdminComment=")
        .expect("a note");
    assert!(
        note.starts_with("by the boss jostle profile=awk "),
        "{note}"
    );
    assert_eq!(
        Note::parse(note).map(|it| it.before).as_deref(),
        Some("by the boss ")
    );
    list["admin_comment"] = json!("x".repeat(900));
    assert_eq!(world().refresh(nodes(&[1]), &jobs(&[list]), NOW), []);
}

#[test]
fn a_node_that_is_gone_is_taken_back() {
    let given = "jostle profile=awk ticket=1 node=n7: why";
    let changes = world().refresh(nodes(&[1]), &jobs(&[pending(2, "awk", given)]), NOW);
    assert_eq!(changes[0].settings[0], "ReqNodeList=n0");
}

#[test]
fn releasing_undoes_what_is_ours_alone() {
    let waiting = "boss: keep; jostle profile=awk ticket=1 waiting-since=5: why";
    let mut users = pending(3, "awk", "jostle profile=awk ticket=1 node=n0: why");
    users["required_nodes"] = json!("n1");
    let list = jobs(&[
        running(1, "awk", "n0"),
        pending(2, "awk", "jostle profile=awk ticket=1 node=n0: why"),
        users,
        pending(4, "awk", waiting),
        pending(5, "awk", ""),
    ]);
    let changes = release(&list);
    let first: Vec<(&str, &str)> = changes
        .iter()
        .map(|it| (it.job.as_str(), it.settings[0].as_str()))
        .collect();
    assert_eq!(first, [("2", "ReqNodeList="), ("4", "StartTime=now")]);
    let note = &changes[1].settings[1];
    assert!(
        note.starts_with("AdminComment=boss: keep; jostle profile=awk ticket=1 free: "),
        "{note}"
    );
}
