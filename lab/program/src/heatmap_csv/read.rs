//! Parser of the CSV, with errors that name file, line and column.

use super::{Iteration, RwCell, RwHeatmap};

/// Columns before the first iteration.
const COLUMNS_BEFORE: usize = 4;

/// Error for a file that cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum Mistake {
    /// The bytes are no CSV.
    #[error("{file}: {reason}; save it as CSV with commas, as rw-benchmark.sh writes it")]
    NotCsv {
        file: String,
        /// Error of the CSV reader.
        reason: csv::Error,
    },
    /// The first line is that of another format.
    #[error(
        "{file}: the first line is `{found}`; a file of etcd's rw-benchmark.sh begins with \
         type,ratio,conn_size,value_size,iter1"
    )]
    Header { file: String, found: String },
    /// A field holds an unexpected value.
    #[error("{file}:{line}: {field} is `{value}`; expected {expected}")]
    Field {
        file: String,
        /// Line number, from 1.
        line: u64,
        /// Name of the column.
        field: String,
        value: String,
        /// Description of valid values.
        expected: &'static str,
    },
}

/// Parses the text of a file; errors call it `file`.
pub fn parse(file: &str, text: &str) -> Result<RwHeatmap, Mistake> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut rows = reader.records().map(|row| {
        row.map_err(|reason| Mistake::NotCsv {
            file: file.to_owned(),
            reason,
        })
    });
    let header = rows.next().transpose()?.unwrap_or_default();
    let iterations = iterations_of(file, &header)?;
    let mut map = RwHeatmap::default();
    for row in rows {
        let row = row?;
        let line = Line {
            file,
            number: row.position().map_or(0, csv::Position::line),
            row: &row,
        };
        match row.get(0) {
            Some("PARAM") => map.parameters = line.text(COLUMNS_BEFORE + iterations).to_owned(),
            Some("DATA") => map.cells.push(line.cell(iterations)?),
            _ => return Err(line.mistake("type", 0, "PARAM or DATA")),
        }
    }
    Ok(map)
}

fn iterations_of(file: &str, header: &csv::StringRecord) -> Result<usize, Mistake> {
    let found: Vec<&str> = header.iter().collect();
    let others = found.strip_prefix(&["type", "ratio", "conn_size", "value_size"]);
    let iterations = others.map(|names| names.iter().filter(|it| it.starts_with("iter")).count());
    iterations
        .filter(|count| *count > 0)
        .ok_or_else(|| Mistake::Header {
            file: file.to_owned(),
            found: found.join(","),
        })
}

struct Line<'a> {
    file: &'a str,
    number: u64,
    row: &'a csv::StringRecord,
}

impl Line<'_> {
    fn text(&self, column: usize) -> &str {
        self.row.get(column).unwrap_or_default()
    }

    fn cell(&self, iterations: usize) -> Result<RwCell, Mistake> {
        let iterations = (0..iterations).map(|at| {
            let name = format!("iter{}", at + 1);
            self.parsed(&name, COLUMNS_BEFORE + at, "reads:writes per second", rates)
        });
        let whole = |text: &str| text.parse().ok().filter(|number| *number > 0);
        let above_zero = |text: &str| number(text).filter(|number| *number > 0.0);
        Ok(RwCell {
            reads_per_write: self.parsed("ratio", 1, "a number above 0", above_zero)?,
            connections: self.parsed("conn_size", 2, "a whole number above 0", whole)?,
            value_bytes: self.parsed("value_size", 3, "a whole number above 0", whole)?,
            comment: self.text(COLUMNS_BEFORE + iterations.len()).to_owned(),
            iterations: iterations.collect::<Result<_, _>>()?,
        })
    }

    fn parsed<T>(
        &self,
        field: &str,
        column: usize,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Mistake> {
        parse(self.text(column)).ok_or_else(|| self.mistake(field, column, expected))
    }

    fn mistake(&self, field: &str, column: usize, expected: &'static str) -> Mistake {
        Mistake::Field {
            file: self.file.to_owned(),
            line: self.number,
            field: field.to_owned(),
            value: self.text(column).to_owned(),
            expected,
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn rates(text: &str) -> Option<Iteration> {
    let (reads, writes) = text.split_once(':')?;
    let rate = |text: &str| number(text).filter(|rate| *rate >= 0.0);
    Some(Iteration {
        reads: rate(reads)?,
        writes: rate(writes)?,
    })
}
