//! Lines for standard error, without allocating.

/// Longest line, with its end; the rest is cut off.
const LINE_BYTES: usize = 512;

/// A line, which is written by one system call.
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

    /// Adds bytes; those that have no room are left out.
    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Line {
        // One byte stays free for the end of the line.
        let room = LINE_BYTES - 1 - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text[..taken]);
        self.length += taken;
        self
    }

    /// Writes the line to standard error.
    pub(crate) fn print(&mut self) {
        self.bytes[self.length] = b'\n';
        // SAFETY: the buffer has that many bytes. A failure cannot be reported anywhere.
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

/// Prints the reason and aborts the process.
pub(crate) fn stop(reason: &[&[u8]]) -> ! {
    let mut line = Line::new();
    for part in reason {
        line.text(part);
    }
    line.print();
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
