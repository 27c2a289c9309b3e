//! `inkstone backup list`: the histories of a place.

use std::io::{self, Write};

use backup::{BackupHistory, Catalog, Selection};
use serde_json::json;

use super::destination;
use super::history::failure;
use super::moments::shown;
use crate::failure::Failure;
use crate::table::{Table, size};

/// Show what a place has: clusters, histories, revisions that can be restored, gaps
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A history is a sequence of revisions without a break. Another one begins where the cluster did not
continue what was stored: it was restored, or had compacted what came next. Names alone are read:
`verify` reads the objects.

Examples:
  inkstone backup list --from /backups
  inkstone backup list --from s3://bucket/etcd --json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Print a line of JSON for each history
    #[arg(long)]
    json: bool,
}

/// Where backups are, and which of them count.
#[derive(Debug, clap::Args)]
pub(super) struct Source {
    /// Where the backups are: a folder, or the URL of one in an object store
    #[arg(long, value_name = "PLACE", env = "INKSTONE_BACKUP_PLACE")]
    pub from: String,
    /// Id of the cluster, if there are several
    #[arg(long, value_name = "ID", value_parser = id)]
    pub cluster: Option<u64>,
    /// Id of a history, as `list` shows it
    #[arg(long, value_name = "ID", value_parser = id)]
    pub history: Option<u64>,
}

impl Source {
    pub(super) fn selection(&self) -> Selection {
        Selection {
            cluster: self.cluster,
            history: self.history,
        }
    }
}

fn id(text: &str) -> Result<u64, String> {
    let id = u64::from_str_radix(text, 16);
    id.map_err(|_| "write an id in hexadecimal, as `list` shows it".to_owned())
}

pub(super) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let source = &arguments.source;
    let place = destination::open(&source.from)?;
    let catalog = Catalog::read(&place).await.map_err(failure)?;
    let fits = |wanted: Option<u64>, id| wanted.is_none_or(|wanted| wanted == id);
    let histories = catalog.histories.iter().filter(|history| {
        fits(source.cluster, history.cluster) && fits(source.history, history.id)
    });
    let histories: Vec<&BackupHistory> = histories.collect();
    if histories.is_empty() {
        return Err(Failure::failed(
            format_args!("{} has no such backups", source.from),
            "Begin one with `inkstone backup run --to PLACE`.",
        ));
    }
    match arguments.json {
        true => print_json(&histories),
        false => print(&histories),
    }
}

fn print(histories: &[&BackupHistory]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let mut table = Table::new([
        "<cluster",
        "<history",
        "<begun",
        "<newest",
        "bases",
        "objects",
        "size",
        "<revisions",
        "<missing",
    ]);
    for history in histories {
        table.row(vec![
            format!("{:x}", history.cluster),
            format!("{:x}", history.id),
            shown(history.begun_ms()),
            shown(history.newest_time_ms()),
            history.bases.len().to_string(),
            history.objects().count().to_string(),
            size(history.bytes()),
            ranges(&history.ranges()),
            ranges(&history.gaps()),
        ]);
    }
    Ok(table.write(&mut output)?)
}

/// Ranges as words; `-` if there are none.
fn ranges(ranges: &[(i64, i64)]) -> String {
    let shown = ranges.iter().map(|(first, last)| format!("{first}-{last}"));
    match ranges {
        [] => "-".to_owned(),
        _ => shown.collect::<Vec<_>>().join(","),
    }
}

fn print_json(histories: &[&BackupHistory]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    for history in histories {
        let bases = history.bases.iter().map(|base| {
            json!({ "revision": base.name.last, "time": shown(base.name.time_ms),
                    "object": base.name.path() })
        });
        let line = json!({
            "cluster": format!("{:x}", history.cluster),
            "history": format!("{:x}", history.id),
            "begun": shown(history.begun_ms()),
            "newest": shown(history.newest_time_ms()),
            "bases": bases.collect::<Vec<_>>(),
            "objects": history.objects().count(),
            "bytes": history.bytes(),
            "revisions": history.ranges(),
            "missing": history.gaps(),
        });
        writeln!(output, "{line}")?;
    }
    Ok(())
}
