//! What verbs print. Whoever reads it may have seen enough and gone, as `head` does:
//! that is no failure, and no reason to lose what is still to be written.

use std::fmt::Arguments;
use std::io::Write as _;

/// As `println!`, for readers who may be gone.
macro_rules! say {
    ($($words:tt)*) => { $crate::cli::say::out(format_args!("{}\n", format_args!($($words)*))) };
}

/// As `print!`, for readers who may be gone.
macro_rules! show {
    ($($words:tt)*) => { $crate::cli::say::out(format_args!($($words)*)) };
}

/// As `eprintln!`, for readers who may be gone.
macro_rules! complain {
    ($($words:tt)*) => { $crate::cli::say::err(format_args!($($words)*)) };
}

/// On the standard output.
pub fn out(words: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    drop(out.write_fmt(words).and_then(|()| out.flush()));
}

/// A line where complaints go.
pub fn err(words: Arguments<'_>) {
    drop(writeln!(std::io::stderr().lock(), "{words}"));
}
