//! LevelDB and RocksDB by their C interfaces, which are one interface with two
//! prefixes: RocksDB began as a copy.

mod functions;
mod library;
mod store;

pub use functions::Handle;
pub use library::{Library, Wanted};
pub use store::{Setup, Store};
