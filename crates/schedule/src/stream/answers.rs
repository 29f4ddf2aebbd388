//! Names in answers.

/// At most this many nodes or names are told in a message.
pub(super) const MOST_NAMED: usize = 3;

/// The first few of `names`, and how many more there are.
pub(super) fn some_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.split_at_checked(MOST_NAMED) {
        Some((first, rest)) if !rest.is_empty() => {
            format!("{} and {} more", first.join(", "), rest.len())
        }
        _ if names.is_empty() => "none yet".into(),
        _ => names.join(", "),
    }
}
