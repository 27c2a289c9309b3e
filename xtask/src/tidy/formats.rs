//! Every byte layout has a page.
//!
//! ```text
//!   store/X/src/format.rs ──names──► docs/formats/Y.md
//!        │ hash                            │ hash
//!        └────────► xtask/formats.txt ◄────┘
//! ```
//!
//! The table has the hashes of both from the time when they last agreed. A source
//! that changed without its page is a fault; `record` stores the hashes of a pair that
//! changed together. As a consequence, even a changed comment in a `format.rs` requires a
//! change of its page.

use std::{collections::BTreeMap, path::Path};

use super::{Source, comments, read};
use crate::process::Outcome;

const TABLE: &str = "xtask/formats.txt";
const PAGES: &str = "docs/formats/";
/// Lines of a source in which the name of a page makes it a layout.
const HEADER_LINES: usize = 5;

/// A byte layout and its page, as hashes of their texts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    source: u64,
    page: String,
    page_hash: u64,
}

type Pairs = BTreeMap<String, Pair>;

/// Formats that changed without their page, or are not recorded.
pub fn faults(root: &Path, sources: &[Source]) -> Outcome<Vec<String>> {
    let recorded = parse(&std::fs::read_to_string(root.join(TABLE))?)?;
    let (current, mut faults) = pairs(sources);
    for (path, pair) in &current {
        match recorded.get(path) {
            None => faults.push(format!("{path}: unknown layout; run `cargo xtask fix`")),
            Some(old) => faults.extend(judge(path, old, pair)),
        }
    }
    let gone = recorded.keys().filter(|path| !current.contains_key(*path));
    faults.extend(gone.map(|path| format!("{TABLE}: {path} is gone; run `cargo xtask fix`")));
    Ok(faults)
}

/// Rewrites the table. Pairs that may not be recorded are returned as faults.
pub fn record(root: &Path) -> Outcome<Vec<String>> {
    let text = std::fs::read_to_string(root.join(TABLE))?;
    let recorded = parse(&text)?;
    let (current, mut faults) = pairs(&read(root)?);
    let mut rows = comments(&text);
    for (path, mut pair) in current {
        if let Some(old) = recorded.get(&path)
            && forgotten(old, &pair)
        {
            faults.extend(judge(&path, old, &pair));
            pair = old.clone();
        }
        rows.push(format!(
            "{path} {:016x} {} {:016x}",
            pair.source, pair.page, pair.page_hash
        ));
    }
    std::fs::write(root.join(TABLE), rows.join("\n") + "\n")?;
    Ok(faults)
}

/// Whether the source changed and its page did not.
fn forgotten(old: &Pair, new: &Pair) -> bool {
    old.source != new.source && old.page == new.page && old.page_hash == new.page_hash
}

fn judge(path: &str, old: &Pair, new: &Pair) -> Option<String> {
    if forgotten(old, new) {
        return Some(format!(
            "{path} changed and {} did not; write the page, then run `cargo xtask fix`",
            new.page
        ));
    }
    (old != new).then(|| format!("{path} or its page changed; run `cargo xtask fix`"))
}

fn pairs(sources: &[Source]) -> (Pairs, Vec<String>) {
    let mut pairs = Pairs::new();
    let mut faults = Vec::new();
    for layout in sources.iter().filter(|source| is_layout(source)) {
        match page_of(layout, sources) {
            Ok(page) => {
                let pair = Pair {
                    source: hash(&layout.text),
                    page: page.path.clone(),
                    page_hash: hash(&page.text),
                };
                pairs.insert(layout.path.clone(), pair);
            }
            Err(fault) => faults.push(fault),
        }
    }
    let pages = sources
        .iter()
        .filter(|source| source.path.starts_with(PAGES));
    let orphans = pages.filter(|page| !pairs.values().any(|pair: &Pair| pair.page == page.path));
    faults.extend(orphans.map(|page| format!("{}: no layout names this page", page.path)));
    (pairs, faults)
}

/// A `format.rs`, or any source that names its page in its header.
fn is_layout(source: &Source) -> bool {
    let names_a_page = || {
        let mut header = source.text.lines().take(HEADER_LINES);
        header.any(|line| line.starts_with("//!") && line.contains(PAGES))
    };
    let parts: Vec<&str> = source.path.split('/').collect();
    match parts[..] {
        [_, _, "src", .., name] => name == "format.rs" || names_a_page(),
        _ => false,
    }
}

