//! The index of the search: every heading with its text, in a file that `site.js` loads when
//! the reader first looks for something.

use super::library::{Leaf, Library};
use crate::process::Outcome;

/// Pages of which only headings are found: their text is tables of numbers.
const TABLES: &str = "lab/records/";

/// Pages as `[title, address, [[anchor, heading, text], ...]]`.
pub fn index(library: &Library) -> Outcome<String> {
    let pages = library.paths().filter_map(|path| {
        let leaf = library.get(path)?;
        Some((&leaf.title, library.address(path), sections(path, leaf)))
    });
    let pages = serde_json::to_string(&pages.collect::<Vec<_>>())?;
    // A file that is loaded as a script also works where pages are read from a disk.
    Ok(format!("const searchIndex = {pages};\n"))
}

fn sections<'a>(path: &str, leaf: &'a Leaf) -> Vec<(&'a str, &'a str, String)> {
    let sections = leaf.document.headings.iter().map(|heading| {
        let words = heading.body.split_whitespace();
        let text = match path.starts_with(TABLES) {
            true => String::new(),
            false => words.collect::<Vec<_>>().join(" "),
        };
        (&*heading.anchor, &*heading.text, text)
    });
    sections.collect()
}
