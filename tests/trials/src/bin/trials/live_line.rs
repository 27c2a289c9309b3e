//! Progress of a long verb: one line that is rewritten on a terminal, or a line from time to
//! time in a log.

use std::{
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

/// Time between two lines if the output is not a terminal.
const LINE_TIME: Duration = Duration::from_secs(30);

/// Shows `line`; if the output is not a terminal, only if it `matters`.
pub fn show(line: &str, matters: bool) {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        print!("\r\x1b[K{line}");
        // A closed terminal does not end the verb.
        drop(out.flush());
    } else if matters {
        println!("{line}");
    }
}

/// The progress of a trial, with the time since its beginning.
pub struct Progress {
    began: Instant,
    printed: Instant,
}

impl Progress {
    pub fn begin() -> Progress {
        let began = Instant::now();
        Progress {
            began,
            printed: began,
        }
    }

    pub fn show(&mut self, words: &str) {
        let matters = self.printed.elapsed() >= LINE_TIME;
        if matters {
            self.printed = Instant::now();
        }
        let seconds = self.began.elapsed().as_secs();
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        show(&format!("{minutes:>3}:{seconds:02}  {words}"), matters);
    }
}
