//! `report`: makes the tables and the page of a record again from its file. The exit
//! code is the one of the verb that measured the record.

use std::path::PathBuf;

use super::finish::finish;
use crate::record::{FILE, Record};
use crate::verdict::{Exit, FailOn};

#[derive(clap::Args)]
pub struct Options {
    /// Folders with a record
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// What ends the process with another code than 0
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    fail_on: FailOn,
}

pub fn run(options: &Options) -> super::Outcome {
    let mut exits = Vec::new();
    for folder in &options.folders {
        if !folder.is_dir() {
            return Err(format!(
                "{}: not a folder; name the one that holds {FILE}",
                folder.display()
            )
            .into());
        }
        let record = Record::load(folder)?;
        if options.folders.len() > 1 {
            print_line!("{}", record.title);
        }
        exits.push(finish(&record, folder, options.fail_on)?);
    }
    Ok(exits.into_iter().max().unwrap_or(Exit::Fine))
}
