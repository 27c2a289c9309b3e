//! One entry per second, for the live line, the table per minute and the CSV file.

use std::{fmt::Write, path::Path, sync::atomic::Ordering};

use super::{
    sample::Sample,
    scene::Scene,
    trend::{last_half, slope},
};
use crate::process::Outcome;

const SECONDS: usize = 60;
const MIB: f64 = 1_048_576.0;

/// A second of the soak.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub sample: Sample,
    pub operations: u64,
    pub events: u64,
    pub processor_percent: f64,
    pub streams: i64,
    pub leases: i64,
}

#[derive(Debug, Default)]
pub struct Diary {
    entries: Vec<Entry>,
    /// Counts at the end of the last second.
    operations: u64,
    events: u64,
    last: Option<Sample>,
}

impl Diary {
    /// Records the last second, which took `seconds`.
    pub fn note(&mut self, scene: &Scene, sample: Sample, seconds: f64) -> Entry {
        let operations = scene.operations.load(Ordering::Relaxed);
        let events = scene.events.load(Ordering::Relaxed);
        let before = self.last.unwrap_or(sample).processor_seconds;
        let busy = sample.processor_seconds - before;
        let entry = Entry {
            sample,
            operations: operations - self.operations,
            events: events - self.events,
            processor_percent: busy / seconds * 100.0,
            streams: scene.watch_streams_open.load(Ordering::Relaxed),
            leases: scene.leases_held.load(Ordering::Relaxed),
        };
        (self.operations, self.events) = (operations, events);
        self.last = Some(sample);
        self.entries.push(entry);
        entry
    }

    /// Growth of the resident memory in the last half, per minute.
    pub fn memory_slope_kib(&self) -> f64 {
        self.slope_per_minute(|sample| sample.resident_kib as f64)
    }

    /// Growth of the data directory in the last half, per minute.
    pub fn data_slope_mib(&self) -> f64 {
        self.slope_per_minute(|sample| sample.data_bytes as f64 / MIB)
    }

    fn slope_per_minute(&self, figure: impl Fn(&Sample) -> f64) -> f64 {
        let half = last_half(&self.entries).iter();
        let row: Vec<f64> = half.map(|entry| figure(&entry.sample)).collect();
        slope(&row) * SECONDS as f64
    }

    /// A row per minute, as a table in Markdown.
    pub fn table(&self) -> String {
        let mut table = String::from(
            "| minute | ops/s | events/s | RSS MiB min | RSS MiB max | threads | files | \
             CPU % | data MiB | streams | leases |\n\
             |-------:|------:|---------:|------------:|------------:|--------:|------:|\
             ------:|---------:|--------:|-------:|\n",
        );
        for (minute, entries) in self.entries.chunks(SECONDS).enumerate() {
            table.push_str(&row(minute + 1, entries));
        }
        table
    }

    /// Every second, with a line of names above.
    pub fn write_csv(&self, path: &Path) -> Outcome {
        let mut csv = String::from(
            "second,operations,events,resident_kib,threads,files_data,files_removed,files_other,\
             processor_percent,data_bytes,watch_streams,leases\n",
        );
        for (second, entry) in self.entries.iter().enumerate() {
            let Sample {
                resident_kib,
                threads,
                files,
                data_bytes,
                ..
            } = entry.sample;
            writeln!(
                csv,
                "{},{},{},{resident_kib},{threads},{},{},{},{:.1},{data_bytes},{},{}",
                second + 1,
                entry.operations,
                entry.events,
                files.data,
                files.removed,
                files.other,
                entry.processor_percent,
                entry.streams,
                entry.leases,
            )?;
        }
        std::fs::write(path, csv).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(())
    }
}

impl Entry {
    /// For the live line.
    pub fn line(&self) -> String {
        format!(
            "{} op/s  {} events/s  RSS {:.1} MiB  {} threads  {} files  CPU {:.0} %  data {:.0} MiB",
            self.operations,
            self.events,
            self.sample.resident_kib as f64 / 1024.0,
            self.sample.threads,
            self.sample.files.total(),
            self.processor_percent,
            self.sample.data_bytes as f64 / MIB,
        )
    }
}

/// One minute. Counts and processor time are means, the rest is the largest.
fn row(minute: usize, entries: &[Entry]) -> String {
    let seconds = entries.len() as u64;
    assert!(seconds > 0, "chunks are never empty");
    let sum = |figure: fn(&Entry) -> u64| entries.iter().map(figure).sum::<u64>() / seconds;
    let most = |figure: fn(&Entry) -> u64| entries.iter().map(figure).max().unwrap_or(0);
    let least = entries.iter().map(|entry| entry.sample.resident_kib).min();
    let processor: f64 = entries.iter().map(|entry| entry.processor_percent).sum();
    format!(
        "| {minute} | {} | {} | {:.1} | {:.1} | {} | {} | {:.0} | {:.0} | {} | {} |\n",
        sum(|entry| entry.operations),
        sum(|entry| entry.events),
        least.unwrap_or(0) as f64 / 1024.0,
        most(|entry| entry.sample.resident_kib) as f64 / 1024.0,
        most(|entry| entry.sample.threads),
        most(|entry| entry.sample.files.total()),
        processor / seconds as f64,
        most(|entry| entry.sample.data_bytes) as f64 / MIB,
        most(|entry| entry.streams.unsigned_abs()),
        most(|entry| entry.leases.unsigned_abs()),
    )
}
