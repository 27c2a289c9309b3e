//! Bytes as Go's `%q` writes and reads them: safe to print on a terminal, whatever they are.

use std::fmt::Write;
use std::str::Chars;

/// The bytes in quotation marks, with everything that is not printable text escaped.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|it| push(&mut text, it));
        for byte in chunk.invalid() {
            push_code(&mut text, 'x', 2, u32::from(*byte));
        }
    }
    text.push('"');
    text
}

/// The bytes without quotation marks around them, with everything that is not printable text
/// escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text = quoted(bytes);
    text[1..text.len() - 1].replace("\\\"", "\"")
}

/// Reads what [`quoted`] writes at the beginning of `text`: its bytes, and the rest of the text.
/// `None` if the text does not begin with a whole quotation.
pub(crate) fn unquoted(text: &str) -> Option<(Vec<u8>, &str)> {
    let mut letters = text.strip_prefix('"')?.chars();
    let mut bytes = Vec::new();
    loop {
        match letters.next()? {
            '"' => break,
            '\\' => unescape(&mut letters, &mut bytes)?,
            letter => append(&mut bytes, letter),
        }
    }
    Some((bytes, letters.as_str()))
}

fn unescape(letters: &mut Chars<'_>, bytes: &mut Vec<u8>) -> Option<()> {
    let letter = letters.next()?;
    let plain = match letter {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        '"' => b'"',
        '\'' => b'\'',
        'x' => u8::try_from(digits_of(letters, 2, 16, 0)?).ok()?,
        '0'..='7' => u8::try_from(digits_of(letters, 2, 8, letter.to_digit(8)?)?).ok()?,
        'u' | 'U' => {
            let digits = if letter == 'u' { 4 } else { 8 };
            append(bytes, char::from_u32(digits_of(letters, digits, 16, 0)?)?);
            return Some(());
        }
        _ => return None,
    };
    bytes.push(plain);
    Some(())
}

fn digits_of(letters: &mut Chars<'_>, count: u32, radix: u32, first: u32) -> Option<u32> {
    (0..count).try_fold(first, |code, _| {
        let digit = letters.next()?.to_digit(radix)?;
        code.checked_mul(radix)?.checked_add(digit)
    })
}

fn append(bytes: &mut Vec<u8>, letter: char) {
    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

fn push(text: &mut String, letter: char) {
    let short = match letter {
        '"' | '\\' => letter,
        '\x07' => 'a',
        '\x08' => 'b',
        '\x0c' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\x0b' => 'v',
        _ if is_printable(letter) => return text.push(letter),
        _ => {
            let code = u32::from(letter);
            return match code {
                0..=0x7f => push_code(text, 'x', 2, code),
                0x80..=0xffff => push_code(text, 'u', 4, code),
                _ => push_code(text, 'U', 8, code),
            };
        }
    };
    text.push('\\');
    text.push(short);
}

fn push_code(text: &mut String, kind: char, digits: usize, code: u32) {
    write!(text, "\\{kind}{code:0digits$x}").expect("a String takes every text");
}

/// Whether a terminal shows the letter as it is. The escapes of the standard library know; the
/// letter before it keeps combining marks from being escaped.
fn is_printable(letter: char) -> bool {
    let pair = ['a', letter].iter().collect::<String>();
    matches!(letter, '\'') || pair.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_and_the_rest_is_escaped_as_in_go() {
        for (bytes, expected) in [
            (&b"ink"[..], r#""ink""#),
            ("größe e\u{301}".as_bytes(), "\"größe e\u{301}\""),
            (b"a\"b\\c'd", r#""a\"b\\c'd""#),
            (b"\x1b[2J\n\t\x07", r#""\x1b[2J\n\t\a""#),
            (b"\xff\x00", r#""\xff\x00""#),
            (
                "\u{9b}\u{202e}\u{e0001}".as_bytes(),
                r#""\u009b\u202e\U000e0001""#,
            ),
        ] {
            assert_eq!(quoted(bytes), expected);
            let back = unquoted(expected).unwrap();
            assert_eq!((&back.0[..], back.1), (bytes, ""));
        }
    }

    #[test]
    fn quotations_are_read_to_their_end_or_not_at_all() {
        assert_eq!(
            unquoted(r#""\101\'" > 3"#).unwrap(),
            (b"A'".to_vec(), " > 3")
        );
        for wrong in [
            "",
            "a",
            "\"a",
            r#""\""#,
            r#""\q""#,
            r#""\x1""#,
            r#""\777""#,
            r#""\ud800""#,
        ] {
            assert!(unquoted(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_key_in_a_line_has_no_quotation_marks_around_it() {
        assert_eq!(printable(b"a\"b\x1b"), "a\"b\\x1b");
    }
}
