//! Writer of the CSV, in the format of etcd's script.

use super::{RwCell, RwHeatmap};

/// The text of a file. A cell with fewer iterations than others is filled up with failed
/// ones, because the format cannot express that an iteration did not run.
pub fn to_csv(map: &RwHeatmap) -> String {
    let iterations = map.cells.iter().map(|cell| cell.iterations.len());
    let iterations = iterations.max().unwrap_or(1).max(1);
    let names: String = (1..=iterations).map(|at| format!("iter{at},")).collect();
    let blanks = ",".repeat(iterations);
    let parameters = always_quoted(&map.parameters);
    let rows: String = map
        .cells
        .iter()
        .map(|cell| data(cell, iterations))
        .collect();
    format!("type,ratio,conn_size,value_size,{names}comment\nPARAM,,,{blanks},{parameters}\n{rows}")
}

fn data(cell: &RwCell, iterations: usize) -> String {
    let rates = (0..iterations).map(|at| match cell.iterations.get(at) {
        Some(it) if !it.failed() => format!("{:.4}:{:.4},", it.reads, it.writes),
        _ => "0:0,".to_owned(),
    });
    format!(
        "DATA,{},{},{},{}{}\n",
        as_bc_prints(cell.reads_per_write),
        cell.connections,
        cell.value_bytes,
        rates.collect::<String>(),
        quoted_if_needed(&cell.comment)
    )
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
