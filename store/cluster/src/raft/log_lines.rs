//! Passes the library's log lines to this program's log.

use slog::{Drain, Level, Logger, OwnedKVList, Record};

/// Passes lines from `slog` to `tracing`. Information is logged at debug level, because the
/// replica itself logs changes of leadership.
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
