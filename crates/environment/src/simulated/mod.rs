//! A world made from a seed: a disk that can crash at any I/O, and a clock
//! that moves when told.

mod clock;

pub use clock::SimulatedClock;
