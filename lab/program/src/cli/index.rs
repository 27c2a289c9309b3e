//! `index`: a page of all records in a folder, made on demand.

use std::path::PathBuf;

use crate::record::replace;
use crate::report::index::{INDEX, Shelf, is_index, render};
use crate::report::{files, quantity};
use crate::verdict::Exit;

#[derive(clap::Args)]
#[command(after_help = "\
The page is one file without scripts, and `.gitignore` names it: make it when you want to read.

Examples:
  inkstone-lab index                         lab/records/index.html
  inkstone-lab index --pages                 also each record's page, which the index then links
  inkstone-lab index --column p99            trends of the 99th percentile
  inkstone-lab index lab-results             of your own measurements")]
pub struct Options {
    /// The folder of the records
    #[arg(value_name = "FOLDER", default_value = "lab/records")]
    folder: PathBuf,
    /// The quantity of the trends: throughput, p99, server-cpu, memory and the other columns
    /// of `inkstone-lab readme`
    #[arg(long, value_name = "COLUMN", default_value = "throughput")]
    column: String,
    /// Make the page of each record, too, as `inkstone-lab report` does
    #[arg(long)]
    pages: bool,
}

pub fn run(options: &Options) -> super::Outcome {
    let folder = &options.folder;
    let quantity = quantity::with_key(&options.column)?;
    let mut shelf = Shelf::read(folder)?;
    let out = folder.join(INDEX);
    let shown = out.display();
    if out.exists() && !is_index(&out) {
        let what = format!(
            "{shown} is no page of `inkstone-lab index`: move it away, or name another folder"
        );
        return Err(what.into());
    }
    if options.pages {
        for filed in &shelf.records {
            let written = files::write_page(&filed.record, &folder.join(&filed.folder));
            shelf
                .faults
                .extend(written.err().map(|error| error.to_string()));
        }
    }
    let page = render(folder, &shelf, quantity)?;
    replace(&out, page.as_bytes()).map_err(|error| format!("{shown}: {error}"))?;
    print_line!("{shown}: {} records", shelf.records.len());
    for fault in &shelf.faults {
        print_error!("left out: {fault}");
    }
    Ok(match shelf.faults.is_empty() {
        true => Exit::Fine,
        false => Exit::Error,
    })
}
