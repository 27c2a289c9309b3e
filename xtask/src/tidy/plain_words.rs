//! A ratchet on words that hide the actor or the term of a sentence.
//!
//! "Nobody waits so long for whoever leads" does not tell a stranger which thread, member or
//! caller waits for what. `plain_words.txt` says how many such words each part of the
//! repository has; the numbers can only go down. All text of a Rust file counts: comments,
//! messages, and the parts of names.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Source, comments, read};
use crate::process::Outcome;

const TABLE: &str = "xtask/plain_words.txt";
/// What was measured and said once stays as it was said.
const RECORDS: &str = "lab/records/";

/// Folders that hold crates.
const CRATES: [&str; 4] = ["store", "locks", "lab", "tests"];

/// Words that stand for an actor, or that have a plainer one.
const WORDS: [&str; 14] = [
    "who",
    "whoever",
    "whom",
    "whose",
    "nobody",
    "somebody",
    "everybody",
    "anybody",
    "amid",
    "anew",
    "meanwhile",
    "shall",
    "hitch",
    "hitches",
];

/// The same of two words.
const PAIRS: [(&str, &str); 9] = [
    ("so", "long"),
    ("so", "many"),
    ("in", "vain"),
    ("is", "told"),
    ("are", "told"),
    ("comes", "along"),
    ("come", "along"),
    ("lets", "go"),
    ("let", "go"),
];

type Counts = BTreeMap<String, usize>;

/// Parts that have more of these words than the table allows.
pub fn faults(root: &Path, sources: &[Source]) -> Outcome<Vec<String>> {
    let allowed = parse(&std::fs::read_to_string(root.join(TABLE))?)?;
    let counts = count(sources);
    let judged = counts.iter().filter_map(|(area, &found)| {
        let most = allowed.get(area).copied().unwrap_or(0);
        (found > most).then(|| {
            format!(
                "{area}: {found} words such as `whoever`, `nobody` or `so long`, and {most} is the \
                 most; name the caller, thread or member (CONTRIBUTING.md, \"Plain words\")"
            )
        })
    });
    Ok(judged.collect())
}

/// Lowers the numbers of the table to what is there; none is raised.
pub fn record(root: &Path) -> Outcome {
    let text = std::fs::read_to_string(root.join(TABLE))?;
    let allowed = parse(&text)?;
    let counts = count(&read(root)?);
    let mut rows = comments(&text);
    for (area, most) in allowed {
        let found = counts.get(&area).copied().unwrap_or(0);
        if found > 0 {
            rows.push(format!("{area} {}", found.min(most)));
        }
    }
    Ok(std::fs::write(root.join(TABLE), rows.join("\n") + "\n")?)
}

fn parse(table: &str) -> Outcome<Counts> {
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let (area, most) = row
            .split_once(' ')
            .ok_or_else(|| format!("{TABLE}: no part and number in `{row}`"))?;
        Ok((area.to_owned(), most.parse()?))
    })
    .collect()
}

fn count(sources: &[Source]) -> Counts {
    let mut counts = Counts::new();
    for source in sources.iter().filter(|source| is_judged(&source.path)) {
        let found = count_in(&source.text);
        *counts.entry(area(&source.path)).or_default() += found;
    }
    counts.retain(|_, found| *found > 0);
    counts
}

fn is_judged(path: &str) -> bool {
    let is_text = path.ends_with(".rs") || path.ends_with(".md") || path.ends_with(".proto");
    is_text && !path.starts_with(RECORDS) && !path.ends_with("/plain_words.rs")
}

/// A crate (`store/NAME`), another top folder, or `top` for the files beside them.
fn area(path: &str) -> String {
    match path.split('/').collect::<Vec<_>>()[..] {
        [folder, name, _, ..] if CRATES.contains(&folder) => format!("{folder}/{name}"),
        [folder, _, ..] => folder.to_owned(),
        _ => "top".to_owned(),
    }
}

fn count_in(text: &str) -> usize {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|letter: char| !letter.is_ascii_alphabetic())
        .filter(|word| !word.is_empty())
        .collect();
    let single = words.iter().filter(|word| WORDS.contains(word)).count();
    let pairs = words.windows(2);
    let pairs = pairs.filter(|pair| PAIRS.contains(&(pair[0], pair[1])));
    single + pairs.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn words_in_comments_messages_and_names_are_counted() {
        assert_eq!(count_in("/// Whoever waits so\n/// long is told."), 3);
        assert_eq!(count_in("fn who_leads() { panic!(\"nobody\") }"), 2);
        assert_eq!(
            count_in("/// A whole, anonymous, shallow thread is so slow."),
            0
        );
    }

    #[test]
    fn words_count_for_their_part_and_records_do_not_count() {
        let counts = count(&[
            source("store/a/src/lib.rs", "// who"),
            source("store/a/tests/b.rs", "// whose"),
            source("docs/use/x.md", "whom"),
            source("README.md", "anew"),
            source("lab/records/x.md", "nobody"),
            source("store/b/src/lib.rs", "// plain"),
        ]);
        let expected = [("store/a", 2), ("docs", 1), ("top", 1)];
        let expected = expected.map(|(area, found)| (area.to_owned(), found));
        assert_eq!(counts, Counts::from(expected));
    }

    #[test]
    fn a_row_without_a_number_is_refused() {
        assert!(parse("# words\nstore/a 3\n").is_ok());
        assert!(parse("store/a").is_err());
        assert!(parse("store/a many").is_err());
    }
}
