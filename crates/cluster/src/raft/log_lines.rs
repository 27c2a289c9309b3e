//! The library's log lines, among ours.

use slog::{Drain, Level, Logger, OwnedKVList, Record};

/// Says to `tracing` what the library says to `slog`, more quietly: who leads is
/// told by the replica.
struct ToTracing;

impl Drain for ToTracing {
    type Ok = ();
    type Err = slog::Never;

    fn log(&self, record: &Record<'_>, _values: &OwnedKVList) -> Result<(), slog::Never> {
        match record.level() {
            Level::Critical | Level::Error => tracing::error!(target: "raft", "{}", record.msg()),
            Level::Warning => tracing::warn!(target: "raft", "{}", record.msg()),
            Level::Info | Level::Debug | Level::Trace => {
                tracing::debug!(target: "raft", "{}", record.msg())
            }
        }
        Ok(())
    }
}

/// A logger for the library.
pub(crate) fn logger() -> Logger {
    Logger::root(ToTracing, slog::o!())
}
