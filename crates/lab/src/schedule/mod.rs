//! In which order runs are made.
pub mod plan;

pub use plan::{Plan, Planned};
