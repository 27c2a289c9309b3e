//! Cuts the body of a request into JSON values.
//!
//! A body may hold several values one after another, and it arrives in pieces that know
//! nothing of values. The cut needs no parser: outside of strings, brackets are counted.
//! Whether a value is well-formed is found when it is decoded.

use bytes::{Buf, Bytes, BytesMut};

/// The body ended within a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected EOF")]
pub struct Cut;

/// The JSON values of one body.
#[derive(Debug, Default)]
pub struct Values {
    /// Bytes from the beginning of the current value on.
    buffer: BytesMut,
    /// Bytes of the buffer that were looked at.
    looked: usize,
    /// Brackets that are open.
    depth: usize,
    string: InString,
}

/// Whether the next byte is part of a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InString {
    #[default]
    No,
    Yes,
    /// After a backslash.
    Escaped,
}

impl Values {
    /// Adds the next bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next value that is complete, with nothing around it.
    pub fn next_value(&mut self) -> Option<Bytes> {
        if self.looked == 0 {
            let blank = self
                .buffer
                .iter()
                .take_while(|byte| is_blank(**byte))
                .count();
            self.buffer.advance(blank);
        }
        while self.looked < self.buffer.len() {
            let byte = self.buffer[self.looked];
            if self.ends_before(byte) {
                return Some(self.take());
            }
            self.looked += 1;
            if self.ends_with(byte) {
                return Some(self.take());
            }
        }
        None
    }

    /// The last value, after the last bytes of the body; an error if it is not complete.
    pub fn last_value(&mut self) -> Result<Option<Bytes>, Cut> {
        if let Some(value) = self.next_value() {
            return Ok(Some(value));
        }
        match (self.buffer.is_empty(), self.depth, self.string) {
            (true, ..) => Ok(None),
            // A number or a name has no end of its own.
            (false, 0, InString::No) => Ok(Some(self.take())),
            _ => Err(Cut),
        }
    }

    /// Bytes of a value that has begun and is not complete.
    pub fn unfinished_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether a number or a name ends before this byte.
    fn ends_before(&self, byte: u8) -> bool {
        let is_open = self.looked > 0 && self.depth == 0 && self.string == InString::No;
        is_open && (is_blank(byte) || b"{}[]\",:".contains(&byte))
    }

    /// Goes on by one byte; whether the value ends with it.
    fn ends_with(&mut self, byte: u8) -> bool {
        match (self.string, byte) {
            (InString::Escaped, _) => self.string = InString::Yes,
            (InString::Yes, b'\\') => self.string = InString::Escaped,
            (InString::Yes, b'"') => self.string = InString::No,
            (InString::Yes, _) => {}
            (InString::No, b'"') => self.string = InString::Yes,
            (InString::No, b'{' | b'[') => self.depth += 1,
            (InString::No, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
            (InString::No, b',' | b':') => {}
            (InString::No, _) => return false,
        }
        self.depth == 0 && self.string == InString::No
    }

    fn take(&mut self) -> Bytes {
        let value = self.buffer.split_to(self.looked).freeze();
        (self.looked, self.depth, self.string) = (0, 0, InString::No);
        value
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(body: &str, piece_bytes: usize) -> (Vec<String>, Result<(), Cut>) {
        let mut values = Values::default();
        let mut found = Vec::new();
        let text = |value: Bytes| String::from_utf8(value.to_vec()).unwrap();
        for piece in body.as_bytes().chunks(piece_bytes) {
            values.push(piece);
            while let Some(value) = values.next_value() {
                found.push(text(value));
            }
        }
        loop {
            match values.last_value() {
                Ok(Some(value)) => found.push(text(value)),
                Ok(None) => return (found, Ok(())),
                Err(cut) => return (found, Err(cut)),
            }
        }
    }

    #[test]
    fn values_are_cut_wherever_the_pieces_end() {
        let values = [
            r#"{"a":"}\"{","b":[{},"\\"]}"#,
            "[1, 2]",
            r#""x y""#,
            "12",
            "true",
            "{}",
        ];
        for between in [" ", "\n", "\r\n \t"] {
            let body = format!(" {} ", values.join(between));
            for piece_bytes in [1, 2, 3, 7, 1000] {
                let (found, end) = cut(&body, piece_bytes);
                assert_eq!(found, values, "{piece_bytes}");
                assert_eq!(end, Ok(()));
            }
        }
        assert_eq!(cut("{}{}", 1).0, ["{}", "{}"]);
        assert_eq!(cut("12", 1).0, ["12"]);
    }

    #[test]
    fn a_body_that_ends_within_a_value_is_cut() {
        for body in ["{", r#"{"a":1"#, "[[]", r#""a"#, r#""\"#, r#"{} {"}"#] {
            assert_eq!(cut(body, 1).1, Err(Cut), "{body}");
        }
    }

    #[test]
    fn stray_bytes_are_values_that_no_decoder_takes() {
        assert_eq!(cut("},{}", 1).0, ["}", ",", "{}"]);
        assert_eq!(cut("{]}", 1).0, ["{]", "}"]);
    }

    #[test]
    fn blanks_between_values_take_no_memory() {
        let mut values = Values::default();
        for _ in 0..1000 {
            values.push(&[b' '; 1000]);
            assert_eq!(values.next_value(), None);
        }
        assert_eq!(values.unfinished_bytes(), 0);
        values.push(b"{\"a\"");
        assert_eq!(values.next_value(), None);
        assert_eq!(values.unfinished_bytes(), 4);
    }
}
