//! What all pages have in common: one file, one style, nothing from elsewhere.

use crate::report::text;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Nothing is fetched, whatever a text in the page contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// A whole page. `lead` and `body` are markup, `title` is text.
pub fn document(title: &str, lead: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"generator\" content=\"jostle {version}\"><link rel=\"icon\" href=\"data:,\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n\
         <header><h1>{title}</h1>{lead}</header>\n<main>\n{body}</main>\n\
         <footer>Written by jostle {version}. Performance is a fraction of what the program reached \
         without interference; intervals hold 95 %.</footer>\n<script>{SCRIPT}</script></body></html>\n",
        version = env!("CARGO_PKG_VERSION"),
        title = escaped(title),
    )
}

/// `text` as the content of an element or of a quoted attribute: no markup, and
/// nothing that would steer a terminal or turn the direction of writing.
pub fn escaped(text: &str) -> String {
    // A number and its sign stay on one line.
    let text = text::clean(text).replace(" %", "\u{a0}%");
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// A paragraph, `class` given or empty.
pub fn paragraph(class: &str, text: &str) -> String {
    match class {
        "" => format!("<p>{}</p>\n", escaped(text)),
        class => format!("<p class=\"{class}\">{}</p>\n", escaped(text)),
    }
}

/// The heading of a part: `level` is 2 below a title and 3 below a section's name.
pub fn heading(level: u8, text: &str) -> String {
    format!("<h{level} class=\"sub\">{}</h{level}>\n", escaped(text))
}

pub fn list(items: &[String]) -> String {
    let items = items
        .iter()
        .map(|item| format!("<li>{}</li>", escaped(item)));
    format!("<ul>{}</ul>\n", items.collect::<String>())
}

/// Names and values; those without a value are left out.
pub fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let line = |(name, value): (&str, Option<String>)| {
        let value = value?;
        Some(format!(
            "<dt>{}</dt><dd>{}</dd>",
            escaped(name),
            escaped(&value)
        ))
    };
    let lines: String = facts.into_iter().filter_map(line).collect();
    format!("<dl>{lines}</dl>\n")
}

/// What is shown on demand. `note` stands behind the title in grey.
pub fn details(title: &str, note: &str, markup: &str) -> String {
    format!(
        "<details><summary>{} <span>{}</span></summary>{markup}</details>\n",
        escaped(title),
        escaped(note)
    )
}

/// A table of texts: the first column names its row; from column `numbers` on they are
/// set as numbers.
pub fn figures(caption: &str, titles: &[&str], rows: &[Vec<String>], numbers: usize) -> String {
    let class = |at: usize| match at > 0 && at < numbers {
        true => " class=\"text\"",
        false => "",
    };
    let titles = titles.iter().enumerate();
    let titles: String = titles
        .map(|(at, title)| format!("<th scope=\"col\"{}>{}</th>", class(at), escaped(title)))
        .collect();
    let row = |row: &Vec<String>| {
        let cells = row.iter().enumerate();
        let cells: String = cells
            .map(|(at, cell)| match at {
                0 => format!("<th scope=\"row\">{}</th>", escaped(cell)),
                _ => format!("<td{}>{}</td>", class(at), escaped(cell)),
            })
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.iter().map(row).collect();
    let caption = escaped(caption);
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\
         <table class=\"figures\"><caption>{caption}</caption><thead><tr>{titles}</tr></thead>\
         <tbody>\n{rows}</tbody></table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup_or_steers() {
        assert_eq!(
            escaped("<script>\u{1b}[31m&\"'\u{202e}"),
            "&lt;script&gt; [31m&amp;&quot;&#39; "
        );
        let page = document("<b>", "", "");
        assert!(page.contains("<title>&lt;b&gt;</title>"));
        for foreign in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
