//! The nearest name to a misspelt one.

/// The candidate with the smallest edit distance; `None` if even that one is too different.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .min()
        .filter(|(edits, _)| *edits <= word.len() / 3 + 1)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

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
