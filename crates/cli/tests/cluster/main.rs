//! Three members as three processes, met from outside: what one is told all
//! know, one that is killed is not missed, and comes back; others join and leave.
#![expect(clippy::unwrap_used, reason = "a test stops where something fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests take ports and start processes by themselves"
)]

mod beginning;
#[path = "../go/mod.rs"]
mod go;
mod go_client;
mod hostile;
mod joining;
mod members;
mod metrics;
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
