//! Rust source as words: enough of the language to know what a file declares,
//! imports and names, without a parser.

/// A module of a file: the file itself or an inline `mod x { … }`.
#[derive(Default)]
pub struct Module {
    /// Names declared here: functions, types, constants, macros.
    pub items: Vec<String>,
    /// Child modules in files of their own.
    pub files: Vec<String>,
    /// Child modules inside this file.
    pub inline: Vec<(String, Module)>,
    pub imports: Vec<Import>,
    /// Paths of two names or more outside of `use`.
    pub paths: Vec<Vec<String>>,
    /// Macros called, without the `!`.
    pub macros: Vec<String>,
    /// Whether the word `unsafe` stands here.
    pub has_unsafe: bool,
}

/// One name brought in by `use`.
pub struct Import {
    /// As written; the last is `*` for all names of a module.
    pub path: Vec<String>,
    /// What it is called here.
    pub name: String,
    /// `pub use` or `pub(…) use`: passed on, not used.
    pub passed_on: bool,
}

/// Names, numbers, `::` and single signs; comments, strings and characters left
/// out.
pub fn words(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let start = at;
        match bytes[at] {
            b'/' if rest.starts_with("//") => at += rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => at += block_comment(rest),
            b'"' => at += string(rest),
            b'\'' => at += character(rest),
            b'r' | b'b' | b'c' if literal(rest).is_some() => at += literal(rest).unwrap_or(1),
            byte if byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii() => {
                let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric());
                // A sign outside of ASCII that is no letter.
                at += end.filter(|&end| end > 0).unwrap_or(match end {
                    None => rest.len(),
                    Some(_) => rest.chars().next().map_or(1, char::len_utf8),
                });
                words.push(&text[start..at]);
            }
            b':' if rest.starts_with("::") => {
                words.push("::");
                at += 2;
            }
            byte => {
                if !byte.is_ascii_whitespace() {
                    words.push(&rest[..1]);
                }
                at += 1;
            }
        }
    }
    words
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A character, or only the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((escape, _))) => {
            escape + 1 + text[escape + 1..].find('\'').map_or(0, |end| end + 1)
        }
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

/// Length of `b"…"`, `b'…'`, `r"…"`, `r#"…"#` and the like.
fn literal(text: &str) -> Option<usize> {
    let prefix = text.find(|c| !matches!(c, 'r' | 'b' | 'c'))?;
    let raw = text[..prefix].contains('r');
    let hashes = text[prefix..].find(|c| c != '#')?;
    let open = prefix + hashes;
    match text.as_bytes()[open] {
        b'"' if raw => {
            let end = format!("\"{}", "#".repeat(hashes));
            let inside = &text[open + 1..];
            Some(open + 1 + inside.find(&end)? + end.len())
        }
        b'"' if hashes == 0 => Some(open + string(&text[open..])),
        b'\'' if hashes == 0 && &text[..prefix] == "b" => Some(open + character(&text[open..])),
        _ => None,
    }
}

/// What a file or an inline module says. Items for tests only are left out.
pub fn module(words: &[&str]) -> Module {
    let mut module = Module::default();
    let mut at = 0;
    while at < words.len() {
        let mut for_tests = false;
        while words.get(at) == Some(&"#") {
            let open = at + 1 + usize::from(words.get(at + 1) == Some(&"!"));
            let end = closing(words, open);
            let inside = &words[open..end];
            for_tests |= inside.contains(&"test") && !inside.contains(&"not");
            at = end + 1;
        }
        let Some(keyword) = (at..words.len().min(at + 12)).find(|&at| is_item(words, at)) else {
            at += 1;
            continue;
        };
        // Everything up to here is visibility and qualifiers, or else no item.
        if words[at..keyword]
            .iter()
            .any(|word| matches!(*word, ";" | "{" | "}"))
        {
            at += 1;
            continue;
        }
        let end = end_of_item(words, keyword);
        if !for_tests {
            item(&mut module, &words[at..keyword], &words[keyword..=end]);
        }
        at = end + 1;
    }
    module
}

