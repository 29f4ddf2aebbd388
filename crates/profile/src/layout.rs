//! JSON as it is written: indented, with everything short on one line.
//!
//! A value stands on one line when it fits in [`WIDTH`] columns, and so does an
//! array of numbers or words of any length. What is left is split, one entry a
//! line. A point of a curve is then a line, and two curves can be compared line by line.

use serde::Serialize;

/// Columns of the longest line that an object, or an array with objects or
/// arrays in it, is put on. A point of a curve with full precision needs 150.
const WIDTH: usize = 160;

/// `value` as JSON and a newline. Keys and numbers are those that
/// `serde_json::to_string` writes, in the same order.
///
/// # Errors
/// When `value` has no JSON form.
pub fn json<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    let compact = serde_json::to_string(value)?;
    let mut layout = Layout {
        rest: &compact,
        text: String::with_capacity(compact.len() * 2),
    };
    layout.value(0);
    layout.text.push('\n');
    Ok(layout.text)
}

/// Writes compact JSON, which is known to be well formed, again.
struct Layout<'a> {
    rest: &'a str,
    text: String,
}

impl Layout<'_> {
    fn value(&mut self, depth: usize) {
        let start = self.text.len();
        let line = self.text.rfind('\n').map_or(0, |end| end + 1);
        let source = self.rest;
        // The comma that may follow belongs to the line.
        let room = WIDTH.saturating_sub(self.text[line..].chars().count() + 1);
        if self.on_one_line() && self.text[start..].chars().count() > room {
            self.text.truncate(start);
            self.rest = source;
            self.on_several_lines(depth);
        }
    }

    /// Takes the next value as one line; whether it could be split instead.
    fn on_one_line(&mut self) -> bool {
        let (mut depth, mut collections) = (0, 0);
        let mut splits = false;
        let mut end = 0;
        let bytes = self.rest.as_bytes();
        let mut copied = 0;
        loop {
            match bytes[end] {
                b'"' => end = after_string(bytes, end) - 1,
                open @ (b'{' | b'[') => {
                    depth += 1;
                    collections += 1;
                    splits |= open == b'{' && bytes[end + 1] != b'}' || collections > 1;
                }
                b'}' | b']' if depth > 0 => depth -= 1,
                separator @ (b',' | b':') if depth > 0 => {
                    self.text.push_str(&self.rest[copied..end]);
                    self.text.push(separator as char);
                    self.text.push(' ');
                    copied = end + 1;
                }
                _ => {}
            }
            end += 1;
            let over = bytes.get(end).is_none_or(|next| b",:}]".contains(next));
            if depth == 0 && over {
                break;
            }
        }
        self.text.push_str(&self.rest[copied..end]);
        self.rest = &self.rest[end..];
        splits
    }

    fn on_several_lines(&mut self, depth: usize) {
        let object = self.rest.starts_with('{');
        self.take(1);
        loop {
            self.line(depth + 1);
            if object {
                self.take(after_string(self.rest.as_bytes(), 0) + 1);
                self.text.push(' ');
            }
            self.value(depth + 1);
            if !self.rest.starts_with(',') {
                break;
            }
            self.take(1);
        }
        self.line(depth);
        self.take(1);
    }

    fn line(&mut self, depth: usize) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", depth));
    }

    fn take(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.text.push_str(taken);
        self.rest = rest;
    }
}

/// Where the string that begins at `start` is over.
fn after_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use serde_json::json;

    #[test]
    fn short_values_stand_on_one_line() {
        let cases = [
            (json!(null), "null\n"),
            (json!("a \" , : [ \\"), "\"a \\\" , : [ \\\\\"\n"),
            (json!([]), "[]\n"),
            (json!({}), "{}\n"),
            (
                json!({"a": [1, 2.5], "b": {"c": "d, e"}}),
                "{\"a\": [1, 2.5], \"b\": {\"c\": \"d, e\"}}\n",
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(super::json(&value).unwrap(), expected);
        }
    }

    #[test]
    fn long_objects_are_indented_and_long_lists_of_numbers_are_not() {
        let numbers: Vec<u64> = (0..100).collect();
        let word = "x".repeat(WIDTH);
        let value =
            json!({"curve": [{"at": 1, "y": [0.5, 1.5]}, {"word": word}], "n": numbers, "one": 1});
        let listed = serde_json::to_string(&numbers).unwrap().replace(',', ", ");
        let expected = format!(
            "{{\n  \"curve\": [\n    {{\"at\": 1, \"y\": [0.5, 1.5]}},\n    {{\n      \
             \"word\": \"{word}\"\n    }}\n  ],\n  \"n\": {listed},\n  \"one\": 1\n}}\n"
        );
        assert_eq!(json(&value).unwrap(), expected);
    }

    #[test]
    fn a_line_may_be_as_long_as_the_width_with_its_comma() {
        for (letters, lines) in [(WIDTH - 12, 4), (WIDTH - 11, 6)] {
            // Two spaces, `{"k": "…"}`, and a comma.
            let value = json!([{"k": "ä".repeat(letters)}, {"k": "b".repeat(WIDTH / 2)}]);
            let text = json(&value).unwrap();
            assert_eq!(text.lines().count(), lines, "{text}");
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest.unwrap() <= WIDTH, "{text}");
        }
    }

    #[test]
    fn nothing_is_lost() {
        let deep = (0..100).fold(json!("\u{e9}\n\"\\{[,:"), |inner, level| match level % 2 {
            0 => json!([inner, level, [], {}]),
            _ => json!({"k:,\"": inner, "e": "", "f": -1.5e-300}),
        });
        for value in [deep, json!([[[]], [{}], {"a": {}}]), json!(-1), json!("")] {
            let text = json(&value).unwrap();
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, value);
            assert_eq!(json(&read).unwrap(), text);
        }
    }
}
