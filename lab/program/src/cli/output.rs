//! Output of the verbs. The reading end of a pipe may be closed early, as `head` does. That
//! is no error: the verb goes on, so that the files it still has to write are written.

use std::fmt::Arguments;
use std::io::Write as _;

/// `println!` that ignores a closed pipe.
macro_rules! print_line {
    ($($words:tt)*) => { $crate::cli::output::out(format_args!("{}\n", format_args!($($words)*))) };
}

/// `print!` that ignores a closed pipe.
macro_rules! print_text {
    ($($words:tt)*) => { $crate::cli::output::out(format_args!($($words)*)) };
}

/// `eprintln!` that ignores a closed pipe.
macro_rules! print_error {
    ($($words:tt)*) => { $crate::cli::output::err(format_args!($($words)*)) };
}

/// Writes to standard output and flushes it; errors are ignored.
pub fn out(words: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    drop(out.write_fmt(words).and_then(|()| out.flush()));
}

/// Writes a line to standard error; errors are ignored.
pub fn err(words: Arguments<'_>) {
    drop(writeln!(std::io::stderr().lock(), "{words}"));
}
