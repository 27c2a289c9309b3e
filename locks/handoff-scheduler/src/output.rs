//! The lines that `handoff run` reads from this process.

use std::io::Write;

/// Prints a line. A failure is ignored: the process that reads it may have ended.
pub fn print_line(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
