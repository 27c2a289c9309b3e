//! HashKV of other members: asked here, and answered for them.
//!
//! ```text
//!   caller ──Question──► network thread of the member ─► a blocking thread hashes
//!          ◄──Answer────────────────────────────────────┘
//! ```
//!
//! Hashing reads every value, so the replica has no part in it. A question may be lost, or be
//! sent to a release that drops it: the caller sets a time limit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use environment::randomness::Random;
use revisions::{KeyValueHash, Reader};
use tokio::sync::{Semaphore, oneshot};

use crate::lock::lock;
use crate::peer_message::{HashMessage, PeerMessage};

/// Most questions of other members that are answered at the same time; others are dropped.
const ANSWERED_AT_ONCE: usize = 2;

type HashOutcome = Result<KeyValueHash, revisions::Error>;

/// Where questions about HashKV wait for their answers.
pub(crate) struct HashDesk {
    reader: Reader,
    /// By number: the member that was asked, and the caller.
    waiting: Mutex<BTreeMap<u64, (u64, oneshot::Sender<HashOutcome>)>>,
    /// Number of the next question. It begins at random, so that an answer to a former
    /// incarnation of this member is not taken for another.
    next: AtomicU64,
    permits: Arc<Semaphore>,
}

/// A question that was asked. Dropped, it is forgotten.
pub(crate) struct AskedHash<'a> {
    desk: &'a HashDesk,
    number: u64,
    answer: oneshot::Receiver<HashOutcome>,
}

impl HashDesk {
    pub fn new(reader: Reader) -> HashDesk {
        let first = Random::from_system().map_or(0, |mut random| random.next_u64());
        HashDesk {
            reader,
            waiting: Mutex::default(),
            next: AtomicU64::new(first),
            permits: Arc::new(Semaphore::new(ANSWERED_AT_ONCE)),
        }
    }

    /// Prepares a question to a member, and the message that asks it.
    pub fn ask(&self, member: u64, revision: i64) -> (AskedHash<'_>, PeerMessage) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (to, answer) = oneshot::channel();
        lock(&self.waiting).insert(number, (member, to));
        let asked = AskedHash {
            desk: self,
            number,
            answer,
        };
        let question = HashMessage::Question { number, revision };
        (asked, PeerMessage::Hash(question))
    }

    /// Takes a member's answer.
    pub fn answered(&self, from: u64, number: u64, outcome: HashOutcome) {
        let mut waiting = lock(&self.waiting);
        if waiting
            .get(&number)
            .is_some_and(|(asked, _)| *asked == from)
            && let Some((_, caller)) = waiting.remove(&number)
        {
            // The caller may have given up.
            let _ = caller.send(outcome);
        }
    }

    /// Answers a member's question with `send`, from a blocking thread. To be called on a
    /// runtime.
    pub fn answer(
        &self,
        number: u64,
        revision: i64,
        send: impl FnOnce(&PeerMessage) + Send + 'static,
    ) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            return;
        };
        let reader = self.reader.clone();
        tokio::task::spawn_blocking(move || {
            let outcome = reader.hash_kv(revision);
            send(&PeerMessage::Hash(HashMessage::Answer { number, outcome }));
            drop(permit);
        });
    }
}

impl AskedHash<'_> {
    /// Waits for the answer; `None` if the connections end.
    pub async fn answer(mut self) -> Option<HashOutcome> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for AskedHash<'_> {
    fn drop(&mut self) {
        lock(&self.desk.waiting).remove(&self.number);
    }
}
