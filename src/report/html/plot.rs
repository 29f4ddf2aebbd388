//! Small line plots as SVG. Colours come from the page's style, so that one drawing
//! serves light, dark and print.

use super::sheet::escaped;
use std::fmt::Write;

const LEFT: f64 = 30.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 20.0;

/// A drawing area with percent on both axes.
pub struct Plot {
    width: f64,
    height: f64,
    /// Ends of the axes.
    x: [f64; 2],
    y: [f64; 2],
    marks: String,
}

impl Plot {
    pub fn new(size: [f64; 2], x: [f64; 2], y: [f64; 2]) -> Self {
        let mut plot = Plot {
            width: size[0],
            height: size[1],
            x,
            y,
            marks: String::new(),
        };
        plot.axes();
        plot
    }

    fn place(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let share =
            |value: f64, [from, to]: [f64; 2]| ((value - from) / (to - from)).clamp(0.0, 1.0);
        [
            LEFT + share(x, self.x) * (self.width - LEFT - RIGHT),
            TOP + (1.0 - share(y, self.y)) * (self.height - TOP - BOTTOM),
        ]
    }

    fn axes(&mut self) {
        for at in steps(self.y) {
            let [x, y] = self.place([self.x[0], at]);
            let (end, label) = (self.width - RIGHT, x - 4.0);
            let _ = write!(
                self.marks,
                "<path class=\"axis\" d=\"M{x:.0} {y:.1}H{end:.0}\"/><text x=\"{label:.0}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{at:.0}</text>",
                y + 3.5
            );
        }
        for at in steps(self.x) {
            let [x, _] = self.place([at, 0.0]);
            let anchor = match at >= self.x[1] {
                true => "end",
                false => "middle",
            };
            let _ = write!(
                self.marks,
                "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{at:.0}</text>",
                self.height - 5.0
            );
        }
    }

    /// A line through `points`.
    pub fn line(&mut self, class: &str, points: impl IntoIterator<Item = [f64; 2]>) {
        let mut path = String::new();
        for point in points {
            let [x, y] = self.place(point);
            let letter = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{x:.1} {y:.1}");
        }
        let _ = write!(self.marks, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// The interval of a point, with its ends.
    pub fn interval(&mut self, x: f64, ends: [f64; 2]) {
        let [x, low] = self.place([x, ends[0]]);
        let [_, high] = self.place([0.0, ends[1]]);
        let _ = write!(
            self.marks,
            "<path class=\"error\" d=\"M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h6M{left:.1} {high:.1}h6\"/>",
            left = x - 3.0
        );
    }

    pub fn dot(&mut self, point: [f64; 2]) {
        let [x, y] = self.place(point);
        let _ = write!(
            self.marks,
            "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>"
        );
    }

    /// The drawing; `words` say what it shows to who does not see it.
    pub fn svg(self, words: &str) -> String {
        format!(
            "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            self.width,
            self.height,
            escaped(words),
            self.marks
        )
    }
}

/// Round numbers on an axis, ends included where they are round.
fn steps([from, to]: [f64; 2]) -> Vec<f64> {
    let step = match to - from {
        reach if reach > 150.0 => 100.0,
        reach if reach > 60.0 => 50.0,
        reach if reach > 25.0 => 20.0,
        _ => 10.0,
    };
    let first = (from / step).ceil() as i64;
    let last = (to / step).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_within_the_drawing() {
        let mut plot = Plot::new([240.0, 140.0], [0.0, 100.0], [0.0, 120.0]);
        assert_eq!(plot.place([0.0, 0.0]), [30.0, 120.0]);
        assert_eq!(plot.place([100.0, 500.0]), [232.0, 8.0], "held at the edge");
        plot.line("line", [[0.0, 100.0], [100.0, 60.0]]);
        plot.interval(100.0, [50.0, 70.0]);
        let svg = plot.svg("a <b>");
        assert!(svg.contains("aria-label=\"a &lt;b&gt;\""), "{svg}");
        assert!(svg.contains("d=\"M30.0 26.7L232.0 64.0\""), "{svg}");
    }

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(steps([0.0, 120.0]), [0.0, 50.0, 100.0]);
        assert_eq!(steps([-20.0, 20.0]), [-20.0, 0.0, 20.0]);
    }
}
