//! Checks that files and functions named by the pages exist: each step of a walk arrives.

use std::collections::BTreeSet;

use super::Source;

/// A figure in a record names files of its time.
const RECORDS: [&str; 2] = ["lab/records/", "CHANGELOG.md"];

/// Every `file.rs` on a page that is not in the repository, and every function that a page
/// names behind its file (`` `a/b.rs`: `first`, `second` ``) and the file does not have.
pub fn faults(sources: &[Source]) -> Vec<String> {
    let code: Vec<&Source> = of_kind(sources, ".rs").collect();
    let pages = of_kind(sources, ".md").filter(|page| !is_record(&page.path));
    let mut faults = Vec::new();
    for page in pages {
        for (number, line) in page.text.lines().enumerate() {
            let missing = paths(line).filter(|path| files(&code, path).is_empty());
            let missing = missing.map(|path| format!("no file `{path}`"));
            let unknown = missing.chain(unknown_functions(&code, line));
            faults.extend(unknown.map(|what| format!("{}:{}: {what}", page.path, number + 1)));
        }
    }
    faults
}

fn of_kind<'a>(sources: &'a [Source], ending: &'a str) -> impl Iterator<Item = &'a Source> {
    sources.iter().filter(move |it| it.path.ends_with(ending))
}

fn is_record(path: &str) -> bool {
    RECORDS.iter().any(|record| path.starts_with(record))
}

/// The paths of Rust files in `line`.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let is_part =
        |character: char| character.is_ascii_alphanumeric() || "_-./*".contains(character);
    let words = line.split(move |character| !is_part(character));
    // `foo.rs` is an example of a name.
    words.filter(|word| word.ends_with(".rs") && !word.contains('*') && !word.starts_with("foo"))
}

/// The files that `path` may mean: a page leaves out the folders that its reader knows.
fn files<'a>(code: &[&'a Source], path: &str) -> Vec<&'a Source> {
    let path = path.trim_start_matches("../");
    let ending = format!("/{path}");
    let means = |file: &&&Source| file.path == path || file.path.ends_with(&ending);
    code.iter().filter(means).copied().collect()
}

/// Faults of the functions that `line` names behind a file.
fn unknown_functions(code: &[&Source], line: &str) -> Vec<String> {
    let mut faults = BTreeSet::new();
    let parts: Vec<&str> = line.split('`').collect();
    let mut file = None;
    // Odd parts are in quotes, even ones between them.
    for (index, part) in parts.iter().enumerate() {
        match (index % 2, *part) {
            (0, ": " | ", ") => {}
            (0, _) => file = None,
            (_, path) if path.ends_with(".rs") => {
                file = (parts.get(index + 1) == Some(&": ")).then_some(path);
            }
            (_, name) => {
                if let Some(path) = file.filter(|path| !defines(code, path, name)) {
                    faults.insert(format!("no function `{name}` in `{path}`"));
                }
            }
        }
    }
    faults.into_iter().collect()
}

fn defines(code: &[&Source], path: &str, function: &str) -> bool {
    let (plain, generic) = (format!("fn {function}("), format!("fn {function}<"));
    let has = |file: &&Source| file.text.contains(&plain) || file.text.contains(&generic);
    files(code, path).iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(line: &str) -> Vec<String> {
        let source = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let code = source("store/a/src/b.rs", "pub fn first() {} fn second<T>() {}");
        faults(&[code, source("docs/tour.md", line)])
    }

    #[test]
    fn a_file_that_a_page_names_exists() {
        assert!(faults_of("see `a/src/b.rs` and `b.rs`, and a/src/*.rs").is_empty());
        assert_eq!(
            faults_of("see `a/b.rs`"),
            ["docs/tour.md:1: no file `a/b.rs`"]
        );
    }

    #[test]
    fn a_function_that_a_page_names_behind_a_file_exists() {
        assert!(faults_of("`a/src/b.rs`: `first`, `second`; then `third`").is_empty());
        let faults = faults_of("`a/src/b.rs`: `first`, `third` is fast");
        assert_eq!(
            faults,
            ["docs/tour.md:1: no function `third` in `a/src/b.rs`"]
        );
    }
}
