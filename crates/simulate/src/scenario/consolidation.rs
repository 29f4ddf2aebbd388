//! Reads a consolidation, and says where in the file what is wrong.

use super::ScenarioError;
use super::source::Source;
use crate::consolidation::ConsolidationScenario;

/// Reads and checks all of it.
pub fn parse(source: &Source) -> Result<ConsolidationScenario, ScenarioError> {
    let scenario: ConsolidationScenario = source.parse()?;
    scenario.check().map_err(|error| ScenarioError {
        path: source.path.into(),
        line: line_of(source.text, &error.key),
        problem: format!("key `{}`: {}", error.key, error.why),
    })?;
    Ok(scenario)
}

/// Line of `key`, as `days` or `nodes[1].count`: of its table where it is not
/// written out there; `None` where the file is silent.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let sets = |line: &str, key: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let lines = || (1..).zip(text.lines());
    let first = |key: &str| lines().find(|(_, line)| sets(line, key));
    let Some((table, inner)) = key.split_once('.') else {
        let of_table = || lines().find(|(_, line)| is_header(line, key));
        return first(key).or_else(of_table).map(|(number, _)| number);
    };
    let (table, index) = table.split_once('[')?;
    let index: usize = index.strip_suffix(']')?.parse().ok()?;
    let inner = inner.split('[').next().unwrap_or(inner);
    let Some((begin, _)) = lines()
        .filter(|(_, line)| is_header(line, table))
        .nth(index)
    else {
        return first(table).map(|(number, _)| number);
    };
    let own = lines()
        .skip(begin)
        .take_while(|(_, line)| !line.trim_start().starts_with('['));
    let found = own.into_iter().find(|(_, line)| sets(line, inner));
    Some(found.map_or(begin, |(number, _)| number))
}

fn is_header(line: &str, table: &str) -> bool {
    let inside = line.trim().strip_prefix("[[");
    let inside = inside.and_then(|rest| rest.split_once("]]"));
    inside.is_some_and(|(name, _)| name.trim() == table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_where_they_stand() {
        let text = "days = 3\n[[nodes]]\ncount = 1\n[[nodes]]\nname = \"b\"\ncount = 2\n[[apps]]\nsize_gb = [1, 2]\n";
        for (key, line) in [
            ("days", Some(1)),
            ("nodes", Some(2)),
            ("nodes[0].count", Some(3)),
            ("nodes[1].count", Some(6)),
            ("nodes[1].capacity_gb", Some(4)),
            ("apps[0].size_gb[1]", Some(8)),
            ("pieces", None),
        ] {
            assert_eq!(line_of(text, key), line, "{key}");
        }
        assert_eq!(
            line_of("nodes = [{ count = 0 }]", "nodes[0].count"),
            Some(1)
        );
    }
}
