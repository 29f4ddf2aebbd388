//! The tasks of a job array: `1-6,9,10-20:5%4`.

/// A longer array is steered as a whole.
const MOST: u32 = 65_536;

/// The numbers in `list`; `None` where it is cut short, malformed or too long.
pub fn parse(list: &str) -> Option<Vec<u32>> {
    let (list, _throttle) = list.split_once('%').unwrap_or((list, ""));
    let mut tasks = Vec::new();
    for range in list.split(',') {
        let (range, step) = range.split_once(':').unwrap_or((range, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let step: u32 = step.parse().ok()?;
        if step == 0 || last < first || (last - first) / step >= MOST - tasks.len() as u32 {
            return None;
        }
        tasks.extend((first..=last).step_by(step as usize));
    }
    Some(tasks)
}

/// The same as text, consecutive numbers as a range.
pub fn list(tasks: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for task in tasks {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*task) => *last = *task,
            _ => ranges.push((*task, *task)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let ranges: Vec<String> = ranges.iter().map(range).collect();
    ranges.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tasks_are_read_and_written() {
        assert_eq!(parse("1-3,9,10-20:5%4"), Some(vec![1, 2, 3, 9, 10, 15, 20]));
        assert_eq!(list(&[1, 2, 3, 9, 10, 15]), "1-3,9-10,15");
        for bad in [
            "",
            "1-",
            "3-1",
            "1-5:0",
            "0-4000000000",
            "1,2,...",
            "1-65537",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
