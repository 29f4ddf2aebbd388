//! Rows as a Parquet file: every column optional, what is not known is null.

use jostle_profile::rows::Row;
use parquet::data_type::BoolType;
use parquet::data_type::ByteArray;
use parquet::data_type::ByteArrayType;
use parquet::data_type::DataType;
use parquet::data_type::DoubleType;
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedColumnWriter;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::sync::Arc;

/// One column of all rows.
enum Column<'a> {
    Text(Vec<Option<&'a str>>),
    Number(Vec<Option<f64>>),
    Count(Vec<Option<i64>>),
    Flag(Vec<Option<bool>>),
}

/// A Parquet file that rows are written to, a group at a time.
pub struct Table {
    writer: SerializedFileWriter<File>,
}

impl Table {
    /// # Errors
    /// When the file cannot be written.
    pub fn new(file: File) -> Result<Table, ParquetError> {
        let fields: Vec<String> = columns(&[])
            .into_iter()
            .map(|(name, column)| match column {
                Column::Text(_) => format!("optional binary {name} (UTF8);"),
                Column::Number(_) => format!("optional double {name};"),
                Column::Count(_) => format!("optional int64 {name};"),
                Column::Flag(_) => format!("optional boolean {name};"),
            })
            .collect();
        let schema = parse_message_type(&format!("message profiles {{ {} }}", fields.join(" ")))?;
        let properties = Arc::new(WriterProperties::builder().build());
        let writer = SerializedFileWriter::new(file, Arc::new(schema), properties)?;
        Ok(Table { writer })
    }

    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, rows: &[Row]) -> Result<(), ParquetError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for (name, column) in columns(rows) {
            let Some(mut out) = group.next_column()? else {
                return Err(ParquetError::General(format!("there is no column {name}")));
            };
            match column {
                Column::Text(cells) => {
                    let cells = cells.into_iter();
                    put::<ByteArrayType>(
                        &mut out,
                        cells.map(|it| it.map(ByteArray::from)).collect(),
                    )?;
                }
                Column::Number(cells) => put::<DoubleType>(&mut out, cells)?,
                Column::Count(cells) => put::<Int64Type>(&mut out, cells)?,
                Column::Flag(cells) => put::<BoolType>(&mut out, cells)?,
            }
            out.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// # Errors
    /// When the file cannot be written.
    pub fn close(self) -> Result<(), ParquetError> {
        self.writer.close().map(|_| ())
    }
}

fn put<T: DataType>(
    out: &mut SerializedColumnWriter,
    cells: Vec<Option<T::T>>,
) -> Result<(), ParquetError> {
    let present: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    out.typed::<T>()
        .write_batch(&values, Some(&present), None)?;
    Ok(())
}

/// Names and cells, in the order and under the names of the CSV.
fn columns(rows: &[Row]) -> Vec<(&'static str, Column<'_>)> {
    let text = |of: fn(&Row) -> &str| Column::Text(rows.iter().map(|row| Some(of(row))).collect());
    let number = |of: fn(&Row) -> Option<f64>| Column::Number(rows.iter().map(of).collect());
    vec![
        ("file", text(|it| &it.file)),
        ("name", text(|it| &it.name)),
        ("machine", text(|it| &it.machine)),
        ("model", text(|it| &it.model)),
        ("metric", text(|it| &it.metric)),
        ("unit", text(|it| &it.unit)),
        ("recorded_at", text(|it| &it.recorded_at)),
        ("duration_seconds", number(|it| Some(it.duration_seconds))),
        ("resource", text(|it| &it.resource)),
        ("direction", text(|it| it.direction)),
        ("status", text(|it| it.status.name())),
        (
            "placement",
            Column::Text(rows.iter().map(|it| it.placement).collect()),
        ),
        ("score", number(|it| it.score)),
        ("score_low", number(|it| it.score_low)),
        ("score_high", number(|it| it.score_high)),
        (
            "sensitive",
            Column::Flag(rows.iter().map(|it| it.sensitive).collect()),
        ),
        ("intensity_percent", number(|it| it.intensity_percent)),
        ("loss_percent", number(|it| it.loss_percent)),
        ("loss_low_percent", number(|it| it.loss_low_percent)),
        ("loss_high_percent", number(|it| it.loss_high_percent)),
        (
            "windows",
            Column::Count(
                rows.iter()
                    .map(|it| it.windows.map(|it| it as i64))
                    .collect(),
            ),
        ),
        (
            "reason",
            Column::Text(rows.iter().map(|it| it.reason.as_deref()).collect()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::rows::rows;
    use parquet::file::reader::FileReader;
    use parquet::file::reader::SerializedFileReader;
    use parquet::record::Field;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_read_back_has_the_rows_and_nulls_for_what_is_not_known() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/profiles/kv-store.json"
        );
        let profile = jostle_profile::load(path.as_ref()).unwrap();
        let rows = rows("kv-store.json", &profile);
        let file = tempfile::tempfile().unwrap();
        let mut table = Table::new(file.try_clone().unwrap()).unwrap();
        table.write(&rows).unwrap();
        table.close().unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let found: Vec<BTreeMap<String, Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().into_columns().into_iter().collect())
            .collect();
        assert_eq!(found.len(), rows.len());
        for (row, found) in rows.iter().zip(found) {
            assert_eq!(found["resource"], Field::Str(row.resource.clone()));
            assert_eq!(found["score"], row.score.map_or(Field::Null, Field::Double));
            let unknown = found["score"] == Field::Null;
            assert_eq!(unknown, found["reason"] != Field::Null, "{found:?}");
        }
    }
}
