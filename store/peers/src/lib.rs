//! Connections between the members of a cluster.
//!
//! ```text
//!    replica thread          network thread "peers"                  other member
//!    ──────────────          ──────────────────────                  ────────────
//!    send ──► queue ──ring──► writer ══ Urgent  connection ════════► Handler::message
//!    send ──► queue ────────► writer ══ Bulk    connection ════════► Handler::message
//!    open_stream ───────────► dial   ══ Snapshot connection ◄══════► Handler::stream
//! ```
//!
//! This crate carries bytes; the caller gives them their meaning. Each
//! member dials each other member once per [`Lane`], so a heartbeat never
//! waits behind a megabyte of log entries.
//!
//! - **Messages** ([`Peers::send`]) go one way and keep their order. A message is
//!   lost when the queue is full, when the member cannot be reached, or when the
//!   connection breaks. Sending never waits, and each queue is bounded in bytes.
//! - **Streams** ([`Peers::open_stream`]) carry one transfer each, with flow control.
//! - **Inquiries** ([`ask`]) are questions of a process that knows an address and no ids.
//!
//! Where members share a secret ([`PeersOptions::secret`]), each connection begins with
//! a proof by both sides that they have it, and every byte after that is authenticated.
//! Received frames take a bounded amount of memory, whatever the number of connections.
//!
//! Where a member's address begins with `https://`, all this runs inside TLS
//! ([`PeersOptions::tls`]).
//!
//! Everything runs on one network thread with its own runtime, so callers need
//! none. `docs/formats/peers.md` describes the bytes.
//!
//! ```
//! use std::net::TcpListener;
//! use std::sync::{Arc, mpsc};
//!
//! use bytes::Bytes;
//! use peers::{BoxFuture, Handler, Lane, Peers, PeersOptions, Stream};
//!
//! /// Passes messages to the receiver of a channel.
//! struct Inbox(mpsc::Sender<(u64, Bytes)>);
//!
//! impl Handler for Inbox {
//!     fn message(&self, from: u64, _: Lane, _: u8, payload: Bytes) -> Result<(), String> {
//!         self.0.send((from, payload)).expect("the receiver lives");
//!         Ok(())
//!     }
//!     fn stream(&self, _: u64, _: u8, _: Bytes, _: Stream) -> BoxFuture<()> {
//!         Box::pin(async {})
//!     }
//! }
//!
//! const CLUSTER: u64 = 0xc1;
//! let (sender, receiver) = mpsc::channel();
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?.to_string();
//! let (one, two) = (
//!     Peers::start(PeersOptions::new(CLUSTER, 1, vec![]), Arc::new(Inbox(sender.clone())))?,
//!     Peers::start(PeersOptions::new(CLUSTER, 2, vec![listener]), Arc::new(Inbox(sender)))?,
//! );
//! one.set_member(2, vec![address])?;
//!
//! one.send(2, Lane::Urgent, 7, &[Bytes::from("ink on "), Bytes::from("stone")])?;
//! assert_eq!(receiver.recv()?, (1, Bytes::from("ink on stone")));
//!
//! one.stop();
//! two.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accept;
mod decoder;
mod dial;
mod doorbell;
mod error;
mod format;
mod frames;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod greet;
mod handler;
mod inquiry;
mod intake;
mod keep;
mod lane;
mod limited_warnings;
mod link;
mod lock;
mod member;
mod message_lane;
mod open_stream;
mod options;
mod outgoing;
mod peers;
mod prove;
mod sealed;
mod secret;
mod secure;
mod senders;
mod shared;
mod socket;
mod status;
mod stream;
mod visitor;
mod writer;

pub use error::{Dropped, LinkError, MemberError, StartError, StreamError};
pub use handler::{BoxFuture, Handler};
pub use inquiry::{Reply, ask};
pub use lane::{Lane, Refusal};
pub use limited_warnings::LimitedWarnings;
pub use link::LaneCounts;
pub use options::{Limits, PeersOptions};
pub use peers::{Peers, WeakPeers};
pub use secret::{PeerSecret, SecretError};
pub use secure::{PeerListener, PeerTls};
pub use status::{LaneStatus, PeerStatus};
pub use stream::{Stream, StreamFrame, StreamReceiver, StreamSender};
