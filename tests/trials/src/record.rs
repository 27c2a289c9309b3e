//! Records of trials: pages in Markdown, by day and machine.

use std::{fs, path::Path};

use crate::Outcome;
use crate::machine::Machine;

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
