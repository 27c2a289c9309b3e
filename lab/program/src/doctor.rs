//! Description of this machine, and the speed of durable writes on its device.

mod floor;
mod machine;

pub use floor::{Floor, WAYS, Way, measure_floor};
pub use machine::environment;
