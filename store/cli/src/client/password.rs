//! Passwords: kept out of messages, asked for without echo, overwritten after use.

use std::fmt;
use std::io::{self, BufRead, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Longest password that is read, in bytes; servers take at most 72.
const BYTES_MAX: usize = 4096;

/// A text that is never printed, and overwritten when it is dropped.
#[derive(Clone)]
pub(crate) struct Secret(Zeroizing<String>);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(Zeroizing::new(text))
    }
}

impl Secret {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Splits `NAME:PASSWORD` at its first colon. Without a colon it is a name.
    pub(crate) fn split(&self) -> (String, Option<Secret>) {
        match self.0.split_once(':') {
            Some((name, password)) => (name.to_owned(), Some(password.to_owned().into())),
            None => (self.0.to_string(), None),
        }
    }
}

/// Asks for the password of a user that exists.
pub(crate) fn ask(name: &str) -> Result<Secret, Failure> {
    let password = match io::stdin().is_terminal() {
        true => typed(&format!("Password of {name}: "))?,
        false => read_line(&mut io::stdin().lock())?.unwrap_or_else(|| String::new().into()),
    };
    not_empty(password, name)
}

/// Asks for a new password, twice. Where stdin is no terminal, its first line is the password, and
/// a second line must be the same.
pub(crate) fn ask_new(name: &str) -> Result<Secret, Failure> {
    let (password, again) = match io::stdin().is_terminal() {
        true => {
            let password = not_empty(typed(&format!("Password of {name}: "))?, name)?;
            let again = format!("Type password of {name} again for confirmation: ");
            (password, Some(typed(&again)?))
        }
        false => {
            let mut lines = io::stdin().lock();
            let password = read_line(&mut lines)?.unwrap_or_else(|| String::new().into());
            (not_empty(password, name)?, read_line(&mut lines)?)
        }
    };
    match again {
        Some(again) if again.text() != password.text() => Err(Failure::wrong_use(
            "given passwords are different",
            "Type the same password twice.",
        )),
        _ => Ok(password),
    }
}

/// The first line of stdin, without a question.
pub(crate) fn from_stdin(name: &str) -> Result<Secret, Failure> {
    let password = read_line(&mut io::stdin().lock())?;
    not_empty(password.unwrap_or_else(|| String::new().into()), name)
}

fn not_empty(password: Secret, name: &str) -> Result<Secret, Failure> {
    match password.is_empty() {
        false => Ok(password),
        true => Err(Failure::wrong_use(
            format_args!("empty password: none was given for {name}"),
            "Type it, or write it as the first line of stdin.",
        )),
    }
}

/// A line of input without the white space around it; `None` at its end.
fn read_line(input: &mut dyn BufRead) -> Result<Option<Secret>, Failure> {
    let mut line = Zeroizing::new(Vec::with_capacity(BYTES_MAX + 1));
    let read = input
        .take(BYTES_MAX as u64 + 1)
        .read_until(b'\n', &mut line)
        .map_err(unreadable)?;
    match read {
        0 => Ok(None),
        _ => secret(&line).map(Some),
    }
}

fn unreadable(error: io::Error) -> Failure {
    Failure::failed(
        format_args!("failed to ask password: cannot read stdin: {error}"),
        "",
    )
}

fn secret(line: &[u8]) -> Result<Secret, Failure> {
    let refused = |what: &str| Failure::wrong_use(format_args!("the password {what}"), "");
    if line.len() > BYTES_MAX {
        return Err(refused("is longer than 4096 bytes"));
    }
    match std::str::from_utf8(line) {
        Ok(text) => Ok(text.trim().to_owned().into()),
        Err(_) => Err(refused("is no text in UTF-8")),
    }
}

/// Prints a question to stderr, because stdout is for answers, and reads a line that is not shown.
fn typed(question: &str) -> Result<Secret, Failure> {
    let cannot_ask = |error: io::Error| {
        Failure::failed(
            format_args!("failed to ask password: {error}"),
            "Name it with --password (or ETCDCTL_PASSWORD).",
        )
    };
    let mut stderr = io::stderr();
    // Before the question: keys that answer it are not lost.
    let silent = Silent::begin().map_err(cannot_ask)?;
    stderr.write_all(question.as_bytes()).map_err(cannot_ask)?;
    let line = typed_line(&mut io::stdin().lock());
    drop(silent);
    // The typed end of the line was not shown either.
    let _ = stderr.write_all(b"\n");
    line
}

/// Reads bytes up to the end of the line. The terminal passes on each key, also Ctrl-C, so that it
/// is never left without echo.
fn typed_line(keys: &mut dyn Read) -> Result<Secret, Failure> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const BACKSPACE: u8 = 8;
    const KILL: u8 = 21;
    const DELETE: u8 = 127;
    let mut line = Zeroizing::new(Vec::with_capacity(BYTES_MAX + 1));
    let mut key = Zeroizing::new([0]);
    while line.len() <= BYTES_MAX {
        let ended = keys.read(&mut key[..]).map_err(unreadable)? == 0;
        match key[0] {
            _ if ended => break,
            b'\n' | b'\r' | END => break,
            INTERRUPT => return Err(Failure::failed("interrupted", "")),
            KILL => line.clear(),
            BACKSPACE | DELETE => remove_letter(&mut line),
            byte => line.push(byte),
        }
    }
    secret(&line)
}

/// Removes the last letter, which may have several bytes.
fn remove_letter(line: &mut Vec<u8>) {
    const FOLLOWING: std::ops::Range<u8> = 0x80..0xc0;
    while line.pop().is_some_and(|byte| FOLLOWING.contains(&byte)) {}
}

/// The terminal passes on keys and shows none, until this is dropped.
struct Silent {
    before: Termios,
}

impl Silent {
    fn begin() -> io::Result<Silent> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes -=
            LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        // Keys that were typed before the question were shown: they do not count.
        tcsetattr(io::stdin(), OptionalActions::Flush, &modes)?;
        Ok(Silent { before })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::from("x".to_owned())), "Secret");
    }

    #[test]
    fn a_name_ends_at_the_first_colon() {
        let (name, password) = Secret::from("a:b:c".to_owned()).split();
        assert_eq!((name.as_str(), password.unwrap().text()), ("a", "b:c"));
        assert!(Secret::from("a".to_owned()).split().1.is_none());
    }

    #[test]
    fn typed_keys_correct_the_line() {
        let line = |keys: &[u8]| typed_line(&mut &keys[..]);
        assert_eq!(line(b"wrong\x15rigt\x7fht\nrest").unwrap().text(), "right");
        assert_eq!(line("a\u{e9}\u{7f}b\r".as_bytes()).unwrap().text(), "ab");
        assert_eq!(line(b"\x7f\x08").unwrap().text(), "");
        assert!(line(b"abc\x03").is_err());
        assert!(line(b"\xff\n").is_err());
        assert!(line(&[b'x'; BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_line_of_input_has_no_white_space_around_it() {
        let line = |bytes: &[u8]| read_line(&mut &bytes[..]);
        assert_eq!(
            line(b" two words \r\nx").unwrap().unwrap().text(),
            "two words"
        );
        assert!(line(b"").unwrap().is_none());
        assert!(line(&[b'x'; BYTES_MAX + 1]).is_err());
    }
}
