//! The only crate that talks to the operating system.
//!
//! The disk, the clock, randomness and threads are reached through this crate. Disk and clock
//! have a real and a simulated form, and randomness takes a seed, so that a test can replay a
//! crash at every single I/O from a seed. `clippy.toml` forbids the same calls elsewhere in the
//! workspace.

pub mod clock;
pub mod disk;
mod mutex;
pub mod names;
mod path_error;
pub mod randomness;
pub mod real;
mod shortage;
pub mod simulated;
pub mod threads;
mod throttle;

pub use clock::{Clock, Instant};
pub use disk::{DirectoryLock, Disk, File, Lent, OpenMode, Space};
pub use mutex::Mutex;
pub use shortage::{Shortage, error_number};
pub use throttle::Throttle;
