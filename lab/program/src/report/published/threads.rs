//! Seed 002: LevelDB's fillrandom and readrandom by 1 to 256 threads.

use super::{Beside, Table, median, sides};
use crate::record::{ARM_NULL, Record, Run};
use crate::report::number::grouped;

/// Name of the workload of random writes.
pub const FILL: &str = "fillrandom";
/// Name of the workload of random reads.
pub const READ: &str = "readrandom";

/// Operations per second of one thread, on 96 cores of a Xeon Gold 5318Y with
/// Linux 6.16.12 and LevelDB 1.23: threads, fillrandom, readrandom. From
/// JBPFM/Lock-CoLocated-Scheduling at 19b585e, docs/EXPERIMENT_LEVELDB.md,
/// column "Native".
pub const PUBLISHED: [(u32, f64, f64); 9] = [
    (1, 507_872.0, 382_995.0),
    (2, 104_821.0, 252_908.0),
    (4, 31_851.0, 101_091.0),
    (8, 20_845.0, 56_570.0),
    (16, 7_134.0, 43_546.0),
    (32, 4_154.0, 23_645.0),
    (64, 2_260.0, 11_436.0),
    (128, 1_047.0, 5_694.0),
    (256, 475.0, 2_773.0),
];

/// Tables of both workloads: throughput of all threads together, and of one.
pub fn beside(record: &Record) -> Beside {
    let figures = [Figure::All, Figure::One];
    let of_kind = |kind| figures.map(|figure| threads(record, kind, figure));
    Beside {
        tables: [FILL, READ]
            .into_iter()
            .flat_map(of_kind)
            .filter(|table| !table.rows.is_empty())
            .collect(),
        note: "published: LevelDB 1.23 on 96 cores, no measure of this machine",
    }
}

/// The figure that a table shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    All,
    One,
}

/// A row for each number of threads, a column for each side.
fn threads(record: &Record, kind: &str, figure: Figure) -> Table {
    let mut sides = sides(record);
    sides.retain(|side| *side != ARM_NULL);
    let mut header = vec!["threads".to_owned()];
    header.extend(sides.iter().map(|side| (*side).to_owned()));
    header.push("published".to_owned());
    let row = |clients: u32| {
        let mut row = vec![clients.to_string()];
        row.extend(sides.iter().map(|side| {
            let runs = runs(record, kind, clients, side);
            let all = median(runs.iter().map(|run| run.operations_per_second()).collect());
            let jain = runs.iter().filter_map(|run| Some(run.load.fairness?.jain));
            cell(all, clients, figure, median(jain.collect()))
        }));
        let published = PUBLISHED.iter().find(|(threads, ..)| *threads == clients);
        let published = published.map(|(_, fill, read)| if kind == FILL { fill } else { read });
        let all = published.map(|one| one * f64::from(clients));
        row.push(cell(all, clients, figure, None));
        row
    };
    Table {
        title: match figure {
            Figure::All => format!("{kind} per second, all threads together"),
            Figure::One => {
                format!("{kind} per second, one thread; in brackets Jain's fairness")
            }
        },
        header,
        rows: counts(record, kind).into_iter().map(row).collect(),
    }
}

fn counts(record: &Record, kind: &str) -> Vec<u32> {
    let cells = record.cells().into_iter();
    let mut counts: Vec<u32> = cells
        .filter(|cell| cell.workload == kind)
        .map(|cell| cell.clients)
        .collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn runs<'a>(record: &'a Record, kind: &str, clients: u32, side: &str) -> Vec<&'a Run> {
    let wanted =
        |run: &&Run| run.cell.workload == kind && run.cell.clients == clients && run.arm == side;
    record.valid_runs().filter(wanted).collect()
}

fn cell(all: Option<f64>, clients: u32, figure: Figure, jain: Option<f64>) -> String {
    match (all, figure, jain) {
        (None, ..) => "–".to_owned(),
        (Some(all), Figure::All, _) => grouped(all),
        (Some(all), Figure::One, None) => grouped(all / f64::from(clients)),
        (Some(all), Figure::One, Some(jain)) => {
            format!("{} ({jain:.2})", grouped(all / f64::from(clients)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_of_one_thread_is_the_total_over_the_threads() {
        let text = |figure| cell(Some(4000.0), 4, figure, Some(0.5));
        assert_eq!(text(Figure::All), "4,000");
        assert_eq!(text(Figure::One), format!("{} (0.50)", grouped(1000.0)));
        assert_eq!(cell(None, 4, Figure::All, None), "–");
    }
}
