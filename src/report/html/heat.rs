//! Tables whose cells are shaded by how much they say.

use super::sheet::escaped;

/// Steps of the shade.
const STEPS: f64 = 10.0;

/// One cell. Its words are told where it is pointed at or has the focus.
pub struct Cell {
    pub text: String,
    pub words: String,
    /// 0–1; `None` for a cell without a number, below 0 for the opposite of what the
    /// table is about.
    pub shade: Option<f64>,
    /// `own`, `miss`, or nothing.
    pub mark: &'static str,
}

/// One row: its name, where the name leads to, and its cells.
pub struct Row {
    pub name: String,
    pub link: Option<String>,
    pub cells: Vec<Cell>,
}

/// The whole map. `hint` is below it until a cell is pointed at.
pub fn map(caption: &str, columns: &[String], rows: &[Row], hint: &str) -> String {
    let caption = escaped(caption);
    let heads = columns.iter();
    let heads: String = heads
        .map(|name| format!("<th scope=\"col\"><span>{}</span></th>", escaped(name)))
        .collect();
    let mut table = format!(
        "<div class=\"map\"><p class=\"muted small\">{caption}</p><div class=\"scroll\">\
         <table class=\"heat\" aria-label=\"{caption}\">\
         <thead><tr><td></td>{heads}</tr></thead><tbody>\n"
    );
    for row in rows {
        let name = escaped(&row.name);
        let head = match &row.link {
            Some(link) => format!("<a href=\"#{}\">{name}</a>", escaped(link)),
            None => name.clone(),
        };
        table += &format!("<tr data-name=\"{name}\"><th scope=\"row\">{head}</th>");
        table.extend(row.cells.iter().map(cell));
        table += "</tr>\n";
    }
    table += &format!(
        "</tbody></table></div><output class=\"status\">{}</output></div>\n",
        escaped(hint)
    );
    table
}

fn cell(cell: &Cell) -> String {
    let shade = match cell.shade {
        None => "none".to_string(),
        Some(shade) if shade < 0.0 => format!("c{}", ((-shade * 3.0).ceil()).clamp(1.0, 3.0)),
        Some(shade) => format!("h{}", (shade * STEPS).round().clamp(0.0, STEPS)),
    };
    let class = match cell.mark {
        "" => shade,
        mark => format!("{shade} {mark}"),
    };
    let words = match cell.words.is_empty() {
        true => String::new(),
        false => format!(" title=\"{}\"", escaped(&cell.words)),
    };
    format!("<td class=\"{class}\"{words}>{}</td>", escaped(&cell.text))
}

/// Several maps of which one is shown: what is chosen, and the maps by name.
pub fn panels(group: &str, legend: &str, maps: &[(&str, String)]) -> String {
    let choices = maps.iter().enumerate();
    let choices: String = choices
        .map(|(at, (name, _))| {
            let checked = if at == 0 { " checked" } else { "" };
            format!(
                "<label><input type=\"radio\" name=\"{group}\" value=\"{at}\"{checked}>{}</label>",
                escaped(name)
            )
        })
        .collect();
    let panels: String = maps
        .iter()
        .map(|(_, map)| format!("<div class=\"panel\">{map}</div>"))
        .collect();
    format!(
        "<div class=\"panels\"><fieldset><legend>{}</legend>{choices}</fieldset>\n{panels}</div>\n",
        escaped(legend)
    )
}
