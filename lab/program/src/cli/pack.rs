//! `pack`: brings a record into the form in which the repository keeps it: compressed, with
//! its tables, without the page that `report` makes again.

use std::path::{Path, PathBuf};

use crate::record::{FILE, FILE_PLAIN, KindResult, Record};
use crate::report::files;
use crate::verdict::Exit;

#[derive(clap::Args)]
pub struct Options {
    /// Folders with a record
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Digits of the stored latencies, rounded after the tables are made: 2 shrink a large
    /// record to a third
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=3))]
    digits: Option<u8>,
}

pub fn run(options: &Options) -> super::Outcome {
    for folder in &options.folders {
        pack(folder, options.digits)?;
    }
    Ok(Exit::Fine)
}

fn pack(folder: &Path, digits: Option<u8>) -> Result<(), super::Error> {
    let mut record = Record::load(folder)?;
    files::write(&record, folder)?;
    if let Some(digits) = digits {
        let round = |kind: &mut KindResult| kind.round(digits);
        record.kind_results().for_each(round);
    }
    let file = folder.join(FILE);
    let failed = |error| format!("{}: {error}", file.display());
    record.save(&file).map_err(failed)?;
    for name in [FILE_PLAIN, files::PAGE] {
        // A file that is missing needs no removal.
        drop(std::fs::remove_file(folder.join(name)));
    }
    let bytes = file.metadata().map_err(failed)?.len();
    print_line!("{}: {} KiB", file.display(), bytes.div_ceil(1024));
    Ok(())
}
