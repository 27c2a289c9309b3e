//! Small answers that a client has not read yet: they hold back its further requests.
//!
//! ```text
//!   request ──► room? ──► executed ──► answer ──► HTTP/2's buffers ──► socket
//!                 ▲                      └─ counted until its last byte is written ─┘
//!                 └──────────── waits while the connection has too much unsent
//! ```
//!
//! No memory is claimed for a small answer before it is made; its bytes are counted on its
//! connection until they are written or the call is dropped. While a connection has more
//! unsent bytes than it is allowed, none of its further requests is executed: they wait until
//! the client reads, and flow control holds back what follows them. Some bytes are allowed
//! without a grant, so that an ordinary call touches nothing that connections share. For more
//! a connection takes grants from a pool and keeps them until another one needs them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use environment::{Clock, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::warn;

use crate::connections::Activity;
use crate::lock;

/// Unsent bytes that a connection is allowed without a grant.
const FREE_BYTES: u64 = 64 << 10;
/// Bytes of one grant.
const GRANT_BYTES: u64 = 1 << 20;
/// Most granted bytes of one connection; also at most the pool divided by
/// `CONNECTION_PART`.
const GRANTED_BYTES_MAX: u64 = 16 << 20;
const CONNECTION_PART: u64 = 8;
/// The pool is the process's memory divided by this, kept between the two bounds below.
const MEMORY_PART: u64 = 32;
const POOL_BYTES_MIN: u64 = 8 << 20;
const POOL_BYTES_MAX: u64 = 512 << 20;
/// Interval at which a waiting request looks for grants to take back.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A connection with grants that has sent nothing for this long is ended if another waits.
const STALLED_AFTER: Duration = Duration::from_secs(10);
/// Memory of an unsent answer besides its bytes.
const ANSWER_COST_BYTES: u64 = 1 << 10;

/// The pool of grants for the small answers of all connections.
#[derive(Debug)]
pub(crate) struct Grants {
    left_bytes: AtomicU64,
    connection_bytes_max: u64,
    clock: Arc<dyn Clock>,
    /// Connections that have grants.
    holders: Mutex<Vec<Weak<Unsent>>>,
}

/// Counts the unsent small answers of one connection.
#[derive(Debug)]
pub(crate) struct Unsent {
    grants: Arc<Grants>,
    activity: Arc<Activity>,
    /// Bytes of small answers that are made and not written to the socket.
    bytes: AtomicU64,
    /// With more unsent bytes than this, no request is executed.
    allowed_bytes: AtomicU64,
    /// When an answer was last written while more than `FREE_BYTES` were unsent:
    /// milliseconds of the clock.
    sent_at: AtomicU64,
    /// Bytes of this connection's grants. `allowed_bytes` is `FREE_BYTES` more.
    granted_bytes: Mutex<u64>,
    /// Wakes one waiting request.
    room: Notify,
}

/// Counts a small answer as unsent until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    unsent: Arc<Unsent>,
    bytes: u64,
}

impl Grants {
    /// The pool for a process that may use `memory_bytes` of memory.
    pub(crate) fn for_memory(memory_bytes: u64, clock: Arc<dyn Clock>) -> Grants {
        let pool_bytes = (memory_bytes / MEMORY_PART).clamp(POOL_BYTES_MIN, POOL_BYTES_MAX);
        Grants {
            left_bytes: AtomicU64::new(pool_bytes),
            connection_bytes_max: (pool_bytes / CONNECTION_PART).min(GRANTED_BYTES_MAX),
            clock,
            holders: Mutex::default(),
        }
    }

    fn take(&self) -> bool {
        let order = Ordering::Relaxed;
        let less = |left: u64| left.checked_sub(GRANT_BYTES);
        self.left_bytes.fetch_update(order, order, less).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back grants that are not needed, and ends connections that send nothing.
    fn reclaim(&self) {
        let now = self.clock.now();
        let mut holders = lock(&self.holders);
        let holding: Vec<Arc<Unsent>> = holders.iter().filter_map(Weak::upgrade).collect();
        holders.retain(|it| it.strong_count() > 0);
        drop(holders);
        holding.iter().for_each(|it| it.give_way(now));
    }
}

fn millis(now: Instant) -> u64 {
    now.since_origin().as_millis() as u64
}

impl Unsent {
    pub(crate) fn new(grants: Arc<Grants>, activity: Arc<Activity>) -> Unsent {
        Unsent {
            grants,
            activity,
            bytes: AtomicU64::new(0),
            allowed_bytes: AtomicU64::new(FREE_BYTES),
            sent_at: AtomicU64::new(0),
            granted_bytes: Mutex::new(0),
            room: Notify::new(),
        }
    }

    /// Whether a request may be executed.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) <= self.allowed_bytes.load(Ordering::Relaxed)
    }

    /// Waits until a request may be executed.
    pub(crate) async fn room(self: &Arc<Unsent>) {
        if self.has_room() {
            return;
        }
        while !self.has_room() && !self.grow() {
            if timeout(LOOK_EVERY, self.room.notified()).await.is_err() {
                self.grants.reclaim();
            }
        }
        // Each request wakes only the next one: woken together they would all be executed,
        // and their answers could exceed the room.
        self.room.notify_one();
    }

