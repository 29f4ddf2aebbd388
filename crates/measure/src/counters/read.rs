//! Files that are opened once and read at every sample.

use super::part::Built;
use super::part::Row;
use super::part::Source;
use jostle_host::os::Error;
use jostle_host::os::ParseError;
use jostle_host::os::text::Text;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// Fills as many numbers as there are cells for.
type Parse = Rc<dyn Fn(&str, &mut [f64]) -> Result<(), ParseError>>;

/// Where in the cells the numbers of a file go.
type Wanted = (Range<usize>, Parse);

/// Numbers read out of a file at one time at most.
const MOST: usize = 8;

/// Each file once, with the cells to which something of it is added.
#[derive(Default)]
pub(super) struct Files {
    files: Vec<(Text, Vec<Wanted>)>,
    cells: usize,
}

/// Opens all of `paths`.
pub(super) fn open(
    root: &Path,
    paths: impl IntoIterator<Item = String>,
) -> Result<Vec<Text>, Error> {
    let texts = paths.into_iter().map(|path| Text::open(root, path));
    texts.collect()
}

impl Files {
    /// Adds up in `cells` what `parse` reads out of each of `texts`; of all of
    /// them, or of none when one is not understood.
    pub fn add(
        &mut self,
        mut texts: Vec<Text>,
        cells: Range<usize>,
        parse: impl Fn(&str, &mut [f64]) -> Result<(), ParseError> + 'static,
    ) -> Result<(), Error> {
        let mut numbers = [0.0; MOST];
        for text in &mut texts {
            text.parse(|text| parse(text, &mut numbers[..cells.len()]))?;
        }
        let parse: Parse = Rc::new(parse);
        for text in texts {
            let wanted = (cells.clone(), parse.clone());
            let known = |(other, _): &&mut (Text, Vec<Wanted>)| other.path() == text.path();
            match self.files.iter_mut().find(known) {
                Some((_, all)) => all.push(wanted),
                None => self.files.push((text, vec![wanted])),
            }
        }
        self.cells = self.cells.max(cells.end);
        Ok(())
    }

    /// [`Files::add`] of a single number.
    pub fn add_one(
        &mut self,
        texts: Vec<Text>,
        cell: usize,
        parse: impl Fn(&str) -> Result<f64, ParseError> + 'static,
    ) -> Result<(), Error> {
        self.add(texts, cell..cell + 1, move |text, numbers| {
            numbers[0] = parse(text)?;
            Ok(())
        })
    }

    /// A part that offers `rows`; without files it has no source.
    pub fn built(self, rows: impl IntoIterator<Item = Row>) -> Built {
        Built {
            rows: rows.into_iter().collect(),
            cells: self.cells,
            source: (!self.files.is_empty()).then(|| Box::new(self) as Box<dyn Source>),
            notes: Vec::new(),
        }
    }
}

impl Source for Files {
    fn sample(&mut self, cells: &mut [f64]) {
        let mut numbers = [0.0; MOST];
        for (_, wanted) in &self.files {
            for (place, _) in wanted {
                cells[place.clone()].fill(0.0);
            }
        }
        for (text, wanted) in &mut self.files {
            let text = text.read();
            for (place, parse) in wanted {
                let numbers = &mut numbers[..place.len()];
                let read = text.as_ref().is_ok_and(|text| parse(text, numbers).is_ok());
                for (cell, number) in cells[place.clone()].iter_mut().zip(numbers) {
                    *cell += if read { *number } else { f64::NAN };
                }
            }
        }
    }
}
