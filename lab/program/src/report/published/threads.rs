//! Seed 002: LevelDB's fillrandom and readrandom by 1 to 256 threads.

use std::collections::BTreeSet;

use super::{Beside, Table, sides};
use crate::record::{ARM_NULL, Record};
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
    let kinds = [FILL, READ].into_iter();
    let tables = kinds.flat_map(|kind| [false, true].map(|of_one| threads(record, kind, of_one)));
    Beside {
        tables: tables.filter(|table| !table.rows.is_empty()).collect(),
        note: "published: LevelDB 1.23 on 96 cores, no measure of this machine",
    }
}

/// A row for each number of threads, a column for each side, with the throughput of one of
/// the threads or of all together.
fn threads(record: &Record, kind: &str, of_one: bool) -> Table {
    let mut sides = sides(record);
    sides.retain(|side| *side != ARM_NULL);
    let mut header = vec!["threads".to_owned()];
    header.extend(sides.iter().map(|side| (*side).to_owned()));
    header.push("published".to_owned());
    let row = |clients: u32| {
        let divisor = if of_one { f64::from(clients) } else { 1.0 };
        let mut row = vec![clients.to_string()];
        row.extend(sides.iter().map(|side| {
            let cells = record.valid_runs().filter(|run| run.cell.workload == kind);
            let runs = cells.filter(|run| run.cell.clients == clients && run.arm == *side);
            let (all, jain): (Vec<f64>, Vec<Option<f64>>) = runs
                .map(|run| {
                    (
                        run.operations_per_second(),
                        run.load.fairness.map(|it| it.jain),
                    )
                })
                .unzip();
            let rate = median(&all).map_or("–".to_owned(), |all| grouped(all / divisor));
            match median(&Vec::from_iter(jain.into_iter().flatten())).filter(|_| of_one) {
                Some(jain) => format!("{rate} ({jain:.2})"),
                None => rate,
            }
        }));
        let published = PUBLISHED.iter().find(|(threads, ..)| *threads == clients);
        let published = published.map(|(_, fill, read)| if kind == FILL { fill } else { read });
        let rate = published.map(|one| grouped(one * f64::from(clients) / divisor));
        row.push(rate.unwrap_or("–".to_owned()));
        row
    };
    Table {
        title: match of_one {
            false => format!("{kind} per second, all threads together"),
            true => format!("{kind} per second, one thread; in brackets Jain's fairness"),
        },
        header,
        rows: counts(record, kind).into_iter().map(row).collect(),
    }
}

fn counts(record: &Record, kind: &str) -> BTreeSet<u32> {
    let mut cells = record.cells();
    cells.retain(|cell| cell.workload == kind);
    cells.into_iter().map(|cell| cell.clients).collect()
}
