//! What a member does with what comes in.

use std::pin::Pin;

use bytes::Bytes;

use crate::{Lane, LinkError, Stream};

/// A future in a box, as trait objects need it.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Receives what other members send.
///
/// Everything runs on the one network thread: what takes long, or waits for a
/// disk, belongs on another thread. A panic ends the connection that brought
/// the message, or the lane whose link is told of. Senders may be unknown to the table;
/// the handler says which of them are let in.
///
/// A handler that owns a [`crate::Peers`] keeps it alive until
/// [`crate::Peers::stop`] is called.
pub trait Handler: Send + Sync + 'static {
    /// A message, in the order of its lane. While this runs, nothing else is
    /// sent or received. `Err`: no honest member sends this, and its connection is
    /// closed with this reason. A message that is only not understood is no such
    /// reason: a member of a later release may have sent it.
    fn message(&self, from: u64, lane: Lane, kind: u8, payload: Bytes) -> Result<(), String>;

    /// A stream that `from` opened. The future runs on the network thread; the
    /// stream works on any other as well.
    fn stream(&self, from: u64, kind: u8, header: Bytes, stream: Stream) -> BoxFuture<()>;

    /// A question of somebody who need not be a member, see [`crate::ask`]: an
    /// answer that anyone may have who reaches the port. `Err` is a text for
    /// whoever asks.
    fn inquiry(&self, kind: u8, question: Bytes) -> Result<Bytes, String> {
        let _ = question;
        Err(format!("questions of kind {kind} are not answered here"))
    }

    /// Whether `sender` was removed from the cluster: then it is refused, and
    /// told so. Asked at every greeting; must not wait.
    fn is_removed(&self, sender: u64) -> bool {
        let _ = sender;
        false
    }

    /// Whether `sender` is let in. If not, it is refused, and will come again: a
    /// member that is new may not be known here yet, and this is the moment to begin
    /// to find out. Asked at every greeting but those of the Inquiry lane; must not wait.
    fn admits(&self, sender: u64) -> bool {
        let _ = sender;
        true
    }

    /// The sender of a connection that was let in says where it listens: one address
    /// (`host:port`) or more, as it was started with, and perhaps not what the table has.
    /// Called at each such greeting; must not wait.
    fn announced(&self, sender: u64, addresses: &[String]) {
        let _ = (sender, addresses);
    }

    /// A lane to a member of the table got its connection, or lost it, or an
    /// attempt to connect failed.
    fn link(&self, to: u64, lane: Lane, state: Result<(), &LinkError>) {
        let _ = (to, lane, state);
    }
}
