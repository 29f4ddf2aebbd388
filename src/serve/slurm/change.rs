//! Changes to pending jobs, as `scontrol` makes them.

use super::board::Board;
use super::board::Verdict;
use super::note::Given;
use super::note::Note;
use super::queue::Job;
use super::queue::Phase;
use super::tasks;

/// How long a job is held back before we look at it again, seconds. When nobody
/// looks, it starts after this time like any other job.
pub const LEASE_S: u64 = 60;

/// A job held back for less than this is held back again, seconds.
const RENEW_BELOW_S: u64 = 30;

/// Why a job is free where there is no node for it.
pub const TOO_LARGE: &str = "not steered: no node that takes jobs is large enough";

/// A change to a pending job.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As `scontrol` names it.
    pub job: String,
    pub settings: Vec<String>,
    /// In words, for the log.
    pub said: String,
}

/// What is to be changed so that a job is where `verdict` says.
pub fn change(job: &Job, name: &str, verdict: Verdict, board: &Board, now: u64) -> Option<Change> {
    let was = job.note.as_ref().map(|note| &note.given);
    let waited = matches!(was, Some(Given::Waiting(_)));
    let mut settings = Vec::new();
    let (given, why) = match verdict {
        Verdict::Node { at, why } => {
            let node = board.name(at).to_string();
            if was == Some(&Given::Node(node.clone())) {
                return None;
            }
            settings.push(format!("ReqNodeList={node}"));
            if waited {
                settings.push("StartTime=now".into());
            }
            (Given::Node(node), why)
        }
        Verdict::Wait { .. } if waited => {
            return (job.eligible <= now + RENEW_BELOW_S).then(|| Change {
                job: name.into(),
                settings: vec![format!("StartTime=now+{LEASE_S}")],
                said: "still waits".into(),
            });
        }
        Verdict::Wait { why } => {
            if matches!(was, Some(Given::Node(_))) {
                settings.push("ReqNodeList=".into());
            }
            settings.push(format!("StartTime=now+{LEASE_S}"));
            (Given::Waiting(job.waits_since(now)), why)
        }
        Verdict::Nowhere if waited => {
            settings.push("StartTime=now".into());
            (Given::Free, TOO_LARGE.into())
        }
        Verdict::Nowhere => return None,
    };
    let said = match &given {
        Given::Node(node) => format!("{node}: {why}"),
        Given::Waiting(_) => format!("waits: {why}"),
        Given::Free => why.clone(),
    };
    let new = Note {
        profile: job.profile.clone()?,
        ticket: "0".into(),
        given: given.clone(),
        why: why.clone(),
        before: match job.admin_comment.trim_end() {
            "" => String::new(),
            others => format!("{others} "),
        },
    };
    let note = match &job.note {
        Some(note) => Note {
            given,
            why,
            ..note.clone()
        },
        None => new,
    };
    settings.push(format!("AdminComment={}", note.text()));
    Some(Change {
        job: name.into(),
        settings,
        said,
    })
}

/// What undoes everything that was given to pending jobs.
pub fn release(jobs: &[Job]) -> Vec<Change> {
    let ours = jobs.iter().filter(|it| it.phase == Phase::Pending);
    let release = |job: &Job| {
        let mut note = job.note.clone()?;
        let mut settings = match (&note.given, job.fixed) {
            (Given::Node(_), None) => vec!["ReqNodeList=".into()],
            (Given::Waiting(_), _) => vec!["StartTime=now".into()],
            _ => return None,
        };
        note.given = Given::Free;
        note.why = "released, jostle slurm has ended".into();
        settings.push(format!("AdminComment={}", note.text()));
        let all = |(base, list): &(u64, Vec<u32>)| format!("{base}_[{}]", tasks::list(list));
        Some(Change {
            job: job.array.as_ref().map_or(job.id.to_string(), all),
            settings,
            said: "released".into(),
        })
    };
    ours.filter_map(release).collect()
}
