//! What this machine is, and what its device can do.

mod floor;
mod machine;

pub use floor::{Floor, WAYS, Way, measure_floor};
pub use machine::environment;
