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
    let names = ["type", "ratio", "conn_size", "value_size"];
    let iterations = header
        .iter()
        .skip(COLUMNS_BEFORE)
        .filter(|name| name.starts_with("iter"))
        .count();
    let known = names
        .iter()
        .enumerate()
        .all(|(at, name)| header.get(at) == Some(name));
    if known && iterations > 0 {
        return Ok(iterations);
    }
    let found: Vec<&str> = header.iter().collect();
    Err(Mistake::Header {
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
        Ok(RwCell {
            reads_per_write: self.number_above_zero("ratio", 1)?,
            connections: self.whole("conn_size", 2)?,
            value_bytes: self.whole("value_size", 3)?,
            iterations: (0..iterations)
                .map(|at| self.iteration(at))
                .collect::<Result<_, _>>()?,
            comment: self.text(COLUMNS_BEFORE + iterations).to_owned(),
        })
    }

    fn number_above_zero(&self, field: &str, column: usize) -> Result<f64, Mistake> {
        match self.text(column).parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
            _ => Err(self.mistake(field, column, "a number above 0")),
        }
    }

    fn whole(&self, field: &str, column: usize) -> Result<u64, Mistake> {
        match self.text(column).parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(self.mistake(field, column, "a whole number above 0")),
        }
    }

    fn iteration(&self, at: usize) -> Result<Iteration, Mistake> {
        let column = COLUMNS_BEFORE + at;
        let rate = |text: &str| {
            text.parse::<f64>()
                .ok()
                .filter(|rate| rate.is_finite() && *rate >= 0.0)
        };
        self.text(column)
            .split_once(':')
            .and_then(|(reads, writes)| {
                Some(Iteration {
                    reads: rate(reads)?,
                    writes: rate(writes)?,
                })
            })
            .ok_or_else(|| {
                let field = format!("iter{}", at + 1);
                self.mistake(&field, column, "reads:writes per second")
            })
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
