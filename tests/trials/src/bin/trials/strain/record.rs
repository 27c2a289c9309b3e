//! The record: for each scene a table, our server beside etcd.

use std::fmt::Write as _;
use std::fs;

use super::{Options, Row};
use crate::machine::Machine;
use crate::process::{Outcome, root};

/// One row for the terminal.
pub fn line(findings: &[(&'static str, String)]) -> String {
    let words: Vec<String> = findings
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    words.join("; ")
}

/// Writes `<date>-<machine>-strain.md`.
pub fn write(machine: &Machine, options: &Options, rows: &[Row]) -> Outcome {
    let records = match &options.records {
        Some(records) => records.clone(),
        None => root().join("lab/records"),
    };
    fs::create_dir_all(&records)?;
    let path = records.join(format!("{}-{}-strain.md", machine.date, machine.slug()));
    let page = page(machine, options, rows);
    fs::write(&path, &page)?;
    println!("\n{page}\nwritten to {}", path.display());
    Ok(())
}

fn page(machine: &Machine, options: &Options, rows: &[Row]) -> String {
    let mut page = format!(
        "# A client that asks for very much at once, {}\n\n\
         {}. One client of etcd's Go library (client/v3 3.7.3, grpc-go); servers with \
         default flags, on fresh directories; {} threads kept the cores busy;  \
         leases were renewed for {} s. Written by `cargo trials strain`.\n",
        machine.date,
        machine.line(),
        options.busy,
        options.seconds
    );
    let mut last = "";
    for row in rows {
        if row.scene != last {
            let _ = write!(page, "\n## {}\n\n| | ", row.scene);
            let names = row.findings.iter().map(|(name, _)| *name);
            page += &names.collect::<Vec<_>>().join(" | ");
            page += " |\n";
            page += &"|---".repeat(row.findings.len() + 1);
            page += "|\n";
            last = row.scene;
        }
        let _ = write!(page, "| {} | ", row.side);
        let values = row.findings.iter().map(|(_, value)| value.as_str());
        page += &values.collect::<Vec<_>>().join(" | ");
        page += " |\n";
    }
    page
}
