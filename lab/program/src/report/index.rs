//! A page of all records in a folder: date, machine, commit, verdicts, links, and the trends
//! of the rows that several records have.

use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Value, context};

use super::provenance::Provenance;
use super::quantity::Quantity;
use super::sides::{arms, label};
use super::trends::{Filed, trends};
use super::verdicts::{map_verdicts, verdicts};
use super::{ReportError, files, template};
use crate::record::{ARM_A_AGAIN, ARM_NULL, FILE, FILE_PLAIN, Record};

/// Name of the page.
pub const INDEX: &str = "index.html";
/// The page of the folder itself is none of its records.
const README: &str = "README.md";
const SUMMARY: &str = "summary.md";

/// The contents of a folder of records.
#[derive(Debug, Default)]
pub struct Shelf {
    /// Records in the order of time.
    pub records: Vec<Filed>,
    /// Pages without a record: title, and path below the folder.
    pub pages: Vec<(String, String)>,
    /// Sentences about records that cannot be read.
    pub faults: Vec<String>,
}

impl Shelf {
    /// Reads a folder. A record that cannot be read does not hide the others.
    pub fn read(folder: &Path) -> Result<Shelf, ReportError> {
        let failed = |error| ReportError::File {
            path: folder.to_owned(),
            error,
        };
        let mut shelf = Shelf::default();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            shelf.add(&entry.path(), &entry.file_name().to_string_lossy());
        }
        let begin = |it: &Filed| (it.record.started_unix_ms, it.folder.clone());
        shelf.records.sort_by_key(begin);
        shelf.pages.sort_by(|one, other| other.1.cmp(&one.1));
        shelf.faults.sort();
        Ok(shelf)
    }

    fn add(&mut self, path: &Path, name: &str) {
        if [FILE, FILE_PLAIN]
            .iter()
            .any(|file| path.join(file).exists())
        {
            match Record::load(path) {
                Ok(record) => self.records.push(Filed {
                    folder: name.to_owned(),
                    record,
                }),
                Err(error) => self.faults.push(error.to_string()),
            }
            return;
        }
        let page = match path.is_dir() {
            true => format!("{name}/{SUMMARY}"),
            false => name.to_owned(),
        };
        let file = path.with_file_name(&page);
        if !page.ends_with(".md") || page == README || !file.exists() {
            return;
        }
        match std::fs::read_to_string(&file) {
            Ok(text) => self.pages.push((title_of(&text, name), page)),
            Err(error) => self.faults.push(format!("{}: {error}", file.display())),
        }
    }
}

/// The heading of a page, or its name.
fn title_of(text: &str, name: &str) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or(name).to_owned()
}

/// Whether the file is a page that this module has made.
pub fn is_index(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains("inkstone-lab index"))
}

/// The page about the records in `folder`.
pub fn render(folder: &Path, shelf: &Shelf, quantity: &Quantity) -> Result<String, ReportError> {
    let newest = || shelf.records.iter().rev();
    let with_summary = newest().filter(|it| folder.join(&it.folder).join(SUMMARY).exists());
    let variables = context! {
        records => newest().map(|it| view(folder, it)).collect::<Vec<_>>(),
        with_summary => with_summary.map(|it| it.folder.clone()).collect::<Vec<_>>(),
        pages => &shelf.pages,
        faults => &shelf.faults,
        quantity => Serde(quantity),
        trends => Serde(trends(&shelf.records, quantity)),
    };
    template::render("index.html", variables)
}

fn view(folder: &Path, filed: &Filed) -> Value {
    let record = &filed.record;
    let own = folder.join(&filed.folder);
    let file = |name: &str| {
        let exists = own.join(name).exists();
        exists.then(|| format!("{}/{name}", filed.folder))
    };
    context! {
        title => &record.title,
        verb => &record.verb,
        folder => &filed.folder,
        summary => file(SUMMARY),
        page => file(files::PAGE),
        incomplete => &record.incomplete_because,
        provenance => Serde(Provenance::of(record)),
        cells => record.cells().len(),
        words => words(record),
        sides => compared(record),
    }
}

/// A word, its style and what it is about: of the whole map, or of each row.
fn words(record: &Record) -> Vec<Value> {
    if let Some(map) = map_verdicts(record) {
        let about = "the whole map";
        return vec![
            context! { word => map.word, tone => map.tone, about, sentence => map.sentence },
        ];
    }
    let verdicts = verdicts(record).into_iter();
    let words = verdicts.filter_map(|cell| {
        let line = cell.headline?;
        let about = cell.cell;
        Some(context! { word => line.word, tone => line.tone, about, sentence => line.sentence })
    });
    words.collect()
}

fn compared(record: &Record) -> Vec<String> {
    let mut shown = arms(record);
    shown.retain(|arm| ![ARM_NULL, ARM_A_AGAIN].contains(arm));
    shown.into_iter().map(|arm| label(record, arm)).collect()
}
