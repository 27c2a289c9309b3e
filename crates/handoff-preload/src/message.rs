//! Words for people, without allocating.

/// Room for a line.
const LINE_BYTES: usize = 512;

/// A line that is written at once.
pub(crate) struct Line {
    bytes: [u8; LINE_BYTES],
    length: usize,
}

impl Line {
    pub(crate) fn new() -> Line {
        let mut line = Line {
            bytes: [0; LINE_BYTES],
            length: 0,
        };
        line.text(b"handoff: ");
        line
    }

    /// Adds bytes; what has no room is left out.
    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Line {
        // One byte stays for the end of the line.
        let room = LINE_BYTES - 1 - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text[..taken]);
        self.length += taken;
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Line {
        let mut digits = [0; 20];
        let mut first = digits.len();
        let mut rest = number;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.text(&digits[first..]);
            }
        }
    }

    /// Writes the line to standard error.
    pub(crate) fn print(&mut self) {
        self.bytes[self.length] = b'\n';
        // SAFETY: so many bytes are there. Nobody could be told of a failure.
        unsafe {
            libc::write(
                libc::STDERR_FILENO,
                self.bytes.as_ptr().cast(),
                self.length + 1,
            )
        };
    }
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.text(text.as_bytes());
        Ok(())
    }
}

/// Says why and ends the process: there is no way to go on.
pub(crate) fn stop(why: &[&[u8]]) -> ! {
    let mut line = Line::new();
    for part in why {
        line.text(part);
    }
    line.print();
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
