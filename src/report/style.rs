//! How to draw: width, colour, and tables without lines.

use comfy_table::Attribute;
use comfy_table::Cell;
use comfy_table::Color;
use comfy_table::ColumnConstraint;
use comfy_table::ContentArrangement;
use comfy_table::Row;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use std::io::IsTerminal;

/// Width when nothing says otherwise: a row then fits on one line.
const DEFAULT_WIDTH: u16 = 120;
/// Prose wider than this is hard to read.
const PROSE_WIDTH: u16 = 100;
/// Cells up to this long are kept in one piece.
const LONGEST_WORD: u16 = 24;
/// Below this nothing can be laid out; rows wrap instead.
const MIN_WIDTH: u16 = 60;

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal; lines are kept within them.
    pub width: u16,
    pub colour: bool,
}

impl Style {
    /// Without colour, 120 columns: what a file or a pipe gets.
    pub fn plain() -> Self {
        Style {
            width: DEFAULT_WIDTH,
            colour: false,
        }
    }

    /// What stdout can show: its width, and colour when it is a terminal and
    /// neither `NO_COLOR` (no-color.org) nor `TERM=dumb` forbids it.
    pub fn for_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let width = if terminal { Table::new().width() } else { None };
        Style {
            width: width.unwrap_or(DEFAULT_WIDTH).max(MIN_WIDTH),
            colour: terminal && !forbidden,
        }
    }

    pub fn with_width(self, width: u16) -> Self {
        Style {
            width: width.max(MIN_WIDTH),
            ..self
        }
    }

    /// Columns for running text.
    pub fn prose(self) -> usize {
        usize::from(self.width.min(PROSE_WIDTH))
    }

    /// A table without lines, its cells two columns apart.
    fn table(self) -> Table {
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.width);
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table
    }

    fn heading(self, title: &str) -> Cell {
        let cell = Cell::new(title);
        if self.colour {
            cell.add_attribute(Attribute::Bold)
        } else {
            cell
        }
    }
}

/// A table of `titles` and `rows`; columns `whole` keep their words together.
pub fn table(
    style: Style,
    titles: impl IntoIterator<Item = &'static str>,
    rows: impl Iterator<Item = impl Into<Row>>,
    whole: &[usize],
) -> String {
    let mut table = style.table();
    table.set_header(titles.into_iter().map(|title| style.heading(title)));
    table.add_rows(rows);
    whole_words(&mut table, whole);
    trimmed(&table)
}

/// Keeps the cells of these columns in one piece, and lets no column waste the
/// width that others need.
fn whole_words(table: &mut Table, columns: &[usize]) {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let widths = table.column_max_content_widths();
    for index in columns {
        // A name longer than any of ours must not push the rest off the page.
        if widths.get(*index).is_none_or(|width| *width > LONGEST_WORD) {
            continue;
        }
        if let Some(column) = table.column_mut(*index) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let last = table.column_iter().count().saturating_sub(1);
    if let Some(column) = table.column_mut(last) {
        column.set_padding((0, 0));
    }
}

/// Table cells are padded with blanks to the column's end.
fn trimmed(table: &Table) -> String {
    let mut out = String::new();
    for line in table.to_string().lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Columns that `lines` take side by side, `gap` apart.
pub fn columns_wide<const N: usize>(lines: &[[String; N]], gap: usize) -> usize {
    let widths = widths(lines);
    widths.iter().sum::<usize>() + gap * (N - 1)
}

fn widths<const N: usize>(lines: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|at| {
        let cells = lines.iter().map(|line| line[at].chars().count());
        cells.max().unwrap_or(0)
    })
}

impl Style {
    /// `lines` side by side, `gap` apart, without wrapping, the first in bold as titles; the last
    /// cell of each line in the colour given for it.
    pub fn columns<const N: usize>(
        self,
        lines: &[[String; N]],
        gap: usize,
        colours: impl IntoIterator<Item = Option<Colour>>,
    ) -> String {
        let widths = widths(lines);
        let mut page = String::new();
        let colours = colours.into_iter().chain(std::iter::repeat(None));
        for (index, (line, colour)) in lines.iter().zip(colours).enumerate() {
            let mut text = String::new();
            for (at, (cell, width)) in line.iter().zip(widths).enumerate() {
                match (at + 1 == N, colour.filter(|_| self.colour)) {
                    (false, _) => text += &format!("{cell:<width$}{:gap$}", ""),
                    (true, None) => text += cell,
                    (true, Some(colour)) => text += &colour.paint(cell),
                }
            }
            let text = text.trim_end();
            match index == 0 && self.colour {
                true => page += &format!("\u{1b}[1m{text}\u{1b}[0m\n"),
                false => page += &format!("{text}\n"),
            }
        }
        page
    }
}

/// A table of `titles` and rows of cells, each in its colour where one is given.
pub fn heat_table(
    style: Style,
    titles: &[String],
    rows: impl Iterator<Item = Vec<(String, Option<Colour>)>>,
) -> String {
    let mut table = style.table();
    table.set_header(titles.iter().map(|title| style.heading(title)));
    for row in rows {
        table.add_row(row.into_iter().map(|(text, colour)| {
            let cell = Cell::new(text);
            match colour.filter(|_| style.colour) {
                Some(Colour::Dim) => cell.add_attribute(Attribute::Dim),
                Some(Colour::Red) => cell.fg(Color::Red),
                Some(Colour::Yellow) => cell.fg(Color::Yellow),
                Some(Colour::Green) => cell.fg(Color::Green),
                None => cell,
            }
        }));
    }
    whole_words(&mut table, &[0]);
    trimmed(&table)
}

/// Colours of verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Red,
    Green,
    Yellow,
    Dim,
}

impl Colour {
    fn paint(self, text: &str) -> String {
        let code = match self {
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Dim => 2,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}
