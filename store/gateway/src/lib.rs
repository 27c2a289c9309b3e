//! etcd's JSON gateway and two paths of our own, without sockets: routes, and JSON to messages and
//! back.
//!
//! ```text
//!   body ──► Values ──one JSON value──► Route::request ──► a gRPC message
//!   answer of the call ──► Transcoder ──► JSON, field by field
//!   status ──► failure ──► JSON, and the code of HTTP
//! ```
//!
//! One path serves all calls: the descriptors of the proto files say what a JSON value means
//! (proto3's JSON mapping), so there is no code for a single message. A request is decoded as
//! a whole, because its size is limited. An answer is not: its top-level fields are written
//! as they arrive, so a range of a gigabyte takes the memory of one of its pairs.

mod answer;
mod failure;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod metadata;
mod routes;
mod unique;
mod values;

pub use answer::{Shape, Transcoder, UnreadableAnswer};
pub use failure::{http_status, in_stream, of_call};
pub use metadata::{InvalidMetadata, forwarded};
pub use routes::{Route, find, routes};
pub use values::{Cut, Values};
