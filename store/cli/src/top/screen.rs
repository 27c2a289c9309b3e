//! The alternate screen of a terminal, left when it is dropped.

use std::io::{self, Write};

use rustix::termios::tcgetwinsize;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const TO_THE_BEGINNING: &str = "\x1b[H";
const CLEAR_THE_REST_OF_THE_LINE: &str = "\x1b[K";
const CLEAR_THE_REST: &str = "\x1b[J";

/// The screen, while it is in use.
pub(super) struct Screen(());

impl Screen {
    /// Switches to the alternate screen, without a cursor.
    pub(super) fn open() -> io::Result<Screen> {
        write(ENTER)?;
        Ok(Screen(()))
    }

    /// Shows the beginning of a text: as many lines and columns as fit.
    pub(super) fn draw(&self, text: &str) -> io::Result<()> {
        // A terminal that does not know its size has at least this one.
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.map(|it| (it.ws_row.into(), it.ws_col.into()));
        let (rows, columns) = size.filter(|it| *it != (0, 0)).unwrap_or((24, 80));
        write(&frame(text, rows, columns))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = write(LEAVE);
    }
}

fn frame(text: &str, rows: usize, columns: usize) -> String {
    let lines = text.lines().take(rows.saturating_sub(1));
    let lines = lines.map(|line| {
        let line: String = line.chars().take(columns).collect();
        format!("{line}{CLEAR_THE_REST_OF_THE_LINE}\r\n")
    });
    let lines: String = lines.collect();
    format!("{TO_THE_BEGINNING}{lines}{CLEAR_THE_REST}")
}

fn write(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_as_many_lines_and_columns_as_fit() {
        let drawn = frame("abc\nde\nf\n", 3, 2);
        assert_eq!(drawn, "\x1b[Hab\x1b[K\r\nde\x1b[K\r\n\x1b[J");
    }
}
