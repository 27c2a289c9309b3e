//! The state of a long chore: one line that rewrites itself on a terminal, and
//! lines now and then where nobody watches.

use std::io::{IsTerminal, Write};

/// Shows `line`; in a log only when it `matters`.
pub fn show(line: &str, matters: bool) {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        print!("\r\x1b[K{line}");
        // A terminal that is gone is no reason to end the chore.
        drop(out.flush());
    } else if matters {
        println!("{line}");
    }
}
