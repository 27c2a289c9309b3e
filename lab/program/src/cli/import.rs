//! `import`: turns etcd's rw-heatmap CSV into a record, which can be shown and compared as
//! any other.

use std::path::PathBuf;

use super::finish::finish;
use super::folder::Folder;
use crate::heatmap_csv::parse;
use crate::report::etcd_csv::from_map;
use crate::report::number::counted;
use crate::verdict::Exit;
use crate::verdict::FailOn;

#[derive(clap::Args)]
pub struct Options {
    /// What rw-benchmark.sh wrote
    #[arg(value_name = "CSV")]
    file: PathBuf,
    /// Where the record goes [default: lab-results/<name of the file>]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// What reports call the side that was measured
    #[arg(long, default_value = "etcd")]
    side: String,
}

pub fn run(options: &Options) -> super::Outcome {
    let shown = options.file.display().to_string();
    let bytes = std::fs::read(&options.file).map_err(|error| format!("{shown}: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        format!("{shown}: it is no text; give the CSV that rw-benchmark.sh wrote, unpacked")
    })?;
    let map = parse(&shown, &text)?;
    let name = options.file.file_name().unwrap_or_default();
    let record = from_map(&name.to_string_lossy(), &map, &options.side)?;
    let folder = options.out.clone().unwrap_or_else(|| {
        let stem = options.file.file_stem().unwrap_or_default();
        PathBuf::from("lab-results").join(stem)
    });
    let folder = Folder::for_record(&folder)?;
    let saved = record.save(&folder.record());
    saved.map_err(|error| format!("{}: {error}", folder.record().display()))?;
    finish(&record, folder.path(), FailOn::Never)?;
    let failed = map.cells.iter().map(|cell| cell.failures()).sum::<usize>();
    print_line!(
        "{}, {} left out",
        counted(map.cells.len() as u64, "cell"),
        counted(failed as u64, "failed iteration")
    );
    Ok(Exit::Fine)
}
