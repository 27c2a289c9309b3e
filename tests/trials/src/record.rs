//! Records of trials: pages in Markdown, by day and machine.

use std::{fs, path::Path};

use crate::Outcome;
use crate::machine::Machine;

/// A table in Markdown; all columns but the first have figures.
pub fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = "|---".to_owned() + &"|---:".repeat(heads.len() - 1) + "|\n";
    let heads = line(heads.iter().map(|&head| head.to_owned()).collect());
    let rows = rows.into_iter().map(line);
    [heads, rule].into_iter().chain(rows).collect()
}

/// Prints a page, and writes `<date>-<machine>-<name>.md` if a directory is given.
pub fn write(directory: Option<&Path>, machine: &Machine, name: &str, page: &str) -> Outcome {
    println!("\n{page}");
    if let Some(directory) = directory {
        fs::create_dir_all(directory)?;
        let (date, machine) = (&machine.date, machine.slug());
        let path = directory.join(format!("{date}-{machine}-{name}.md"));
        fs::write(&path, page)?;
        println!("written to {}", path.display());
    }
    Ok(())
}
