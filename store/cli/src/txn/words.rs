//! The words of a line: bare, in 'single' or in "double" quotation marks.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::client::unquoted;

/// Splits a line; an error is the reason why it cannot be.
pub(super) fn split(line: &str) -> Result<Vec<OsString>, &'static str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let word;
        (word, rest) = match first {
            '"' => unquoted(rest).ok_or("A quotation has no end, or an unknown escape.")?,
            '\'' => {
                let inner = &rest[1..];
                let (word, rest) = inner.split_once('\'').ok_or("A quotation has no end.")?;
                (word.as_bytes().to_vec(), rest)
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest.as_bytes()[..end].to_vec(), &rest[end..])
            }
        };
        words.push(OsString::from_vec(word));
        rest = rest.trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_bare_or_quoted() {
        let words = split(r#" put  "a b\n" 'c "d"' e'f "" "#).unwrap();
        assert_eq!(words, ["put", "a b\n", "c \"d\"", "e'f", ""]);
        assert!(split("put 'a").is_err());
        assert!(split("put \"a").is_err());
    }
}
