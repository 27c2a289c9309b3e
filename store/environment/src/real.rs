//! The real disk, clocks and memory of the machine.

mod allocator;
mod boot;
mod clock;
mod device_file;
mod disk;
mod file;
mod lock;
mod mapping;
mod memory;
mod open;

pub use allocator::{return_free_memory, return_large_pieces};
pub use boot::boot_id;
pub use clock::RealClock;
pub use disk::RealDisk;
pub use memory::memory_bytes;
