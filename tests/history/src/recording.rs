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

/// Reads what [`write()`] has written; an error names the line.
pub fn read(input: impl BufRead) -> io::Result<History> {
    let mut history = History::default();
    for (line, number) in input.lines().zip(1..) {
        let took = line.and_then(|line| take(&mut history, number == 1, &line));
        took.map_err(|error| io::Error::other(format!("line {number}: {error}")))?;
    }
    Ok(history)
}

fn take(history: &mut History, is_first: bool, line: &str) -> io::Result<()> {
    let value: Value = serde_json::from_str(line)?;
    if is_first {
        let head: Head = serde_json::from_value(value)?;
        if head.history != LAYOUT {
            let text = format!("layout {}; this program reads {LAYOUT}", head.history);
            return Err(io::Error::other(text));
        }
        history.clock_error_percent = head.clock_error_percent;
    } else if value.get("operation").is_some() {
        history.operations.push(serde_json::from_value(value)?);
    } else if value.get("watch").is_some() {
        history.watches.push(serde_json::from_value(value)?);
    } else {
        history.ledger.push(serde_json::from_value(value)?);
    }
    Ok(())
}
