//! The atomics of [`crate::ledger`] and [`crate::doorbell`]. The race tests
//! compile those two files with loom's in this place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::thread::{Thread, current, park};
