//! A multi-version ordered map that survives crashes: value log, index, checkpoint, reclaim.

mod batch;
mod engine;
mod error;
mod options;
mod place;
mod status;

pub use batch::{Batch, Change, KeyChange, Replayed, Revision};
pub use engine::*;
pub use error::Error;
pub use options::{Durability, Options};
pub use status::Status;
pub use value_log::{Appended, Sequence};
