//! The record of a measurement: a page to read and a table to compute with.

use std::{fmt::Write as _, fs, path::Path};

use super::{Row, SIDES};
use crate::{
    machine::Machine,
    process::{Outcome, root},
};

/// A column of the page: its name, its value, and whether more is better.
struct Column {
    name: &'static str,
    of: fn(&Row) -> f64,
    more_is_better: bool,
}

const COLUMNS: [Column; 4] = [
    Column {
        name: "requests/s",
        of: |row| row.summary.requests_per_second,
        more_is_better: true,
    },
    Column {
        name: "p99 ms",
        of: |row| row.summary.p99_ms,
        more_is_better: false,
    },
    Column {
        name: "server CPU us/op",
        of: |row| row.processor_us_per_op,
        more_is_better: false,
    },
    Column {
        name: "server RSS MiB",
        of: |row| row.resident_mib,
        more_is_better: false,
    },
];

/// One row for the terminal.
pub fn line(row: &Row) -> String {
    format!(
        "{:40} {:10.0} req/s  {:7.2} ms avg  {:7.2} ms p99  {:7.1} us CPU/op  {:7.1} MiB",
        row.step,
        row.summary.requests_per_second,
        row.summary.average_ms,
        row.summary.p99_ms,
        row.processor_us_per_op,
        row.resident_mib
    )
}

/// Writes `<date>-<machine>.md` and `.csv`.
pub fn write(machine: &Machine, rows: &[Row], records: Option<&Path>) -> Outcome {
    let records = records.map_or(root().join("lab/records"), Path::to_owned);
    fs::create_dir_all(&records)?;
    let name = format!("{}-{}", machine.date, machine.slug());
    let page = page(machine, rows);
    fs::write(records.join(format!("{name}.md")), &page)?;
    fs::write(records.join(format!("{name}.csv")), csv(rows))?;
    println!(
        "\n{page}\nwritten to {}/{name}.md and .csv",
        records.display()
    );
    Ok(())
}

fn csv(rows: &[Row]) -> String {
    let mut csv = "scene,step,side,round,requests_per_second,average_ms,p50_ms,p99_ms,\
                   processor_us_per_op,resident_mib\n"
        .to_owned();
    for row in rows {
        let summary = row.summary;
        let _ = writeln!(
            csv,
            "\"{}\",\"{}\",{},{},{:.1},{:.4},{:.4},{:.4},{:.2},{:.1}",
            row.scene,
            row.step,
            row.side,
            row.round + 1,
            summary.requests_per_second,
            summary.average_ms,
            summary.p50_ms,
            summary.p99_ms,
            row.processor_us_per_op,
            row.resident_mib
        );
    }
    csv
}

fn page(machine: &Machine, rows: &[Row]) -> String {
    let rounds = rows.iter().map(|row| row.round + 1).max().unwrap_or(0);
    let mut page = format!(
        "# Inkstone and etcd 3.7.3, {}\n\n\
         {} ({} cores, {} GiB), {}; Inkstone at {}. One node each, and three where a \
         step says so (their CPU and memory added up, clients at the leader where it \
         does not say all members); durable, default flags but the quota; etcd's \
         benchmark v3.7.1 on the same machine; {rounds} alternating rounds, fresh \
         directories. Written by `cargo xtask figures`; every \
         run is in the table beside this page.\n\n\
         Median (least to most). A ratio above 1 means that Inkstone is better; `~` \
         marks one with overlapping spreads, which shows nothing.\n",
        machine.date,
        machine.processor,
        machine.cores,
        machine.memory_gib,
        machine.kernel,
        machine.commit,
    );
    for column in &COLUMNS {
        let _ = write!(
            page,
            "\n## {}\n\n| step | inkstone | etcd | ratio |\n|---|---|---|---|\n",
            column.name
        );
        for step in steps(rows) {
            page += &table_row(rows, step, column);
        }
    }
    page
}

fn steps(rows: &[Row]) -> Vec<&'static str> {
    let mut steps: Vec<&'static str> = Vec::new();
    for row in rows {
        if !steps.contains(&row.step) {
            steps.push(row.step);
        }
    }
    steps
}

fn table_row(rows: &[Row], step: &str, column: &Column) -> String {
    let [ours, etcds] = SIDES.map(|side| {
        let rows = rows
            .iter()
            .filter(|row| row.step == step && row.side == side);
        let mut values: Vec<f64> = rows.map(column.of).collect();
        values.sort_by(f64::total_cmp);
        values
    });
    if ours.is_empty() || etcds.is_empty() {
        return String::new();
    }
    if median(&ours) == 0.0 || median(&etcds) == 0.0 {
        // Below the clock's resolution.
        return format!("| {step} | {} | {} | - |\n", spread(&ours), spread(&etcds));
    }
    let quotient = median(&ours) / median(&etcds);
    let ratio = if column.more_is_better {
        quotient
    } else {
        1.0 / quotient
    };
    let overlap = ours[0] <= etcds[etcds.len() - 1] && etcds[0] <= ours[ours.len() - 1];
    let mark = if overlap { "~ " } else { "" };
    format!(
        "| {step} | {} | {} | {mark}{ratio:.2} |\n",
        spread(&ours),
        spread(&etcds)
    )
}

/// The middle one, or the mean of the two in the middle.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        return f64::midpoint(sorted[middle - 1], sorted[middle]);
    }
    sorted[middle]
}

fn spread(sorted: &[f64]) -> String {
    let digits = if median(sorted) < 100.0 { 2 } else { 0 };
    format!(
        "{:.digits$} ({:.digits$} to {:.digits$})",
        median(sorted),
        sorted[0],
        sorted[sorted.len() - 1]
    )
}

#[cfg(test)]
mod tests {
    use super::super::benchmark::Summary;
    use super::*;

    #[test]
    fn an_even_number_of_runs_has_its_median_in_between() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
    }

    fn rows(ours: [f64; 2], etcds: [f64; 2]) -> Vec<Row> {
        let row = |side, round, requests_per_second| Row {
            scene: "scene",
            step: "put",
            side,
            round,
            summary: Summary {
                requests_per_second,
                average_ms: 1.0,
                p50_ms: 1.0,
                p99_ms: 1.0,
            },
            processor_us_per_op: 1.0,
            resident_mib: 1.0,
        };
        let sides = [(SIDES[0], ours), (SIDES[1], etcds)];
        let rows = sides.map(|(side, values)| [row(side, 0, values[0]), row(side, 1, values[1])]);
        rows.into_iter().flatten().collect()
    }

    #[test]
    fn a_ratio_is_ours_over_etcds() {
        let row = table_row(&rows([300.0, 320.0], [100.0, 160.0]), "put", &COLUMNS[0]);
        assert_eq!(
            row,
            "| put | 310 (300 to 320) | 130 (100 to 160) | 2.38 |\n"
        );
    }

    #[test]
    fn overlapping_spreads_are_marked() {
        let row = table_row(&rows([100.0, 200.0], [150.0, 250.0]), "put", &COLUMNS[0]);
        assert!(row.ends_with("| ~ 0.75 |\n"), "{row}");
    }

    #[test]
    fn every_run_is_in_the_table() {
        assert_eq!(csv(&rows([1.0, 2.0], [3.0, 4.0])).lines().count(), 5);
    }
}
