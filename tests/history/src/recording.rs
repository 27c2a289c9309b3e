//! A history as lines of JSON, so that another program can judge it too.
//!
//! ```text
//!   {"history":1,"clock_error_percent":25}
//!   {"operation":"put","client":..,"member":..,"life":..,"called":..,"returned":..,
//!    "key":..,"value":..,"lease":..,"previous":..,"outcome":"done","revision":..,...}
//!   {"watch":..,"deliveries":[..]}
//!   {"revision":..,"changes":[..]}
//! ```
//!
//! The first line names the version of this layout. Moments are nanoseconds.

mod decode;
mod encode;

use std::io::{self, BufRead, Write};

use crate::History;

const LAYOUT: u64 = 1;

/// Why a recording cannot be read.
#[derive(Debug)]
pub struct Reading(String);

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Reading {}

/// Writes a history, a line for each part.
pub fn write(history: &History, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", encode::head(history))?;
    for operation in &history.operations {
        writeln!(out, "{}", encode::operation(operation))?;
    }
    for watch in &history.watches {
        writeln!(out, "{}", encode::watch(watch))?;
    }
    for entry in &history.ledger {
        writeln!(out, "{}", encode::entry(entry))?;
    }
    Ok(())
}

/// Reads what [`write()`] has written.
pub fn read(input: impl BufRead) -> Result<History, Reading> {
    let mut history = History::default();
    for (index, line) in input.lines().enumerate() {
        let number = index + 1;
        let wrong = |reason: String| Reading(format!("line {number}: {reason}"));
        let line = line.map_err(|error| wrong(error.to_string()))?;
        let value = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        decode::line(&mut history, index == 0, &value).map_err(wrong)?;
    }
    Ok(history)
}
