//! Checks that every link of a page leads to a file of the repository, and every anchor to a
//! heading.

use std::{collections::BTreeMap, path::Path};

use super::Source;
use crate::markdown::{Destination, Document, Hyperlink};

/// Pages that are parts of other pages, or expected output of a test.
const PARTS: [&str; 2] = ["/templates/", "/golden/"];

/// Links without a destination, with file, line and target.
pub fn faults(root: &Path, sources: &[Source]) -> Vec<String> {
    let pages = sources.iter().filter(|it| is_page(&it.path));
    let pages = pages.map(|it| (it.path.as_str(), Document::read(&it.text)));
    let pages: BTreeMap<&str, Document> = pages.collect();
    let mut faults = Vec::new();
    for (path, page) in &pages {
        let judged = page.hyperlinks.iter().filter_map(|link| {
            let fault = fault(root, &pages, path, link)?;
            Some(format!("{path}:{}: `{}`: {fault}", link.line, link.target))
        });
        faults.extend(judged);
    }
    faults
}

pub fn is_page(path: &str) -> bool {
    path.ends_with(".md") && !PARTS.iter().any(|part| path.contains(part))
}

fn fault(
    root: &Path,
    pages: &BTreeMap<&str, Document>,
    path: &str,
    link: &Hyperlink,
) -> Option<String> {
    let (file, anchor) = match Destination::of(path, &link.target) {
        Destination::Elsewhere => return None,
        Destination::Outside => return Some("leaves the repository".to_owned()),
        Destination::Inside(file, anchor) => (file, anchor),
    };
    let page = pages.get(file.as_str());
    match (page, anchor) {
        (Some(page), Some(anchor)) if !page.has_anchor(&anchor) => {
            Some(format!("{file} has no heading with this anchor"))
        }
        (None, Some(_)) => Some(format!("{file} is no page with headings")),
        (None, None) if !root.join(&file).exists() => Some(format!("there is no {file}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(line: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.rs"), "").unwrap();
        let source = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let pages = [
            source("docs/b.md", "# B\n\n## Some heading\n"),
            source("README.md", line),
        ];
        faults(root.path(), &pages)
    }

    #[test]
    fn links_to_files_and_headings_that_exist_are_accepted() {
        let text = "# A\n[b](docs/b.md), [h](docs/b.md#some-heading), [a](a.rs), [top](#a)";
        assert_eq!(faults_of(text), [""; 0]);
        assert_eq!(faults_of("[elsewhere](https://example.org/x)"), [""; 0]);
    }

    #[test]
    fn broken_links_are_named_with_file_line_and_target() {
        let expected = ["README.md:3: `docs/c.md`: there is no docs/c.md"];
        assert_eq!(faults_of("# A\n\n[c](docs/c.md)"), expected);
        let expected =
            ["README.md:1: `docs/b.md#other`: docs/b.md has no heading with this anchor"];
        assert_eq!(faults_of("[b](docs/b.md#other)"), expected);
        let expected = ["README.md:1: `a.rs#L1`: a.rs is no page with headings"];
        assert_eq!(faults_of("[a](a.rs#L1)"), expected);
        let expected = ["README.md:1: `../x.md`: leaves the repository"];
        assert_eq!(faults_of("[x](../x.md)"), expected);
    }
}
