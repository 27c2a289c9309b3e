//! One word has one meaning: a type that is named by a word of the glossary exists once in the
//! store, and no other name of a type is used again and again.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, modules::Crate};

/// A reader meets a name that is used more often as a new thing in each file.
const USES_MAX: usize = 3;
/// Names that Rust programs use for the same purpose in each module.
const IDIOMS: [&str; 3] = ["Arguments", "Error", "Options"];
const GLOSSARY: &str = "docs/glossary.md";
/// The glossary is about the store; locks, laboratory and tests have their own subjects.
const OF_THE_GLOSSARY: &str = "store/";

/// A row for each name with too many types, with what to do about it.
pub fn above_limits(crates: &[Crate], sources: &[Source]) -> BTreeMap<String, String> {
    let glossary = sources.iter().find(|source| source.path == GLOSSARY);
    let words = glossary.map_or_else(BTreeSet::new, |page| type_names(&page.text));
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let types = crates.iter().flat_map(Crate::types);
    for (file, name) in types.filter(|(file, _)| !file.contains("/tests/")) {
        files.entry(name).or_default().push(file);
    }
    files.retain(|name, _| !IDIOMS.contains(name));
    let rows = files.iter().filter_map(|(name, files)| {
        let of_the_store = files.iter().filter(|it| it.starts_with(OF_THE_GLOSSARY));
        let advice = if words.contains(*name) && of_the_store.count() > 1 {
            "types with this word of the glossary"
        } else if files.len() > USES_MAX {
            "types with this name"
        } else {
            return None;
        };
        let advice = format!("{} {advice}: {}", files.len(), files.join(", "));
        Some((format!("{name} name"), advice))
    });
    rows.collect()
}

/// The words of the glossary's table as names of types: `hard state` is `HardState`.
fn type_names(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let words = rows.filter_map(|row| row.split(['|', '(']).next());
    words
        .flat_map(|words| words.split(','))
        .map(type_name)
        .collect()
}

fn type_name(words: &str) -> String {
    let capitalized = words.split([' ', '-']).filter_map(|word| {
        let (first, rest) = word.split_at_checked(1)?;
        Some(first.to_uppercase() + rest)
    });
    capitalized.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(glossary: &str, files: &[(&str, &str)]) -> Vec<String> {
        let source = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let files: Vec<Source> = files
            .iter()
            .map(|(path, text)| source(path, text))
            .collect();
        let files: Vec<&Source> = files.iter().collect();
        let one = Crate::parse("store/a/src", &files).unwrap();
        let page = [source(GLOSSARY, glossary)];
        above_limits(&[one], &page).into_keys().collect()
    }

    #[test]
    fn a_word_of_the_glossary_names_one_type() {
        let glossary = "| word | meaning |\n| hard state | a row |\n";
        let twice = [
            ("store/a/src/b.rs", "struct HardState;"),
            ("store/a/src/c.rs", "enum HardState {}"),
        ];
        assert_eq!(rows(glossary, &twice), ["HardState name"]);
        assert!(rows(glossary, &twice[..1]).is_empty());
        assert!(rows("", &twice).is_empty());
    }

    #[test]
    fn another_name_is_used_three_times_at_most() {
        let of = |name: &str| {
            ["b", "c", "d", "e"].map(|file| {
                let text = format!("struct {name};");
                (format!("store/a/src/{file}.rs"), text)
            })
        };
        let used = |files: &[(String, String)]| {
            let files: Vec<(&str, &str)> = files
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str()))
                .collect();
            rows("", &files)
        };
        assert_eq!(used(&of("Waiting")), ["Waiting name"]);
        assert!(used(&of("Waiting")[..3]).is_empty());
        assert!(used(&of("Options")).is_empty());
    }
}
