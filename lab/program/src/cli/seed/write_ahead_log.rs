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

use super::{Options, Table, measured, points_as_named, rows_asked_for, targets_or, written};
use crate::cli::Outcome;
use crate::cli::finish::finish;
use crate::cli::run::side_by_side;
use crate::report::published::write_ahead_log::{PUBLISHED, Published};
use crate::workload::{Mistake, Workload};

/// Honest rows, as number of producers and durability level: a returned put has reached
/// this level.
const KEPT: [(u32, &str); 5] = [
    (1, "durable"),
    (16, "durable"),
    (256, "durable"),
    (1, "os"),
    (16, "os"),
];

/// Measures the rows that the options select.
pub fn run(options: &Options) -> Outcome {
    let rows = workloads(options).map_err(|mistake| mistake.to_string())?;
    let rows = rows_asked_for(options, rows)?;
    let series: Vec<u64> = rows.iter().map(|row| row.load.keys).collect();
    let mut points = points_as_named(options, rows)?;
    if options.changes.keys.is_none() {
        // The number of series is the subject of a row: no scale changes it.
        for (point, series) in points.iter_mut().zip(series) {
            point.workload.load.keys = series;
        }
    }
    let table = Table {
        title: "a write-ahead log of many series".into(),
        points,
        arms: side_by_side(&targets_or(options, &["log", "append"])?)?,
        pairs: 1,
    };
    let (record, folder) = measured(options, table)?;
    finish(&record, &folder, options.measure.fail_on)
}

fn workloads(options: &Options) -> Result<Vec<Workload>, Mistake> {
    match options.as_published {
        true => PUBLISHED.iter().map(buffered).collect(),
        false => KEPT
            .iter()
            .map(|(producers, level)| kept(*producers, level))
            .collect(),
    }
}

fn load(series: u64) -> String {
    format!(
        "[load]\nkeys = {series}\npreload = false\nkey = {{ kind = \"series\", size = 0 }}\n\
         value = {{ length = \"clamped:200,0..1023\", unique = true }}\n\
         [access]\ndistribution = \"sequential\"\n\
         [time]\nwarmup = \"1s\"\nmeasure = \"3s\"\n"
    )
}

fn buffered(published: &Published) -> Result<Workload, Mistake> {
    let durability = format!(
        "[durability]\nlevel = \"{}\"\nbuffer_bytes = {}\nsegment_bytes = {}\n",
        if published.sync { "durable" } else { "os" },
        published.buffer_bytes,
        published.segment_bytes,
    );
    written(published.name, &[&load(published.series), &durability])
}

fn kept(producers: u32, level: &str) -> Result<Workload, Mistake> {
    let what = match level {
        "durable" => "durable",
        _ => "in the page cache",
    };
    let name = match producers {
        1 => format!("1 producer, each put {what}"),
        many => format!("{many} producers, each put {what}"),
    };
    let rest = format!("[clients]\nclients = {producers}\n[durability]\nlevel = \"{level}\"\n");
    written(&name, &[&load(1000), &rest])
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;
    use crate::workload::DurabilityLevel;

    #[test]
    fn published_rows_have_the_published_buffers_and_flushes() {
        let rows = workloads(&options(&["003", "--as-published"])).unwrap();
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
        for workload in workloads(&options(&["003"])).unwrap() {
            assert_eq!(workload.durability.buffer_bytes, 0, "{}", workload.name);
        }
    }
}
