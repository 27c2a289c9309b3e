//! The real server at its limits: very many connections, a disk or a quota
//! that is used up, a client that never reads its answers. Each time
//! there is a clear error or none at all, other clients are served, and acknowledged
//! writes stay.
#![expect(clippy::unwrap_used, reason = "a test stops where something fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests prepare directories and look at processes by themselves"
)]

mod descriptors;
mod full_disk;
#[path = "../go/mod.rs"]
mod go;
mod go_client;
mod idle_connections;
mod quota;
mod raw;
mod served;
mod slow_readers;
#[path = "../small_disk/mod.rs"]
mod small_disk;
mod unread_answers;
mod unread_watch;
