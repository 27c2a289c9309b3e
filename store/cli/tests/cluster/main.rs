//! Three members as three processes, tested by their clients: every member sees each write, a
//! killed member is replaced and catches up, members join and leave.
#![expect(clippy::unwrap_used, reason = "a test stops where something fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests take ports and start processes by themselves"
)]

mod beginning;
mod discovery;
mod forced;
#[path = "../go/mod.rs"]
mod go;
mod go_client;
mod hostile;
mod joining;
mod members;
mod metrics;
mod overview;
mod peer_port;
mod power;
mod quotas;
mod rolling;
mod shortages;
#[path = "../small_disk/mod.rs"]
mod small_disk;
mod small_disks;
mod streams;
mod three;
mod traces;
mod users;
