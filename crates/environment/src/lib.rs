//! The only room with windows.
//!
//! Everything outside the process enters through this crate: the disk, the
//! clock, randomness and threads. Each door has a real form and a simulated
//! one, so that a test can replay a crash at every single I/O from a seed.
//! `clippy.toml` forbids the same calls elsewhere in the workspace.

pub mod clock;
pub mod disk;
mod path_error;
pub mod randomness;
pub mod real;
mod shortage;
pub mod simulated;
pub mod threads;
mod throttle;

pub use clock::{Clock, Instant};
pub use disk::{DirectoryLock, Disk, File, OpenMode, Space};
pub use shortage::Shortage;
pub use throttle::Throttle;
