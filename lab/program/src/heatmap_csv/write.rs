//! Writer of the CSV, in the format of etcd's script.

use super::{RwCell, RwHeatmap};
use std::fmt::Write;

/// The text of a file. A cell with fewer iterations than others is filled up with failed
/// ones, because the format cannot express that an iteration did not run.
pub fn to_csv(map: &RwHeatmap) -> String {
    let iterations = map.cells.iter().map(|cell| cell.iterations.len());
    let iterations = iterations.max().unwrap_or(1).max(1);
    let mut text = header(iterations);
    let blanks = ",".repeat(iterations);
    let _ = writeln!(text, "PARAM,,,{blanks},{}", always_quoted(&map.parameters));
    for cell in &map.cells {
        text.push_str(&data(cell, iterations));
    }
    text
}

fn header(iterations: usize) -> String {
    let mut text = "type,ratio,conn_size,value_size".to_owned();
    for iteration in 1..=iterations {
        let _ = write!(text, ",iter{iteration}");
    }
    text.push_str(",comment\n");
    text
}

fn data(cell: &RwCell, iterations: usize) -> String {
    let ratio = as_bc_prints(cell.reads_per_write);
    let mut text = format!("DATA,{ratio},{},{}", cell.connections, cell.value_bytes);
    for at in 0..iterations {
        match cell.iterations.get(at).filter(|it| !it.failed()) {
            Some(it) => {
                let _ = write!(text, ",{:.4}:{:.4}", it.reads, it.writes);
            }
            None => text.push_str(",0:0"),
        }
    }
    let _ = writeln!(text, ",{}", quoted_if_needed(&cell.comment));
    text
}

/// `bc` cuts the digits off instead of rounding, and prints no zero before the
/// point.
fn as_bc_prints(ratio: f64) -> String {
    // A ratio such as 4.35 is a little below itself in binary.
    let cut = (ratio * 10_000.0 + 1e-6).floor() / 10_000.0;
    let text = format!("{cut:.4}");
    match text.strip_prefix("0.") {
        Some(decimals) => format!(".{decimals}"),
        None => text,
    }
}

fn always_quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn quoted_if_needed(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        always_quoted(text)
    } else {
        text.to_owned()
    }
}
