//! The atomics and locks of [`crate::ledger`], [`crate::doorbell`], [`crate::frame_seal`] and [`crate::pins`]. The
//! race tests compile those files with loom's in this place.

pub(crate) use std::sync::MutexGuard;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::thread::{Thread, current, park};

pub(crate) use environment::Mutex;
