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
/// the message, or the lane whose link is told of. Senders may be unknown to the table: a new
/// member learns of the others that way; only cluster and receiver were
/// checked.
///
/// A handler that owns a [`crate::Peers`] keeps it alive until
/// [`crate::Peers::stop`] is called.
pub trait Handler: Send + Sync + 'static {
    /// A message, in the order of its lane. While this runs, nothing else is
    /// sent or received.
    fn message(&self, from: u64, lane: Lane, kind: u8, payload: Bytes);

    /// A request. `Err` is for [`crate::CallError::Refused`] at the caller.
    /// The future is dropped when nobody waits for its answer any more.
    fn request(&self, from: u64, kind: u8, body: Bytes) -> BoxFuture<Result<Bytes, Bytes>>;

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

    /// A lane to a member of the table got its connection, or lost it, or an
    /// attempt to connect failed.
    fn link(&self, to: u64, lane: Lane, state: Result<(), &LinkError>) {
        let _ = (to, lane, state);
    }
}
