//! Progress of a long verb: one line that is rewritten on a terminal, or a line from time to
//! time in a log.

use std::io::{IsTerminal, Write};

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
