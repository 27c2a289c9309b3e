//! One entry per second, for the live line, the table per minute and the CSV file.

use std::sync::atomic::Ordering;

use super::{
    sample::Sample,
    trend::{last_half, slope},
};
use crate::{recorder::Recorder, report};

const SECONDS: usize = 60;
const KIB: f64 = 1_024.0;
const MIB: f64 = 1_048_576.0;

/// A second of the soak.
#[derive(Clone, Copy, Debug)]
struct Entry {
    sample: Sample,
    operations: u64,
    events: u64,
    processor_percent: f64,
    streams: i64,
    leases: i64,
}

#[derive(Debug, Default)]
pub struct Diary {
    entries: Vec<Entry>,
    /// Counts at the end of the last second.
    operations: u64,
    events: u64,
}

/// A figure of each second.
type Figure = fn(&Entry) -> f64;
/// How the figure of a minute comes from those of its seconds.
type Minute = fn(&[f64]) -> f64;

/// Columns of the table: name, figure, minute, and digits after the point.
const COLUMNS: [(&str, Figure, Minute, usize); 10] = [
    ("ops/s", |it| it.operations as f64, mean, 0),
    ("events/s", |it| it.events as f64, mean, 0),
    ("RSS MiB min", resident_mib, least, 1),
    ("RSS MiB max", resident_mib, most, 1),
    ("threads", |it| it.sample.threads as f64, most, 0),
    ("files", |it| it.sample.files.total() as f64, most, 0),
    ("CPU %", |it| it.processor_percent, mean, 0),
    ("data MiB", data_mib, most, 0),
    ("streams", |it| it.streams as f64, most, 0),
    ("leases", |it| it.leases as f64, most, 0),
];

/// Columns of the CSV file after the second.
const CSV_COLUMNS: [(&str, Figure); 11] = [
    ("operations", |it| it.operations as f64),
    ("events", |it| it.events as f64),
    ("resident_kib", |it| it.sample.resident_kib as f64),
    ("threads", |it| it.sample.threads as f64),
    ("files_data", |it| it.sample.files.data as f64),
    ("files_removed", |it| it.sample.files.removed as f64),
    ("files_other", |it| it.sample.files.other as f64),
    ("processor_percent", |it| it.processor_percent),
    ("data_bytes", |it| it.sample.data_bytes as f64),
    ("watch_streams", |it| it.streams as f64),
    ("leases", |it| it.leases as f64),
];

fn resident_mib(entry: &Entry) -> f64 {
    entry.sample.resident_kib as f64 / KIB
}

fn data_mib(entry: &Entry) -> f64 {
    entry.sample.data_bytes as f64 / MIB
}

fn mean(row: &[f64]) -> f64 {
    row.iter().sum::<f64>() / row.len() as f64
}

fn least(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(row: &[f64]) -> f64 {
    row.iter().copied().fold(0.0, f64::max)
}

impl Diary {
    /// Records the last second, which took `seconds`; returns it for the live line.
    pub fn note(&mut self, recorder: &Recorder, sample: Sample, seconds: f64) -> String {
        let operations = recorder.acknowledged.load(Ordering::Relaxed);
        let events = recorder.events.load(Ordering::Relaxed);
        let before = self.entries.last().map_or(sample, |it| it.sample);
        let busy = sample.processor_seconds - before.processor_seconds;
        let entry = Entry {
            sample,
            operations: operations - self.operations,
            events: events - self.events,
            processor_percent: busy / seconds * 100.0,
            streams: recorder.streams_open.load(Ordering::Relaxed),
            leases: recorder.leases_held.load(Ordering::Relaxed),
        };
        (self.operations, self.events) = (operations, events);
        self.entries.push(entry);
        format!(
            "{} op/s  {} events/s  RSS {:.1} MiB  {} threads  {} files  CPU {:.0} %  data {:.0} MiB",
            entry.operations,
            entry.events,
            resident_mib(&entry),
            sample.threads,
            sample.files.total(),
            entry.processor_percent,
            data_mib(&entry),
        )
    }

    /// Growth of the resident memory in the last half, per minute.
    pub fn memory_slope_kib(&self) -> f64 {
        self.slope_per_minute(resident_mib) * KIB
    }

    /// Growth of the data directory in the last half, per minute.
    pub fn data_slope_mib(&self) -> f64 {
        self.slope_per_minute(data_mib)
    }

    fn slope_per_minute(&self, figure: Figure) -> f64 {
        let row: Vec<f64> = last_half(&self.entries).iter().map(figure).collect();
        slope(&row) * SECONDS as f64
    }

    /// A row per minute, as a table in Markdown.
    pub fn table(&self) -> String {
        let heads: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();
        let minutes = self.entries.chunks(SECONDS).zip(1..);
        let rows = minutes.map(|(entries, minute)| {
            let cells = COLUMNS.iter().map(|(_, figure, minutes, digits)| {
                let row: Vec<f64> = entries.iter().map(figure).collect();
                format!("{:.digits$}", minutes(&row))
            });
            std::iter::once(format!("{minute}")).chain(cells).collect()
        });
        report::table(&[&["minute"], &heads[..]].concat(), rows)
    }

    /// Every second, with a line of names above.
    pub fn csv(&self) -> String {
        let names = CSV_COLUMNS.iter().map(|(name, _)| format!(",{name}"));
        let mut csv = format!("second{}\n", names.collect::<String>());
        for (second, entry) in (1..).zip(&self.entries) {
            let figures = CSV_COLUMNS.iter().map(|(_, figure)| figure(entry));
            // A tenth is shown of what is no whole number.
            let figures = figures.map(|it| format!(",{}", (it * 10.0).round() / 10.0));
            csv += &format!("{second}{}\n", figures.collect::<String>());
        }
        csv
    }
}
