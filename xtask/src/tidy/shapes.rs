//! Rules on the shape of the store's and the locks' code: few fields in a struct, the methods of
//! a type in few files, no large circle of files that use each other, no name for many types. In all crates, the file
//! of a module has the module's name, and no file is very long.
//!
//! One object that is cut over many files passes every limit on file sizes, and none of its
//! files has an invariant of its own. `shapes.txt` lists what is above a limit; the list may
//! only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Source, modules::Crate, read, type_names};
use crate::process::Outcome;

const TABLE: &str = "xtask/shapes.txt";
const FIELDS_MAX: usize = 15;
const IMPL_FILES_MAX: usize = 3;
const CIRCLE_FILES_MAX: usize = 3;
/// A file of more lines is two subjects, or one that wants a folder.
const LINES_MAX: usize = 1_200;
/// The crates of these folders are judged; the laboratory and the tests are not.
const JUDGED: [&str; 2] = ["store/", "locks/"];

/// Shapes above their limit that `exceptions` does not list, and rows that are not needed.
pub fn faults(sources: &[Source], exceptions: &str) -> Outcome<Vec<String>> {
    let allowed: BTreeSet<&str> = exceptions
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let found = above_limits(sources)?;
    let new = found
        .iter()
        .filter(|(row, _)| !allowed.contains(row.as_str()));
    let mut faults: Vec<String> = new
        .map(|(row, advice)| format!("{row}: {advice}"))
        .collect();
    let needless = allowed.iter().filter(|row| !found.contains_key(**row));
    faults.extend(
        needless
            .map(|row| format!("{TABLE}: the row `{row}` is not needed; run `cargo xtask fix`")),
    );
    Ok(faults)
}

/// Removes the rows that are not needed.
pub fn record(root: &Path) -> Outcome {
    let table = root.join(TABLE);
    let text = std::fs::read_to_string(&table)?;
    let found = above_limits(&read(root)?)?;
    let kept = text
        .lines()
        .filter(|line| line.starts_with('#') || found.contains_key(*line));
    let kept: Vec<&str> = kept.collect();
    Ok(std::fs::write(table, kept.join("\n") + "\n")?)
}

/// A row of the list for each shape above its limit, with what to do about it.
fn above_limits(sources: &[Source]) -> Outcome<BTreeMap<String, String>> {
    let unnamed = sources
        .iter()
        .filter(|source| source.path.contains("/src/") && source.path.ends_with("/mod.rs"));
    let advice = "the file of a module has the module's name: `a.rs` beside the folder `a`";
    let unnamed = unnamed.map(|source| (format!("{} layout", source.path), advice.to_owned()));
    let mut found: BTreeMap<String, String> = unnamed.collect();
    for source in sources.iter().filter(|it| it.path.ends_with(".rs")) {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            let advice = format!("{lines} lines, more than {LINES_MAX}; split it by subject");
            found.insert(format!("{} lines", source.path), advice);
        }
    }
    let crates = crates(sources)?;
    found.extend(type_names::above_limits(&crates, sources));
    for one in &crates {
        for (path, name, fields) in one.structs() {
            if fields > FIELDS_MAX {
                let row = format!("{path} fields {name}");
                let advice = format!(
                    "{fields} fields, more than {FIELDS_MAX}; give parts of it types of their own"
                );
                found.insert(row, advice);
            }
        }
        for ((path, name), files) in one.impl_files() {
            if files.len() > IMPL_FILES_MAX {
                let row = format!("{path} impl {name}");
                let advice = format!(
                    "`impl` blocks in {} files, more than {IMPL_FILES_MAX}; give parts of it \
                     types of their own: {}",
                    files.len(),
                    join(&files)
                );
                found.insert(row, advice);
            }
        }
        for circle in one.circles() {
            if circle.len() > CIRCLE_FILES_MAX {
                let first = circle.first().expect("a circle has files");
                let row = format!("{first} circle");
                let advice = format!(
                    "a circle of {} files that use each other, more than {CIRCLE_FILES_MAX}: {}",
                    circle.len(),
                    join(&circle)
                );
                found.insert(row, advice);
            }
        }
    }
    Ok(found)
}

fn join(files: &BTreeSet<String>) -> String {
    files.iter().cloned().collect::<Vec<_>>().join(", ")
}

