//! The write-ahead log that is also the value store: segments, groups, group commit, recovery.
