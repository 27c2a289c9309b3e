//! Checks a recorded history of concurrent clients of an etcd API.
//!
//! ```text
//!   clients ──► operations   called ... returned, request, outcome ──┐
//!   watchers ─► watches      what came, and when ────────────────────┼─► check ─► violations
//!   at the end, every revision from the first ───► ledger ───────────┘
//! ```
//!
//! In general, whether a history is linearizable takes exponential time to say.
//! Here it takes a sort: every write that changes something has a revision of
//! its own, and every answer names the revision at which it looked. So the order
//! is known, and it is enough to hold it against real time and the answers
//! against a model. [`check()`] demands, rule by rule ([`Rule`]):
//!
//! - **Ledger**: the revisions have no gap, and each change's create revision,
//!   version and lease follow from those before it.
//! - **Lost**: an acknowledged write is in the ledger, whole, at its revision.
//! - **Origin**: every change of the ledger comes from exactly one write,
//!   acknowledged or of unknown outcome, or is the end of a lease.
//! - **Order**: an operation that began after another one had ended has a revision that
//!   is not smaller, and a greater one if it is a write that changed something. This
//!   holds for every operation but serializable reads and renewals of leases.
//! - **Contents**: a read shows what the ledger says at its revision, all fields;
//!   so do a write's previous versions, a comparison's outcome and a deletion's
//!   count.
//! - **Backwards**: a serializable read promises less: only that it equals the
//!   ledger at the revision it names, and that this revision is not before that
//!   of any answer that the same member gave, in the same life, before the read
//!   began. (A member that was killed may begin its next life further back; etcd's
//!   may, too.)
//! - **Future**: no answer names a revision that the ledger does not have.
//! - **Watch**: a watch delivers every change of its range from its first
//!   revision on, whole revisions, in order, each once; a notice of progress says
//!   that nothing up to its revision is missing. That nothing is delivered before
//!   it was written is part of *order*: what was delivered has happened.
//! - **Lease**: keys of a lease go all at once, and only because it was revoked or
//!   because it was not renewed in its time; nothing is attached to a lease that
//!   ended, and no renewal succeeds after it.
//!
//! A recording must have two properties: a value is written to a key at most
//! once, so that an unacknowledged write can be recognised; and the ledger is
//! complete, from the revision after the [`Base`] to the newest.
//!
//! Stores that end and start again are judged life by life: [`Restarts`].

mod check;
mod history;
mod ledger;
mod recording;
mod restarts;
mod violation;

pub use check::check;
pub use history::{
    Answer, Base, Change, Delivery, Entry, History, Moment, Operation, Outcome, Request, Version,
    Watch,
};
pub use recording::{read, write};
pub use restarts::{Restarts, Verdict};
pub use violation::{Rule, Violation};
