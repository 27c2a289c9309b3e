//! The table of results and the record with it.

use std::fmt::Write as _;
use std::fs;

use super::{Options, Row};
use crate::machine::Machine;
use crate::process::Outcome;

/// Prints the table, and writes `<date>-<machine>-hostile.md` if a directory is given.
pub fn write(machine: &Machine, options: &Options, rows: &[Row]) -> Outcome {
    let page = page(machine, options, rows);
    println!("\n{page}");
    let Some(records) = &options.records else {
        return Ok(());
    };
    fs::create_dir_all(records)?;
    let path = records.join(format!("{}-{}-hostile.md", machine.date, machine.slug()));
    fs::write(&path, &page)?;
    println!("written to {}", path.display());
    Ok(())
}

fn page(machine: &Machine, options: &Options, rows: &[Row]) -> String {
    let mut page = format!(
        "# Hostile peers, {}\n\n\
         {}. Three members under load, attacked at their peer ports for {} s in each scene, \
         seed {}. In the scene of a member's id of its own nothing was sent that an honest \
         member could say, since no member could tell it from the truth \
         (docs/decisions/0017-peers-are-not-trusted.md). Written by `cargo trials hostile`.\n\n\
         | scene | connections | let in | frames | puts answered | term before and after |  \
         most memory of a member, idle | the same, attacked | wrong |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|---|\n",
        machine.date,
        machine.line(),
        options.seconds,
        options.seed
    );
    for row in rows {
        let wrong = match row.wrong.is_empty() {
            true => "nothing".to_owned(),
            false => row.wrong.join("; "),
        };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {}, {} | {:.0} MiB | {:.0} MiB | {wrong} |",
            row.scene,
            row.connections,
            row.let_in,
            row.frames,
            row.puts,
            row.terms.0,
            row.terms.1,
            row.idle_mib,
            row.peak_mib,
        );
    }
    page
}
