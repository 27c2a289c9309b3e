//! What the chores (`cargo xtask`) and the trials (`cargo trials`) share.
//!
//! `cargo xtask` builds this crate before it does anything, so it has few dependencies.
#![expect(
    clippy::disallowed_methods,
    reason = "chores start processes and write files below `target`"
)]

pub mod etcd;
pub mod packages;
pub mod process;

/// The error says what was wrong, and the remedy where there is one.
pub type Outcome<T = ()> = Result<T, Error>;

/// A text, or an error of a library.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
