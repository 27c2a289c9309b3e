//! The nearest name to a misspelt one.

/// The candidate with the smallest edit distance; `None` if even that one is too different.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .min()
        .filter(|(edits, _)| *edits <= word.len() / 3 + 1)
        .map(|(_, candidate)| candidate)
}

/// Insertions, removals and replacements that turn `from` into `to`.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn nothing_is_suggested_for_a_word_unlike_all_others() {
        assert_eq!(
            nearest("dta-dir", ["data-dir", "wal-dir"].into_iter()),
            Some("data-dir")
        );
        assert_eq!(
            nearest("frobnicate", ["data-dir", "wal-dir"].into_iter()),
            None
        );
    }
}
