//! Callbacks for messages, streams and inquiries of other members.

use std::pin::Pin;

use bytes::Bytes;

use crate::{Lane, LinkError, Stream};

/// A boxed future, so that [`Handler`] can be a trait object.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Receives the messages, streams and inquiries of other members.
///
/// All methods run on the one network thread, so work that takes long or waits for a
/// disk belongs on another thread. A panic ends the connection that the call is about, or
/// the lane if [`Handler::link`] panics. A sender need not be in the table;
/// [`Handler::admits`] decides which senders are let in.
///
/// A handler that owns a [`crate::Peers`] keeps it alive until
/// [`crate::Peers::stop`] is called.
pub trait Handler: Send + Sync + 'static {
    /// Called for each message, in the order of its lane. Nothing else is sent or received
    /// while it runs. `Err` closes the connection, with this reason in the log; it is for
    /// messages that no honest member sends. A message of an unknown kind is not an error,
    /// because a member of a later release may have sent it.
    fn message(&self, from: u64, lane: Lane, kind: u8, payload: Bytes) -> Result<(), String>;

    /// Called for each stream that `from` opens. The returned future runs on the network
    /// thread; the stream itself works on any thread.
    fn stream(&self, from: u64, kind: u8, header: Bytes, stream: Stream) -> BoxFuture<()>;

    /// Answers a question of a process that need not be a member, see [`crate::ask`]. The
    /// answer is public to every process that can reach the port, or to those with the peer
    /// secret if there is one. `Err` is a reason for the asking process.
    fn inquiry(&self, kind: u8, question: Bytes) -> Result<Bytes, String> {
        let _ = question;
        Err(format!("questions of kind {kind} are not answered here"))
    }

    /// Whether `sender` was removed from the cluster. If so, it is refused with
    /// [`crate::Refusal::Removed`]. Called at every greeting; must not wait.
    fn is_removed(&self, sender: u64) -> bool {
        let _ = sender;
        false
    }

    /// Whether `sender` is let in. If not, it is refused and will dial again. It may be a
    /// new member that this one does not know yet, so this call is the moment to start
    /// finding out. Called at every greeting except on the Inquiry lane; must not wait. With
    /// a peer secret, every sender that proved it is let in, whatever this returns.
    fn admits(&self, sender: u64) -> bool {
        let _ = sender;
        true
    }

    /// Called at each greeting in which an admitted sender says where it listens: at least
    /// one address (`host:port`), which may differ from the table. Must not wait.
    fn announced(&self, sender: u64, addresses: &[String]) {
        let _ = (sender, addresses);
    }

    /// Called when a lane to a member of the table is connected (`Ok`), and when it has
    /// lost its connection or an attempt to connect has failed (`Err`).
    fn link(&self, to: u64, lane: Lane, state: Result<(), &LinkError>) {
        let _ = (to, lane, state);
    }
}
