//! What is known while a measurement goes on, a few lines that fit below its bar.

use jostle_measure::experiment::run::SoFar;

/// Columns of one resource, and between two.
const CELL: usize = 37;
const GAP: usize = 3;
/// Columns of its name.
const NAME: usize = 18;

/// What each resource costs at full pressure as far as it is known, in lines of at
/// most `width` columns; nothing where they are more than `height`, or too narrow.
pub fn so_far(all: &[SoFar], width: usize, height: usize) -> Vec<String> {
    let abreast = (width + GAP) / (CELL + GAP);
    if abreast == 0 || all.is_empty() {
        return Vec::new();
    }
    let rows = all.len().div_ceil(abreast);
    let cells: Vec<String> = all.iter().map(cell).collect();
    let mut lines = vec!["loss at full pressure, % (* settled)".to_string()];
    lines.extend((0..rows).map(|row| {
        let of_row: Vec<String> = (0..abreast)
            .filter_map(|column| cells.get(row + column * rows))
            .map(|cell| format!("{cell:<CELL$}"))
            .collect();
        of_row.join(&" ".repeat(GAP)).trim_end().to_string()
    }));
    let fits = lines.len() <= height;
    let narrow = lines.iter().any(|line| line.chars().count() > width);
    match fits && !narrow {
        true => lines,
        false => Vec::new(),
    }
}

fn cell(one: &SoFar) -> String {
    let known = match one.loss {
        // A gain is no loss.
        Some([loss, low, high]) => {
            let [loss, low, high] = [loss, low, high].map(|end| (100.0 * end).max(0.0));
            format!("{loss:.1} ({low:.1}-{high:.1})")
        }
        None => "-".to_string(),
    };
    let settled = if one.settled { "*" } else { " " };
    format!("{:<NAME$}{known:>17} {settled}", one.resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: usize) -> Vec<SoFar> {
        let names = ["l2-capacity", "network-bandwidth", "int", "tlb"];
        let names = names.into_iter().cycle().take(count).enumerate();
        names
            .map(|(at, resource)| SoFar {
                resource,
                loss: (at != 2).then_some([0.172, -0.01, 0.183]),
                settled: at == 0,
            })
            .collect()
    }

    #[test]
    fn what_is_known_stands_below_the_bar() {
        let lines = so_far(&some(3), 80, 20);
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert_eq!(
            lines[1],
            "l2-capacity         17.2 (0.0-18.3) *   int                               -"
        );
        assert_eq!(lines[2], "network-bandwidth   17.2 (0.0-18.3)");
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn it_stays_away_where_there_is_no_room() {
        assert!(so_far(&some(18), 80, 9).is_empty());
        assert_eq!(so_far(&some(18), 80, 10).len(), 10);
        assert_eq!(so_far(&some(4), 40, 10).len(), 5);
        for (width, height) in [(20, 40), (0, 0), (80, 0)] {
            assert!(
                so_far(&some(3), width, height).is_empty(),
                "{width} {height}"
            );
        }
        assert!(so_far(&[], 80, 20).is_empty());
    }
}
