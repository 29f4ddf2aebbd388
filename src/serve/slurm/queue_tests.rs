use super::*;
use serde_json::json;

/// As Slurm 22.05 wrote them.
fn recorded() -> Vec<Job> {
    let json = include_bytes!("../../../tests/fixtures/slurm/squeue-22.05.json");
    jobs(json).expect("a recorded queue")
}

fn one(id: u64) -> Job {
    let found = recorded().into_iter().find(|job| job.id == id);
    found.unwrap_or_else(|| panic!("job {id}"))
}

#[test]
fn jobs_that_have_ended_are_told_apart() {
    let ended = recorded();
    let ended = ended.iter().filter(|job| job.phase == Phase::Ended);
    assert_eq!(ended.map(|job| job.id).collect::<Vec<_>>(), [8, 9]);
}

#[test]
fn running_jobs_tell_where_and_what() {
    let job = one(10);
    assert_eq!((job.phase, job.cpus), (Phase::Running, 2));
    assert_eq!(job.nodes, ["n1"]);
    assert_eq!(job.profile.as_deref(), Some("xz"));
    // What follows the name in a comment is not looked at.
    assert_eq!(one(11).profile.as_deref(), Some("gcc"));
    assert_eq!(one(26).profile.as_deref(), Some("xz"));
    assert_eq!(one(27).profile, None);
}

#[test]
fn what_asks_for_more_than_a_place_is_left_alone() {
    for (id, why) in [
        (11, "it may take several nodes"),
        (12, "it takes several nodes"),
        (14, "it has its node for itself"),
        (15, "it has its node for itself"),
        (19, "it asks for a reservation"),
        (20, "it names nodes"),
        (24, "it is heterogeneous"),
    ] {
        assert_eq!(one(id).fixed, Some(why), "job {id}");
    }
    for id in [13, 16, 21, 22, 26, 27] {
        assert_eq!(one(id).fixed, None, "job {id}");
    }
}

#[test]
fn held_delayed_and_dependent_jobs_cannot_start() {
    for id in [16, 17, 18] {
        assert!(!one(id).can_start, "job {id}");
    }
    assert!(one(13).can_start && one(22).can_start);
}

#[test]
fn an_array_has_its_tasks_and_users_exclusions_are_kept() {
    let job = one(13);
    assert_eq!(job.array, Some((13, vec![1, 2, 3, 4, 5, 6])));
    assert_eq!(job.excluded, ["n2"]);
    assert_eq!(one(22).memory_mb, 200);
    assert_eq!(one(21).memory_mb, 500);
}

/// A job of ours, as `squeue` shows it, with other values of some keys.
fn changed(keys: Value) -> Job {
    let mut job = json!({"job_id": 7, "job_state": "PENDING", "state_reason": "Priority",
        "cpus": 2, "node_count": 1, "tasks": 1, "partition": "p", "priority": 10});
    for (key, value) in keys.as_object().expect("keys") {
        job[key] = value.clone();
    }
    let document = json!({"jobs": [job]}).to_string();
    jobs(document.as_bytes()).unwrap().remove(0)
}

#[test]
fn numbers_and_states_are_read_as_later_versions_write_them() {
    let set = |number: u64| json!({"set": true, "infinite": false, "number": number});
    let new = changed(
        json!({"job_state": ["PENDING"], "cpus": set(2), "node_count": set(1),
        "priority": set(10), "tasks": set(1), "shared": [],
        "memory_per_node": {"set": false, "infinite": false, "number": 9}}),
    );
    assert_eq!(new, changed(json!({})));
}

#[test]
fn a_node_that_we_required_is_no_request_of_the_user() {
    let note = "jostle profile=xz ticket=1 node=n2: why";
    let ours = changed(json!({"required_nodes": "n2", "admin_comment": note}));
    assert_eq!(ours.fixed, None);
    assert_eq!(ours.profile.as_deref(), Some("xz"));
    let users = changed(json!({"required_nodes": "n3", "admin_comment": note}));
    assert_eq!(users.fixed, Some("it names nodes"));
}

#[test]
fn a_delay_that_is_ours_does_not_keep_a_job_from_starting() {
    let note = "jostle profile=xz ticket=1 waiting-since=5: why";
    let keys = json!({"state_reason": "BeginTime", "admin_comment": note});
    assert!(changed(keys).can_start);
    assert!(!changed(json!({"state_reason": "BeginTime"})).can_start);
}

#[test]
fn what_is_no_queue_is_refused_and_what_is_no_job_left_out() {
    assert!(jobs(b"squeue: error: cannot contact").is_err());
    assert_eq!(jobs(br#"{"jobs": [3, null, {}]}"#), Ok(Vec::new()));
}

#[test]
fn a_node_counts_once_and_is_up_when_it_takes_jobs() {
    let recorded = nodes(include_str!(
        "../../../tests/fixtures/slurm/sinfo-22.05.txt"
    ));
    assert_eq!(recorded.default_partition.as_deref(), Some("p"));
    assert_eq!(recorded.nodes["n3"].idle_cpus, 2);
    assert_eq!(recorded.nodes["n1"].idle_cpus, 0);
    let text = "n1|10|idle|p*|0/2/0/2\nn1|10|idle|q|0/2/0/2\nn2|10|down*|p*|0/0/2/2\nn3|10|resv|q|0/2/0/2\ngarbage\n";
    let nodes = nodes(text);
    assert_eq!(nodes.nodes.len(), 3);
    assert!(nodes.nodes["n1"].up && !nodes.nodes["n2"].up && !nodes.nodes["n3"].up);
    assert_eq!(nodes.of_partitions("").len(), 2);
    assert_eq!(nodes.of_partitions("p,q,none").len(), 3);
}
