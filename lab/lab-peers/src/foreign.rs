//! LevelDB and RocksDB through their C interfaces. The two are one interface with two
//! prefixes, because RocksDB began as a copy of LevelDB.

mod functions;
mod library;
mod store;

pub use functions::Handle;
pub(crate) use functions::functions;
pub use library::{Library, Wanted};
pub use store::{Setup, Store};
