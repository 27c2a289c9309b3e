//! Seed 002: LevelDB's fillrandom and readrandom by 1 to 256 threads.

use super::{Beside, Table, sides};
use crate::record::{ARM_NULL, Record, Run};
use crate::report::number::grouped;
use crate::statistics::summary::median;

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
            let wanted = |run: &&Run| {
                (
                    run.cell.workload.as_str(),
                    run.cell.clients,
                    run.arm.as_str(),
                ) == (kind, clients, side)
            };
            let runs = || record.valid_runs().filter(wanted);
            let all: Vec<f64> = runs().map(Run::operations_per_second).collect();
            let jain: Vec<f64> = runs()
                .filter_map(|run| Some(run.load.fairness?.jain))
                .collect();
            cell(median(&all), clients, figure, median(&jain))
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

fn cell(all: Option<f64>, clients: u32, figure: Figure, jain: Option<f64>) -> String {
    let one = all.map(|all| grouped(all / f64::from(clients)));
    let text = match (figure, jain) {
        (Figure::All, _) => all.map(grouped),
        (Figure::One, None) => one,
        (Figure::One, Some(jain)) => one.map(|one| format!("{one} ({jain:.2})")),
    };
    text.unwrap_or("–".to_owned())
}
