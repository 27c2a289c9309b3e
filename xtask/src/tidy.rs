//! House rules that the compiler does not check.
//!
//! Each rule is a function from the sources to a list of faults; a fault says
//! where, what and what to do. They run as a test and in `cargo xtask check`.

mod committed_bytes;
mod dependencies;
pub mod formats;
pub mod links;
mod modules;
mod names;
mod pages;
pub mod plain_words;
pub mod shapes;
mod sources;
mod type_names;
mod words;

use std::path::Path;

pub use sources::{Source, read};

use crate::process::Outcome;

/// The lines at the top of a table that explain it.
fn comments(table: &str) -> Vec<String> {
    let comments = table.lines().filter(|line| line.starts_with('#'));
    comments.map(str::to_owned).collect()
}

/// All faults of the repository at `root`.
pub fn faults(root: &Path) -> Outcome<Vec<String>> {
    let sources = read(root)?;
    let mut faults = names::faults(&sources);
    faults.extend(words::faults(&sources));
    faults.extend(pages::faults(&sources));
    faults.extend(links::faults(root, &sources));
    faults.extend(committed_bytes::faults(root)?);
    let exceptions = std::fs::read_to_string(root.join("xtask/shapes.txt"))?;
    faults.extend(shapes::faults(&sources, &exceptions)?);
    faults.extend(dependencies::faults(&sources));
    faults.extend(plain_words::faults(root, &sources)?);
    faults.extend(formats::faults(root, &sources)?);
    Ok(faults)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_house_is_tidy() {
        let faults = super::faults(&crate::process::root()).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