    /// Counts an answer as unsent until the returned guard is dropped.
    pub(crate) fn hold(self: &Arc<Unsent>, bytes: usize) -> Held {
        let bytes = bytes as u64 + ANSWER_COST_BYTES;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Held {
            unsent: Arc::clone(self),
            bytes,
        }
    }

    /// Takes another grant; false if the pool is empty or this connection has the most that
    /// it may have.
    fn grow(self: &Arc<Unsent>) -> bool {
        let mut granted = lock(&self.granted_bytes);
        if *granted + GRANT_BYTES > self.grants.connection_bytes_max || !self.grants.take() {
            return false;
        }
        if *granted == 0 {
            let now = millis(self.grants.clock.now());
            self.sent_at.store(now, Ordering::Relaxed);
            lock(&self.grants.holders).push(Arc::downgrade(self));
        }
        *granted += GRANT_BYTES;
        self.allow(*granted);
        true
    }

    fn allow(&self, granted_bytes: u64) {
        let allowed = FREE_BYTES + granted_bytes;
        self.allowed_bytes.store(allowed, Ordering::Relaxed);
    }

    /// Returns the grants if they are not needed; ends the connection if it needs them and
    /// has sent nothing for long. Called when another connection needs a grant.
    fn give_way(self: &Arc<Unsent>, now: Instant) {
        if self.bytes.load(Ordering::Relaxed) <= FREE_BYTES {
            let mut granted = lock(&self.granted_bytes);
            let mut holders = lock(&self.grants.holders);
            holders.retain(|it| !std::ptr::eq(it.as_ptr(), Arc::as_ptr(self)));
            self.grants.give_back(std::mem::take(&mut *granted));
            self.allow(0);
            return;
        }
        let stalled = millis(now).saturating_sub(self.sent_at.load(Ordering::Relaxed));
        if u128::from(stalled) >= STALLED_AFTER.as_millis() && self.activity.end() {
            let bytes = self.bytes.load(Ordering::Relaxed);
            warn!(
                bytes,
                "a connection is ended because its client does not read its answers: others wait \
                 for their memory"
            );
        }
    }

    /// Notes that an answer was sent or dropped while more than `FREE_BYTES` were unsent.
    fn note_sent(&self, before: u64, after: u64) {
        let now = millis(self.grants.clock.now());
        self.sent_at.store(now, Ordering::Relaxed);
        let allowed = self.allowed_bytes.load(Ordering::Relaxed);
        if before > allowed && after <= allowed {
            self.room.notify_one();
        }
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.grants.give_back(*lock(&self.granted_bytes));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let before = self.unsent.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if before > FREE_BYTES {
            self.unsent.note_sent(before, before - self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;

    use super::*;

    fn grants() -> (SimulatedClock, Arc<Grants>) {
        let clock = SimulatedClock::stepped();
        let grants = Grants::for_memory(0, Arc::new(clock.clone()));
        (clock, Arc::new(grants))
    }

    fn connection(grants: &Arc<Grants>) -> Arc<Unsent> {
        let unsent = Unsent::new(Arc::clone(grants), Arc::default());
        Arc::new(unsent)
    }

    async fn all_have_run() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    fn left(grants: &Grants) -> u64 {
        grants.left_bytes.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn requests_wait_one_by_one_while_a_connection_has_too_much_unsent() {
        let (_clock, grants) = grants();
        let unsent = connection(&grants);
        let mut held = vec![unsent.hold(FREE_BYTES as usize)];
        while grants.connection_bytes_max > lock(&unsent.granted_bytes).to_owned() {
            unsent.room().await;
            held.push(unsent.hold(GRANT_BYTES as usize));
        }
        assert!(!unsent.has_room());
        let answers = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..10 {
            let (unsent, answers) = (Arc::clone(&unsent), Arc::clone(&answers));
            tokio::spawn(async move {
                unsent.room().await;
                lock(&answers).push(unsent.hold(GRANT_BYTES as usize));
            });
        }
        all_have_run().await;
        assert_eq!(lock(&answers).len(), 0);
        held.pop();
        all_have_run().await;
        assert_eq!(lock(&answers).len(), 1, "there was room for one");
        held.clear();
        lock(&answers).clear();
        all_have_run().await;
        assert!(lock(&answers).len() > 1);
    }

    #[tokio::test]
    async fn grants_are_taken_back_for_another_and_a_stalled_connection_is_ended() {
        let (clock, grants) = grants();
        let all = left(&grants);
        let several: Vec<Arc<Unsent>> = (0..CONNECTION_PART).map(|_| connection(&grants)).collect();
        let mut held = Vec::new();
        for unsent in &several {
            while left(&grants) > 0 && unsent.grow() {}
            held.push(unsent.hold(FREE_BYTES as usize));
        }
        assert_eq!(left(&grants), 0);
        let other = connection(&grants);
        held.push(other.hold(FREE_BYTES as usize));
        let waiting = timeout(Duration::from_millis(100), other.room()).await;
        assert!(waiting.is_err(), "no grant is left");
        assert!(several.iter().all(|it| !it.activity.is_ending()));
        drop(held.remove(0));
        other.room().await;
        clock.advance(STALLED_AFTER);
        drop(held.remove(0));
        grants.reclaim();
        let ended = several.iter().filter(|it| it.activity.is_ending()).count();
        assert_eq!(
            ended,
            several.len() - 2,
            "all that hold answers and send none"
        );
        drop((several, held, other));
        assert_eq!(left(&grants), all);
    }
}
