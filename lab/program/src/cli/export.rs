//! `export`: a map as etcd's rw-heatmap CSV, which etcd's own tool draws.

use std::path::PathBuf;

use crate::heatmap_csv::to_csv;
use crate::record::{Record, replace};
use crate::report::etcd_csv::to_map;
use crate::verdict::Exit;

#[derive(clap::Args)]
pub struct Options {
    /// A folder with the record of a map, or its file
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// Which side, where the record has several: A, B, or its name
    #[arg(long)]
    side: Option<String>,
    /// Where the file goes [default: the terminal]
    #[arg(long, value_name = "CSV")]
    out: Option<PathBuf>,
}

pub fn run(options: &Options) -> super::Outcome {
    let record = Record::load(&options.record)?;
    let map = to_map(&record, options.side.as_deref());
    let map = map.map_err(|what| format!("{}: {what}", options.record.display()))?;
    let text = to_csv(&map);
    match &options.out {
        None => print_text!("{text}"),
        Some(out) => {
            replace(out, text.as_bytes()).map_err(|error| format!("{}: {error}", out.display()))?;
        }
    }
    Ok(Exit::Fine)
}
