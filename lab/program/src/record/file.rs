//! A record as a file: compressed JSON, written by replacing it whole, read with errors that
//! name the place.

use std::io::{Read as _, Write as _};
use std::path::Path;

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};

use super::{FORMAT, KindResult, Outcome, Record};

/// File name of a record in its folder.
pub const FILE: &str = "run.json.gz";
/// File name of records of earlier labs, which are not compressed.
pub const FILE_PLAIN: &str = "run.json";
/// First bytes of compressed files.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A measured run with answers is at least this long.
const SECONDS_MIN: f64 = 1e-6;
/// More operations than any machine performs in a year.
const OPERATIONS_MAX: u64 = 1 << 52;
/// More repetitions than any experiment has.
const PAIRS_MAX: u32 = 1_000_000;

/// Error for a record that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The file cannot be read.
    #[error("{path}: {error}: name a folder that a measuring verb wrote")]
    File {
        path: String,
        /// Error of the system.
        error: std::io::Error,
    },
    /// The text is not the JSON of a record.
    #[error(
        "{path}: this is no record of the lab, or a damaged one: {error}; take a copy, or measure \
         again"
    )]
    Contents {
        path: String,
        /// Position and cause.
        error: serde_json::Error,
    },
    /// A number that no run can have.
    #[error(
        "{path}: run {run}: {field} is {value}, which no run can have: the file is damaged; take \
         a copy, or measure again"
    )]
    Number {
        path: String,
        /// Index of the run in the record, from 0.
        run: usize,
        field: &'static str,
        value: f64,
    },
    /// The record has another format version.
    #[error(
        "{path}: written in format {found}, this lab reads format {FORMAT}: use the lab that wrote it"
    )]
    Format { path: String, found: u64 },
}

impl Record {
    /// Reads the record at `path`: a file, or a folder with one.
    pub fn load(path: &Path) -> Result<Record, Unreadable> {
        let plain = path.join(FILE_PLAIN);
        let path = match path.is_dir() {
            true if plain.exists() && !path.join(FILE).exists() => plain,
            true => path.join(FILE),
            false => path.to_owned(),
        };
        let shown = path.display().to_string();
        let text = read_text(&path).map_err(|error| Unreadable::File {
            path: shown.clone(),
            error,
        })?;
        Record::parse(&shown, &text)
    }

    /// Parses the text of a record; errors call it `path`.
    pub fn parse(path: &str, text: &str) -> Result<Record, Unreadable> {
        let contents = |error| Unreadable::Contents {
            path: path.to_owned(),
            error,
        };
        let value: serde_json::Value = serde_json::from_str(text).map_err(contents)?;
        match value["format"].as_u64() {
            Some(found) if found != u64::from(FORMAT) => Err(Unreadable::Format {
                path: path.to_owned(),
                found,
            }),
            // Parses the text and not `value`, so that errors have line and column.
            _ => {
                let mut record: Record = serde_json::from_str(text).map_err(contents)?;
                record.check(path)?;
                record.kind_results().for_each(KindResult::simplify);
                Ok(record)
            }
        }
    }

    /// Checks the numbers that tables and verdicts divide by or count up to.
    fn check(&self, path: &str) -> Result<(), Unreadable> {
        for (at, run) in self.runs.iter().enumerate() {
            let seconds = run.load.seconds;
            let kinds = run.load.kinds.values();
            let counts = kinds.map(|kind| kind.operations.max(kind.failed));
            let most = counts.max().unwrap_or(0);
            let has_answers = run.outcome == Outcome::Measured && most > 0;
            let is_short = has_answers && seconds < SECONDS_MIN;
            let numbers = [
                ("load.seconds", seconds, is_short),
                ("operations", most as f64, most > OPERATIONS_MAX),
                ("pair", f64::from(run.pair), run.pair > PAIRS_MAX),
            ];
            if let Some((field, value, _)) = numbers.into_iter().find(|(_, _, bad)| *bad) {
                return Err(Unreadable::Number {
                    path: path.to_owned(),
                    run: at,
                    field,
                    value,
                });
            }
        }
        Ok(())
    }

    /// Writes the record as a whole: see [`replace`].
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_vec(self).map_err(std::io::Error::other)?;
        let mut file = GzEncoder::new(Vec::new(), Compression::best());
        file.write_all(&text)?;
        replace(path, &file.finish()?)
    }
}

/// Writes `contents` to a new file and renames that to `path`: a reader sees either the old
/// contents or all of the new.
pub fn replace(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, contents)?;
    std::fs::rename(&beside, path)
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(path)?;
    let mut text = String::new();
    match bytes.starts_with(&GZIP) {
        true => MultiGzDecoder::new(bytes.as_slice()).read_to_string(&mut text)?,
        false => bytes.as_slice().read_to_string(&mut text)?,
    };
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Environment;

    fn partial() -> Record {
        Record {
            format: FORMAT,
            verb: "run".into(),
            title: "a title".into(),
            command_line: vec!["inkstone-lab".into(), "run".into()],
            tool: "0.1.0".into(),
            complete: false,
            incomplete_because: Some("interrupted".into()),
            started_unix_ms: 1,
            seed: 7,
            environment: Environment::default(),
            schedule: Vec::new(),
            runs: Vec::new(),
        }
    }

    #[test]
    fn a_partial_record_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        partial().save(&folder.path().join(FILE)).unwrap();
        assert_eq!(Record::load(folder.path()).unwrap(), partial());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_record_of_an_earlier_lab_is_read_uncompressed() {
        let folder = tempfile::tempdir().unwrap();
        let text = serde_json::to_string(&partial()).unwrap();
        std::fs::write(folder.path().join(FILE_PLAIN), text).unwrap();
        assert_eq!(Record::load(folder.path()).unwrap(), partial());
    }

    #[test]
    fn a_compressed_record_that_is_cut_short_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        partial().save(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let error = Record::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains(FILE), "{error}");
    }

    #[test]
    fn other_files_and_formats_are_refused_by_name() {
        let error = Record::parse("a.json", "{}").unwrap_err().to_string();
        assert!(error.starts_with("a.json: this is no record"), "{error}");
        let error = Record::parse("a.json", "{\"format\": 99}").unwrap_err();
        assert!(error.to_string().contains("format 99"), "{error}");
    }
}
