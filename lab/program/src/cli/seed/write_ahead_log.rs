//! Seed 003: the rows of BanyanDB's write-ahead log, on Inkstone's value log and on a plain
//! file.
//!
//! | | as published | honest |
//! |---|---|---|
//! | a put returns | when it is in a buffer: a crash loses up to two buffers | when it is durable |
//! | producers | 1 | 1 to 256, which share flushes |
//!
//! Both variants use the published keys, lengths and order: `series-N` in turn, values of
//! 531 bytes in the mean that do not compress. The published benchmark used 2,000 values
//! again and again, which compresses a buffer of 2 MiB to 55 %; here no two values are
//! equal. All targets delete a segment when the next one is full, in all rows and not only
//! in those that are called rotation.
//!
//! The published figures come from `go test -bench` on an Apple M1 with an SSD, where `Sync`
//! is F_FULLFSYNC. Reports show them beside the measured ones for orientation; the machines
//! differ, so no ratio is printed.

use super::{Options, points_as_named, rows, targets_or};
use crate::cli::finish::Measurement;
use crate::cli::run::side_by_side;
use crate::report::published::write_ahead_log::{PUBLISHED, Published};
use crate::workload::{DurabilityLevel, Workload};

/// The rows that the options select.
pub fn table(options: &Options) -> Result<Measurement, String> {
    let rows = workloads(options);
    let mut points = points_as_named(options, rows.clone())?;
    if options.changes.keys.is_none() {
        // The number of series is the subject of a row: no scale changes it.
        for point in &mut points {
            let row = rows.iter().find(|row| row.name == point.cell.workload);
            point.workload.load.keys = row.expect("a point comes from a row").load.keys;
        }
    }
    let title = "a write-ahead log of many series";
    let arms = side_by_side(&targets_or(options, &["log", "append"])?)?;
    Ok(options.measurement(title, points, arms, 1))
}

fn workloads(options: &Options) -> Vec<Workload> {
    let honest = rows(
        options,
        include_str!("../../../../workloads/table-003.toml"),
    );
    match options.as_published {
        true => PUBLISHED
            .iter()
            .map(|row| buffered(row, &honest[0]))
            .collect(),
        false => honest,
    }
}

/// A published row, from an honest one with one producer.
fn buffered(published: &Published, honest: &Workload) -> Workload {
    let mut workload = honest.clone();
    workload.name = published.name.into();
    workload.load.keys = published.series;
    let durability = &mut workload.durability;
    durability.buffer_bytes = published.buffer_bytes;
    durability.segment_bytes = published.segment_bytes;
    if !published.sync {
        durability.level = DurabilityLevel::Os;
    }
    workload
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;

    #[test]
    fn published_rows_have_the_published_buffers_and_flushes() {
        let rows = workloads(&options(&["003", "--as-published"]));
        assert_eq!(rows.len(), PUBLISHED.len());
        for (workload, published) in rows.iter().zip(&PUBLISHED) {
            assert_eq!(workload.durability.buffer_bytes, published.buffer_bytes);
            let is_durable = workload.durability.level == DurabilityLevel::Durable;
            assert_eq!(is_durable, published.sync, "{}", workload.name);
            // 531 is the mean of the published lengths.
            assert!((workload.load.value.length.mean() - 531.0).abs() < 1.0);
        }
    }

    #[test]
    fn honest_rows_buffer_nothing() {
        for workload in workloads(&options(&["003"])) {
            assert_eq!(workload.durability.buffer_bytes, 0, "{}", workload.name);
        }
    }
}
