//! 003: the rows of BanyanDB's write-ahead log, on our value log and on a plain
//! file.
//!
//! | | as published | honest |
//! |---|---|---|
//! | a put returns | when it is in a buffer: up to two buffers are lost | when it is durable |
//! | producers | 1 | 1 to 256, who share flushes |
//!
//! Keys, lengths and order of both are the published ones: `series-N` in turn,
//! values of 531 bytes in the mean that do not compress. The published 2,000
//! values are used again and again, which lets a buffer of 2 MiB be packed to
//! 55 %; here no two are alike. Nobody's segments are kept longer than until the
//! next is full, in all rows and not only in those that are called rotation.
//!
//! The published figures are of `go test -bench` on an Apple M1 with an SSD,
//! where `Sync` is F_FULLFSYNC. They are beside ours to be read, not to be
//! compared: no ratio is printed.

use comfy_table::{CellAlignment, Table as Grid};

use super::{Options, STYLE, Table, measured, median, points, sides, targets_or, written};
use crate::cli::Outcome;
use crate::cli::finish::finish;
use crate::cli::run::side_by_side;
use crate::record::{ARM_NULL, Record, Run};
use crate::report::number::time;
use crate::workload::{Mistake, Workload};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// One published row.
struct Published {
    name: &'static str,
    series: u64,
    buffer_bytes: u64,
    sync: bool,
    /// 0: no rotation.
    segment_bytes: u64,
    nanoseconds: f64,
}

/// Both tables are those of `wal_benchmark_test.go`; see `PUBLISHED`.
const fn published(
    name: &'static str,
    series: u64,
    buffer_bytes: u64,
    nanoseconds: f64,
) -> Published {
    Published {
        name,
        series,
        buffer_bytes,
        sync: true,
        segment_bytes: 0,
        nanoseconds,
    }
}

const fn no_sync(name: &'static str, buffer_bytes: u64, nanoseconds: f64) -> Published {
    Published {
        sync: false,
        ..published(name, 1000, buffer_bytes, nanoseconds)
    }
}

const fn rotating(name: &'static str, segment_bytes: u64, nanoseconds: f64) -> Published {
    Published {
        segment_bytes,
        ..no_sync(name, 64 * KIB, nanoseconds)
    }
}

/// Nanoseconds for each put. From apache/skywalking-banyandb at 2a92a3a,
/// pkg/wal/README.md.
const PUBLISHED: [Published; 18] = [
    published("SeriesID_1", 1, 65535, 41357.0),
    published("SeriesID_20", 20, 65535, 42125.0),
    published("SeriesID_100", 100, 65535, 42177.0),
    published("SeriesID_500", 500, 65535, 42360.0),
    published("SeriesID_1000", 1000, 65535, 39556.0),
    published("Buffer_64K", 1000, 64 * KIB, 38827.0),
    published("Buffer_128K", 1000, 128 * KIB, 20238.0),
    published("Buffer_512K", 1000, 512 * KIB, 5764.0),
    published("Buffer_1MB", 1000, MIB, 2738.0),
    published("Buffer_2MB", 1000, 2 * MIB, 1537.0),
    no_sync("Buffer_64K_NoSync", 64 * KIB, 1676.0),
    no_sync("Buffer_128K_NoSync", 128 * KIB, 1632.0),
    no_sync("Buffer_512K_NoSync", 512 * KIB, 1631.0),
    no_sync("Buffer_1MB_NoSync", MIB, 1497.0),
    no_sync("Buffer_2MB_NoSync", 2 * MIB, 1508.0),
    rotating("Buffer_64K_NoSync_Rotate_16MB", 16 * MIB, 1610.0),
    rotating("Buffer_64K_NoSync_Rotate_32MB", 32 * MIB, 1591.0),
    rotating("Buffer_64K_NoSync_Rotate_64MB", 64 * MIB, 1568.0),
];

/// Rows whose puts are kept when they return: producers and level.
const KEPT: [(u32, &str); 5] = [
    (1, "durable"),
    (16, "durable"),
    (256, "durable"),
    (1, "os"),
    (16, "os"),
];

/// Measures all rows.
pub fn run(options: &Options) -> Outcome {
    let rows = workloads(options).map_err(|mistake| mistake.to_string())?;
    let series: Vec<u64> = rows.iter().map(|row| row.load.keys).collect();
    let mut points = points(options, rows)?;
    if options.changes.keys.is_none() {
        // How many series there are is what a row is about, in every scale.
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
    let outcome = finish(&record, &folder, options.how.fail_on);
    println!("\nTime for each put of one producer");
    println!("{}", times(&record));
    println!(
        "log writes each new segment with zeros before it uses it: where nothing is let go, they are \
         up to half of its bytes on the device"
    );
    outcome
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

/// What a put takes of its producer's time, beside what is published.
fn times(record: &Record) -> Grid {
    let mut table = Grid::new();
    table.load_style(STYLE);
    let sides = sides(record);
    let mut header = vec!["row".to_owned()];
    header.extend(sides.iter().map(|side| match *side {
        ARM_NULL => "the lab's own part".to_owned(),
        side => side.to_owned(),
    }));
    header.push("published (M1)".to_owned());
    table.set_header(header);
    for cell in record.cells() {
        let mut row = vec![cell.name.clone()];
        for side in &sides {
            let wanted = |run: &&Run| run.cell.name == cell.name && run.arm == *side;
            let runs = record.valid_runs().filter(wanted);
            let each = |run: &Run| f64::from(run.cell.clients) * 1e6 / run.operations_per_second();
            row.push(median(runs.map(each).collect()).map_or("–".to_owned(), time));
        }
        let published = PUBLISHED.iter().find(|row| row.name == cell.name);
        row.push(published.map_or("–".to_owned(), |row| time(row.nanoseconds / 1e3)));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;
    use crate::workload::DurabilityLevel;

    #[test]
    fn published_rows_say_what_they_buffer_and_what_they_flush() {
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