/// The judged crates, from their sources below `src`.
fn crates(sources: &[Source]) -> Outcome<Vec<Crate>> {
    let mut by_root: BTreeMap<String, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        let judged = JUDGED.iter().any(|folder| source.path.starts_with(folder));
        if let Some((root, _)) = source.path.split_once("/src/")
            && judged
            && source.path.ends_with(".rs")
        {
            by_root
                .entry(format!("{root}/src"))
                .or_default()
                .push(source);
        }
    }
    by_root
        .iter()
        .map(|(root, files)| Crate::parse(root, files))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(files: &[(&str, &str)], exceptions: &str) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(name, text)| Source {
                path: format!("store/a/src/{name}.rs"),
                text: (*text).to_owned(),
            })
            .collect();
        faults(&sources, exceptions).unwrap()
    }

    #[test]
    fn a_struct_with_too_many_fields_is_reported() {
        let fields = |count: usize| {
            (0..count)
                .map(|at| format!("f{at}: u8,"))
                .collect::<String>()
        };
        let text = |count| format!("struct Big {{ {} }}", fields(count));
        assert!(judged(&[("lib", &text(FIELDS_MAX))], "").is_empty());
        let large = text(FIELDS_MAX + 1);
        assert!(judged(&[("lib", &large)], "")[0].contains("16 fields"));
        assert!(judged(&[("lib", &large)], "store/a/src/lib.rs fields Big").is_empty());
    }

    #[test]
    fn a_row_that_is_not_needed_is_reported() {
        let faults = judged(
            &[("lib", "struct A;")],
            "# head\nstore/a/src/lib.rs fields Big",
        );
        assert!(faults[0].contains("is not needed"));
    }

    #[test]
    fn a_file_above_the_limit_on_lines_is_reported() {
        let lines = |count| "\n".repeat(count);
        assert!(judged(&[("lib", &lines(LINES_MAX))], "").is_empty());
        assert!(judged(&[("lib", &lines(LINES_MAX + 1))], "")[0].contains("1201 lines"));
    }

    #[test]
    fn a_module_file_without_the_name_of_its_module_is_reported() {
        assert!(judged(&[("a/mod", ""), ("lib", "mod a;")], "")[0].contains("beside the folder"));
        assert!(judged(&[("a", ""), ("lib", "mod a;")], "").is_empty());
    }

    #[test]
    fn methods_of_one_type_in_four_files_are_reported() {
        let method = "use crate::A; impl A { fn f() {} }";
        let lib = "mod b; mod c; mod d; struct A; impl A {}";
        let three = [("lib", lib), ("b", method), ("c", method)];
        assert!(judged(&three, "").is_empty());
        let four = [("lib", lib), ("b", method), ("c", method), ("d", method)];
        assert!(judged(&four, "")[0].contains("`impl` blocks in 4 files"));
    }

    #[test]
    fn types_of_the_same_name_in_different_files_are_different_types() {
        let own = "struct A; impl A { fn f() {} }";
        let same = "impl crate::A { fn g() {} }";
        let four = [("lib", own), ("b", own), ("c", own), ("d", same)];
        assert!(judged(&four, "").is_empty());
    }

    #[test]
    fn a_circle_of_four_files_is_reported() {
        let files = [
            ("lib", "mod a; mod b; mod c; mod d;"),
            ("a", "use crate::b::B; pub struct A;"),
            ("b", "pub struct B; fn f() { crate::c::g() }"),
            ("c", "use super::d::*; pub fn g() {}"),
            ("d", "use crate::a::A;"),
        ];
        assert!(judged(&files, "")[0].contains("a circle of 4 files"));
        assert!(judged(&files[..4], "").is_empty());
    }

    #[test]
    fn a_name_that_a_parent_passes_on_leads_to_the_file_that_has_it() {
        let files = [
            (
                "lib",
                "mod a; mod b; mod c; mod d; pub use a::A; pub use b::B; pub use c::C;",
            ),
            ("a", "use crate::B; pub struct A;"),
            ("b", "use crate::C; pub struct B;"),
            ("c", "use crate::d; pub struct C;"),
            ("d", "pub fn f() {}"),
        ];
        assert!(judged(&files, "").is_empty());
    }
}