fn page_of<'a>(layout: &Source, sources: &'a [Source]) -> Result<&'a Source, String> {
    let path = &layout.path;
    let start = layout
        .text
        .find(PAGES)
        .ok_or_else(|| format!("{path}: its header must name its page in docs/formats/"))?;
    let rest = &layout.text[start..];
    let end = rest
        .find(".md")
        .ok_or_else(|| format!("{path}: its page must be a .md file"))?;
    let wanted = &rest[..end + ".md".len()];
    let page = sources.iter().find(|source| source.path == wanted);
    page.ok_or_else(|| format!("{path} names {wanted}, which does not exist: write it"))
}

fn parse(table: &str) -> Outcome<Pairs> {
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| match row.split(' ').collect::<Vec<_>>()[..] {
        [path, source, page, page_hash] => {
            let pair = Pair {
                source: u64::from_str_radix(source, 16)?,
                page: page.to_owned(),
                page_hash: u64::from_str_radix(page_hash, 16)?,
            };
            Ok((path.to_owned(), pair))
        }
        _ => Err(format!("{TABLE}: no layout in `{row}`").into()),
    })
    .collect()
}

/// FNV-1a: enough to notice a change, and the same on every machine.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(layout: &str, page: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in ["store/a/src", "docs/formats", "xtask"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        write(&root, layout, page);
        std::fs::write(root.path().join(TABLE), "# head\n").unwrap();
        root
    }

    fn write(root: &tempfile::TempDir, layout: &str, page: &str) {
        let header = format!("//! docs/formats/a.md\n{layout}");
        std::fs::write(root.path().join("store/a/src/format.rs"), header).unwrap();
        std::fs::write(root.path().join("docs/formats/a.md"), page).unwrap();
    }

    fn judged(root: &tempfile::TempDir) -> Vec<String> {
        faults(root.path(), &read(root.path()).unwrap()).unwrap()
    }

    #[test]
    fn a_recorded_pair_is_in_order() {
        let root = repository("one", "page one");
        assert_eq!(judged(&root).len(), 1, "not recorded yet");
        assert!(record(root.path()).unwrap().is_empty());
        assert!(judged(&root).is_empty());
    }

    #[test]
    fn a_format_that_changes_without_its_page_fails_and_cannot_be_recorded() {
        let root = repository("one", "page one");
        record(root.path()).unwrap();
        write(&root, "two", "page one");
        assert!(judged(&root)[0].contains("did not"));
        assert_eq!(record(root.path()).unwrap().len(), 1);
        assert!(judged(&root)[0].contains("did not"), "still not recorded");
    }

    #[test]
    fn a_format_that_changes_with_its_page_can_be_recorded() {
        let root = repository("one", "page one");
        record(root.path()).unwrap();
        write(&root, "two", "page two");
        assert_eq!(judged(&root).len(), 1);
        assert!(record(root.path()).unwrap().is_empty());
        assert!(judged(&root).is_empty());
    }

    #[test]
    fn a_format_without_a_page_fails() {
        let root = repository("one", "page one");
        std::fs::remove_file(root.path().join("docs/formats/a.md")).unwrap();
        assert!(judged(&root)[0].contains("does not exist"));
    }

    #[test]
    fn a_page_without_a_format_fails() {
        let root = repository("one", "page one");
        record(root.path()).unwrap();
        std::fs::write(root.path().join("docs/formats/b.md"), "page").unwrap();
        assert!(judged(&root)[0].contains("no layout names"));
    }

    #[test]
    fn any_source_that_begins_with_its_page_is_a_layout() {
        let root = repository("one", "page one");
        let path = root.path().join("store/a/src/format.rs");
        std::fs::rename(path, root.path().join("store/a/src/state.rs")).unwrap();
        assert!(record(root.path()).unwrap().is_empty());
        assert!(judged(&root).is_empty());
        write(&root, "two", "page one");
        std::fs::remove_file(root.path().join("store/a/src/format.rs")).unwrap();
        std::fs::write(
            root.path().join("store/a/src/state.rs"),
            "//! docs/formats/a.md\n",
        )
        .unwrap();
        assert!(judged(&root)[0].contains("did not"));
    }
}
