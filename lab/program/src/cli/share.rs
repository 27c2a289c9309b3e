//! `share`: a picture of a record for a README.

use std::path::PathBuf;

use crate::record::{Record, replace};
use crate::report::{quantity, share};
use crate::verdict::Exit;

/// Name of the picture beside its record.
const PICTURE: &str = "share.svg";

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  inkstone-lab share lab/records/2026-11-22-lab-001-honest
      lab/records/2026-11-22-lab-001-honest/share.svg: throughput of all rows
  inkstone-lab share RECORD --column server-cpu --row 'put, 100 clients' --out cpu.svg

In a README the picture is a link to its record, so that a reader can check it:
  [![PUT AND READ BESIDE ETCD](RECORD/share.svg)](RECORD/summary.md)")]
pub struct Options {
    /// A folder with a record, or its file
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// The quantity of the bars: throughput, p99, server-cpu, memory and the other columns of
    /// `inkstone-lab readme`
    #[arg(long, value_name = "COLUMN", default_value = "throughput")]
    column: String,
    /// Only this row; may be given several times [default: all, at most 12]
    #[arg(long = "row", value_name = "NAME")]
    rows: Vec<String>,
    /// The picture [default: share.svg beside the record]
    #[arg(long, value_name = "FILE.svg")]
    out: Option<PathBuf>,
}

pub fn run(options: &Options) -> super::Outcome {
    let record = Record::load(&options.record)?;
    let quantity = quantity::with_key(&options.column)?;
    let picture = share::render(&record, quantity, &options.rows);
    let picture = picture.map_err(|what| format!("{}: {what}", options.record.display()))?;
    let out = match (&options.out, options.record.is_dir()) {
        (Some(out), _) => out.clone(),
        (None, true) => options.record.join(PICTURE),
        (None, false) => options.record.with_file_name(PICTURE),
    };
    let shown = out.display();
    replace(&out, picture.as_bytes()).map_err(|error| format!("{shown}: {error}"))?;
    print_line!("{shown}: written");
    Ok(Exit::Fine)
}
