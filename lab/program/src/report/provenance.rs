//! Provenance of numbers: machine, device, commit and command, which reports show beside
//! every table.

use std::collections::BTreeSet;

use serde::Serialize;

use super::number::{bytes, counted};
use super::sides::arms;
use crate::record::{ARM_NULL, Record};

/// Provenance of a record, as texts.
#[derive(Clone, Debug, Serialize)]
pub struct Provenance {
    /// Day of the measurement, UTC.
    pub date: String,
    /// Processor, cores, memory, kernel, virtualization.
    pub machine: String,
    /// File system, device, its cache.
    pub device: String,
    /// Commit of the repository that the lab ran in.
    pub commit: String,
    /// Command line, quoted for a shell.
    pub command: String,
    /// Name and version of the lab.
    pub tool: String,
    /// Number of runs of each side.
    pub repetitions: String,
}

impl Provenance {
    pub fn of(record: &Record) -> Provenance {
        let environment = &record.environment;
        let mut machine = vec![
            known(&environment.processor),
            format!("{} cores", environment.cores),
            bytes(environment.memory_bytes as f64),
            known(&environment.kernel),
        ];
        if !environment.virtualization.is_empty() {
            machine.push(format!("in {}", environment.virtualization));
        }
        Provenance {
            date: known(&environment.date),
            machine: machine.join(", "),
            device: device(record),
            commit: match environment.commit.as_str() {
                "" => "unknown (outside of a repository)".to_owned(),
                commit => commit.to_owned(),
            },
            command: command(&record.command_line),
            tool: format!("inkstone-lab {}", record.tool),
            repetitions: repetitions(record),
        }
    }
}

fn known(text: &str) -> String {
    match text {
        "" => "unknown".to_owned(),
        text => text.to_owned(),
    }
}

fn device(record: &Record) -> String {
    let environment = &record.environment;
    let file_system = known(&environment.file_system);
    let Some(device) = &environment.device else {
        return format!("{file_system} without a device");
    };
    let mut words = vec![format!(
        "{file_system} on {} ({}",
        device.name, device.cache
    )];
    if device.forced_unit_access {
        words.push("FUA".to_owned());
    }
    if device.private {
        words.push("private".to_owned());
    }
    format!("{})", words.join(", "))
}

/// A command line for a shell: words with characters that a shell interprets are quoted.
pub fn command(words: &[String]) -> String {
    let plain = |word: &str| {
        let signs = "-_./:,=@%+";
        !word.is_empty()
            && word
                .chars()
                .all(|letter| letter.is_alphanumeric() || signs.contains(letter))
    };
    let words = words.iter().map(|word| match plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn repetitions(record: &Record) -> String {
    let mut rivals = arms(record);
    rivals.retain(|arm| *arm != ARM_NULL);
    let cells = record.cells().into_iter();
    let counts = cells.flat_map(|cell| {
        let runs = |arm: &&str| {
            record
                .valid_runs_of(cell)
                .filter(|run| run.arm == *arm)
                .count()
        };
        rivals.iter().map(runs).collect::<Vec<_>>()
    });
    let counts: BTreeSet<usize> = counts.collect();
    match counts.first().zip(counts.last()) {
        None => "no run".to_owned(),
        Some((least, most)) if least == most => {
            format!("{} of each side", counted(*most as u64, "run"))
        }
        Some((least, most)) => format!("{least} to {most} runs of each side"),
    }
}
