//! A simulated machine made from a seed: a disk that can crash at any I/O, and a clock
//! that a test moves.
//!
//! ```text
//!   for io in 0..ios {                     // how many a whole run takes
//!       let disk = base.fork();            // cheap: blocks are shared
//!       disk.crash_at(io);
//!       let acknowledged = run(&disk);     // ends in an error
//!       let disk = disk.restart(Restart::power_loss());
//!       check(&disk, acknowledged);        // on a failure: print disk.trace()
//!   }
//! ```

mod clock;
mod disk;
mod fault;
mod file;
mod inode;
mod names;
mod restart;
mod state;
mod trace;

pub use clock::SimulatedClock;
pub use disk::SimulatedDisk;
pub use fault::{CRASHED, Fault, is_crash};
pub use restart::{Names, PowerLoss, Restart, Writes};
pub use trace::{Counters, Trace};
