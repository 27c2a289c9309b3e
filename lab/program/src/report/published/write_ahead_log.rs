//! Seed 003: the rows of BanyanDB's write-ahead log.

use super::{Beside, Table, sides};
use crate::record::{ARM_NULL, Record, Run};
use crate::report::number::time;
use crate::statistics::summary::median;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// One published row.
pub struct Published {
    /// Name of the cell in a record.
    pub name: &'static str,
    /// Number of series, which puts use in turn.
    pub series: u64,
    /// Size of the buffer that gathers puts before they are written.
    pub buffer_bytes: u64,
    /// Whether a written buffer is flushed to the device.
    pub sync: bool,
    /// Size of a segment; 0 without rotation.
    pub segment_bytes: u64,
    /// Time for each put.
    pub nanoseconds: f64,
}

/// A row of `wal_benchmark_test.go` with flushes and without rotation.
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

/// The published rows, from apache/skywalking-banyandb at 2a92a3a, pkg/wal/README.md.
pub const PUBLISHED: [Published; 18] = [
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

/// A table of the time that a put takes its producer.
pub fn beside(record: &Record) -> Beside {
    Beside {
        tables: vec![times(record)],
        note: "log writes each new segment with zeros before it uses it: where no segment is \
               deleted, they are up to half of its bytes on the device",
    }
}

fn times(record: &Record) -> Table {
    let sides = sides(record);
    let published = |name: &str| PUBLISHED.iter().find(|row| row.name == name);
    let cells = record.cells();
    let any_published = cells.iter().any(|cell| published(&cell.name).is_some());
    let mut header = vec!["row".to_owned()];
    header.extend(sides.iter().map(|side| match *side {
        ARM_NULL => "the lab's own part".to_owned(),
        side => side.to_owned(),
    }));
    if any_published {
        header.push("published (M1)".to_owned());
    }
    let row = |cell: &str| {
        let mut row = vec![cell.to_owned()];
        row.extend(sides.iter().map(|side| {
            let wanted = |run: &&Run| run.cell.name == cell && run.arm == *side;
            let runs = record.valid_runs().filter(wanted);
            let each = |run: &Run| f64::from(run.cell.clients) * 1e6 / run.operations_per_second();
            let times: Vec<f64> = runs.map(each).collect();
            median(&times).map_or("–".to_owned(), time)
        }));
        if any_published {
            let row_of = published(cell).map(|row| time(row.nanoseconds / 1e3));
            row.push(row_of.unwrap_or("–".to_owned()));
        }
        row
    };
    Table {
        title: "Time for each put of one producer".to_owned(),
        header,
        rows: cells.iter().map(|cell| row(&cell.name)).collect(),
    }
}
