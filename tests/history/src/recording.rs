//! A history as lines of JSON, so that another program can judge it too.
//!
//! ```text
//!   {"history":1,"clock_error_percent":25}
//!   {"operation":"put","client":..,"member":..,"life":..,"called":..,"returned":..,
//!    "key":..,"value":..,"lease":..,"previous":..,"outcome":"done","revision":..,...}
//!   {"watch":..,"deliveries":[..]}
//!   {"ledger":..,"changes":[..]}
//! ```
//!
//! The first line names the version of this layout. Moments are nanoseconds. The base is not
//! written: it is the empty store.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Base, History};

const LAYOUT: u64 = 1;

#[derive(Serialize, Deserialize)]
struct Head {
    history: u64,
    clock_error_percent: u64,
}

/// Why a recording cannot be read.
#[derive(Debug)]
pub struct Reading(String);

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Reading {}

/// Writes a history that begins with the empty store, a line for each part.
pub fn write(history: &History, out: &mut impl Write) -> io::Result<()> {
    assert_eq!(history.base, Base::default(), "the base has no line");
    let head = Head {
        history: LAYOUT,
        clock_error_percent: history.clock_error_percent,
    };
    line(&head, out)?;
    history.operations.iter().try_for_each(|it| line(it, out))?;
    history.watches.iter().try_for_each(|it| line(it, out))?;
    history.ledger.iter().try_for_each(|it| line(it, out))
}

fn line(part: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(part)?)
}

/// Reads what [`write()`] has written.
pub fn read(input: impl BufRead) -> Result<History, Reading> {
    let mut history = History::default();
    for (index, line) in input.lines().enumerate() {
        let took = line.map_err(|error| error.to_string());
        let took = took.and_then(|line| take(&mut history, index == 0, &line));
        took.map_err(|reason| Reading(format!("line {}: {reason}", index + 1)))?;
    }
    Ok(history)
}

fn take(history: &mut History, is_first: bool, line: &str) -> Result<(), String> {
    let wrong = |error: serde_json::Error| error.to_string();
    let value: Value = serde_json::from_str(line).map_err(wrong)?;
    if is_first {
        let head: Head = serde_json::from_value(value).map_err(wrong)?;
        if head.history != LAYOUT {
            let layout = head.history;
            return Err(format!("layout {layout}; this program reads {LAYOUT}"));
        }
        history.clock_error_percent = head.clock_error_percent;
    } else if value.get("operation").is_some() {
        let operation = serde_json::from_value(value).map_err(wrong)?;
        history.operations.push(operation);
    } else if value.get("watch").is_some() {
        let watch = serde_json::from_value(value).map_err(wrong)?;
        history.watches.push(watch);
    } else {
        let entry = serde_json::from_value(value).map_err(wrong)?;
        history.ledger.push(entry);
    }
    Ok(())
}
