//! What is written into a job's admin comment: the profile, so that it is known
//! what runs where; where the job may start; and why. Slurm keeps these notes, and
//! there is no other state. Users cannot write admin comments.

const START: &str = "jostle profile=";

/// The longest note that is written, in bytes.
const LONGEST: usize = 500;

/// What was decided for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// Nothing: it starts where Slurm puts it.
    Free,
    /// This node is required.
    Node(String),
    /// Not to start for now; since when, in seconds since 1970.
    Waiting(u64),
}

/// An admin comment of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub profile: String,
    /// Tells jobs apart that Slurm has not numbered yet.
    pub ticket: String,
    pub given: Given,
    pub why: String,
    /// What somebody else wrote before it.
    pub before: String,
}

impl Note {
    /// The note in an admin comment, if there is one.
    pub fn parse(comment: &str) -> Option<Note> {
        let start = comment.find(START)?;
        let (before, ours) = comment.split_at(start);
        let (head, why) = ours[START.len()..].split_once(": ")?;
        let mut words = head.split(' ');
        let profile = words.next()?;
        let ticket = words.next()?.strip_prefix("ticket=")?;
        let given = match words.next()?.split_once('=') {
            Some(("node", name)) if is_name(name) => Given::Node(name.into()),
            Some(("waiting-since", seconds)) => Given::Waiting(seconds.parse().ok()?),
            None => Given::Free,
            Some(_) => return None,
        };
        is_name(profile).then(|| Note {
            profile: profile.into(),
            ticket: ticket.into(),
            given,
            why: why.into(),
            before: before.into(),
        })
    }

    /// As one line without quotes, backslashes and control characters.
    pub fn text(&self) -> String {
        let given = match &self.given {
            Given::Free => "free".into(),
            Given::Node(name) => format!("node={name}"),
            Given::Waiting(since) => format!("waiting-since={since}"),
        };
        let Note {
            profile, ticket, ..
        } = self;
        let ours = plain(&format!(
            "{START}{profile} ticket={ticket} {given}: {}",
            self.why
        ));
        format!("{}{ours}", self.before)
    }
}

/// `text` as one line without quotes, backslashes and control characters, of limited
/// length.
pub fn plain(text: &str) -> String {
    let character = |it: char| match it {
        '"' | '\\' => '\'',
        it if it.is_control() => ' ',
        it => it,
    };
    let mut clean: String = text.chars().map(character).collect();
    let mut end = clean.len().min(LONGEST);
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    clean.truncate(end);
    clean
}

fn is_plain(it: char) -> bool {
    it.is_ascii_alphanumeric() || "._+-".contains(it)
}

/// A name of a profile or a node that may stand in a comment.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && text.chars().all(is_plain)
}

/// The profile that a user's comment names, as the plugin reads it.
pub fn profile_in(comment: &str) -> Option<&str> {
    const KEY: &str = "jostle=";
    let at = comment.match_indices(KEY).find(|(at, _)| {
        let before = comment[..*at].chars().next_back();
        before.is_none_or(|it| it.is_ascii_whitespace() || ",;".contains(it))
    });
    let rest = &comment[at?.0 + KEY.len()..];
    let end = rest.find(|it| !is_plain(it)).unwrap_or(rest.len());
    is_name(&rest[..end]).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(given: Given, before: &str) -> Note {
        Note {
            profile: "numpy-stream".into(),
            ticket: "3f2-17".into(),
            given,
            why: "n1: redis would keep 80 % of its speed".into(),
            before: before.into(),
        }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let node = Given::Node("rack1-n07".into());
        for (given, before) in [
            (node, ""),
            (Given::Waiting(17), "by root; "),
            (Given::Free, ""),
        ] {
            let note = note(given, before);
            assert_eq!(Note::parse(&note.text()), Some(note));
        }
        for bad in [
            "jostle profile=x",
            "jostle profile=a b ticket=1: x",
            "jostle profile=a ticket=1: x",
            "jostle profile=a ticket=1 node=$x: x",
            "jostle profile=a ticket=1 waiting-since=-1: x",
        ] {
            assert_eq!(Note::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_note_is_one_plain_line_of_limited_length() {
        let mut note = note(Given::Free, "");
        note.why = "\"a\\b\"\n".repeat(1000) + "ä";
        let text = note.text();
        assert!(
            text.len() <= LONGEST && !text.contains(['"', '\\', '\n']),
            "{text}"
        );
    }

    #[test]
    fn a_profile_is_found_in_a_users_comment_only_as_a_word() {
        for (comment, profile) in [
            ("jostle=xz", Some("xz")),
            ("night run, jostle=zstd-19;keep", Some("zstd-19")),
            ("jostle=xz$(reboot)", Some("xz")),
            ("two\njostle=redis-closed", Some("redis-closed")),
            ("notjostle=xz", None),
            ("notjostle=xz jostle=gcc", Some("gcc")),
            ("jostle=", None),
            ("jostle=$x", None),
            ("", None),
        ] {
            assert_eq!(profile_in(comment), profile, "{comment:?}");
        }
    }
}