fn is_item(words: &[&str], at: usize) -> bool {
    match words[at] {
        "use" | "mod" | "struct" | "enum" | "union" | "trait" | "type" | "fn" | "impl"
        | "static" => true,
        // `const fn` is a function.
        "const" => !matches!(words.get(at + 1), Some(&("fn" | "unsafe" | "extern"))),
        // `macro_rules! x { … }` or `thread_local! { … }`.
        _ => words.get(at + 1) == Some(&"!") && words[at] != "#",
    }
}

/// Position of what closes the bracket at `open`.
fn closing(words: &[&str], open: usize) -> usize {
    let mut depth = 0;
    for (at, word) in words.iter().enumerate().skip(open) {
        match *word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    words.len() - 1
}

fn end_of_item(words: &[&str], keyword: usize) -> usize {
    let until_semicolon = matches!(words[keyword], "use" | "const" | "static" | "type");
    let mut at = keyword;
    while at < words.len() {
        match words[at] {
            ";" => return at,
            "{" if !until_semicolon => return closing(words, at),
            "(" | "[" | "{" => at = closing(words, at),
            _ => {}
        }
        at += 1;
    }
    words.len() - 1
}

fn item(module: &mut Module, before: &[&str], words: &[&str]) {
    if words[0] != "mod" {
        module.has_unsafe |= before.contains(&"unsafe") || words.contains(&"unsafe");
        let called = words
            .windows(2)
            .filter(|pair| pair[1] == "!" && is_name(pair[0]) && pair[0] != "macro_rules");
        module.macros.extend(called.map(|pair| pair[0].to_string()));
    }
    match words[0] {
        "use" => {
            let end = words.len() - 1;
            imports(
                &mut module.imports,
                &words[1..end],
                &[],
                before.contains(&"pub"),
            );
        }
        "mod" if words[2] == ";" => module.files.push(words[1].to_string()),
        "mod" => {
            let inside = self::module(&words[3..words.len() - 1]);
            module.inline.push((words[1].to_string(), inside));
        }
        "impl" => body(module, words),
        "macro_rules" => {
            module.items.push(words[2].to_string());
            body(module, words);
        }
        _ if words[1] == "!" => body(module, words),
        _ => {
            let name = words[1..].iter().find(|word| **word != "mut");
            module.items.extend(name.map(|name| name.to_string()));
            body(module, words);
        }
    }
}

/// The names of one `use` tree.
fn imports(found: &mut Vec<Import>, words: &[&str], before: &[String], passed_on: bool) {
    let mut path = before.to_vec();
    let mut at = usize::from(words.first() == Some(&"::"));
    while at < words.len() {
        match words[at] {
            "::" => {}
            "{" => {
                let end = closing(words, at);
                let mut start = at + 1;
                let mut next = start;
                while next <= end {
                    match words[next] {
                        "{" => next = closing(words, next),
                        "," | "}" if next > start => {
                            imports(found, &words[start..next], &path, passed_on);
                            start = next + 1;
                        }
                        _ => {}
                    }
                    next += 1;
                }
                return;
            }
            "as" => {
                let name = words[at + 1].to_string();
                found.push(Import {
                    path,
                    name,
                    passed_on,
                });
                return;
            }
            "self" if !path.is_empty() => {}
            word => path.push(word.to_string()),
        }
        at += 1;
    }
    if let Some(name) = path.last().cloned() {
        found.push(Import {
            path,
            name,
            passed_on,
        });
    }
}

/// Paths, and `use` inside of functions.
fn body(module: &mut Module, words: &[&str]) {
    let mut at = 1;
    while at < words.len() {
        if words[at] == "use" && !matches!(words.get(at + 1), Some(&("<" | ">" | ","))) {
            let end = at
                + words[at..]
                    .iter()
                    .position(|word| *word == ";")
                    .unwrap_or(1);
            imports(&mut module.imports, &words[at + 1..end], &[], false);
            at = end;
        } else if is_name(words[at]) && words.get(at + 1) == Some(&"::") && words[at - 1] != "::" {
            let mut path = vec![words[at].to_string()];
            while words.get(at + 1) == Some(&"::")
                && words.get(at + 2).is_some_and(|word| is_name(word))
            {
                at += 2;
                path.push(words[at].to_string());
            }
            if path.len() > 1 {
                module.paths.push(path);
            }
        }
        at += 1;
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c == '_' || c.is_alphabetic())
}
