//! The applied leases: the deadline of each, and the keys that are attached to it.
//!
//! Invariants: a key is attached to one lease at most; `attached` and the key sets of the leases
//! agree; while leading, every lease is in `due` exactly once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use environment::{Clock, Instant};
use tokio::sync::Notify;

use crate::key_value::deletion_bytes;

/// One lease.
#[derive(Debug)]
struct Lease {
    ttl_seconds: i64,
    /// The moment at which it expires; meaningless while not leading.
    expires: Instant,
    /// The moment of its next revocation attempt, by which `Lessor::due` sorts it.
    due: Instant,
    keys: BTreeSet<Bytes>,
    /// Log bytes of the deletion of all keys.
    deletion_bytes: u64,
}

/// All leases.
#[derive(Debug)]
pub(crate) struct Lessor {
    leases: HashMap<i64, Lease>,
    attached: HashMap<Bytes, i64>,
    /// Leases by the moment of their next revocation attempt; empty while not leading.
    due: BTreeSet<(Instant, i64)>,
    /// Whether this machine leads. Leases expire only while it does.
    leading: bool,
    /// Most deadlines in a second after a promotion.
    per_second: u32,
    clock: Arc<dyn Clock>,
    /// Notified whenever a lease ends or the machine stops leading.
    ended: Arc<Notify>,
}

/// The outcome of a renewal.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// The lease has its full time again, in seconds.
    Renewed(i64),
    /// There is no such lease.
    NotFound,
    /// The lease has expired and is not revoked yet.
    Expired,
    /// The machine does not lead; only the leader can renew.
    NotLeading,
}

impl Lessor {
    pub fn new(clock: Arc<dyn Clock>) -> Lessor {
        Lessor {
            leases: HashMap::new(),
            attached: HashMap::new(),
            due: BTreeSet::new(),
            leading: false,
            per_second: 1,
            clock,
            ended: Arc::default(),
        }
    }

    pub fn contains(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// The notification of a lease's end or of the loss of the lead.
    pub fn ended(&self) -> &Arc<Notify> {
        &self.ended
    }

    /// Takes over the waiters of the lessor that this one replaces, and wakes them, so that they
    /// look at the new leases.
    pub fn succeed(&mut self, before: &Lessor) {
        self.ended = Arc::clone(&before.ended);
        self.ended.notify_waiters();
    }

    /// The keys of a lease, ascending; empty if there is no such lease.
    pub fn keys(&self, id: i64) -> BTreeSet<Bytes> {
        self.leases
            .get(&id)
            .map(|lease| lease.keys.clone())
            .unwrap_or_default()
    }

    /// Log bytes of the deletion of all keys of a lease; 0 if there is no such lease.
    pub fn deletion_bytes(&self, id: i64) -> u64 {
        self.leases.get(&id).map_or(0, |lease| lease.deletion_bytes)
    }

    /// Iterates over id, granted seconds and keys of all leases, ascending by id.
    pub fn all(&self) -> impl Iterator<Item = (i64, i64, &BTreeSet<Bytes>)> {
        let mut ids: Vec<_> = self.leases.keys().copied().collect();
        ids.sort_unstable();
        ids.into_iter().map(|id| {
            let lease = &self.leases[&id];
            (id, lease.ttl_seconds, &lease.keys)
        })
    }

    /// The ids of all leases, the first to expire first.
    pub fn by_expiry(&self) -> Vec<i64> {
        let mut order: Vec<_> = self
            .leases
            .iter()
            .map(|(&id, lease)| (lease.expires, id))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, id)| id).collect()
    }

    pub fn is_leading(&self) -> bool {
        self.leading
    }

    /// Returns the remaining seconds of a lease, negative if it is overdue, and the granted
    /// seconds; `None` if there is no such lease. Must be called only while leading.
    pub fn time_to_live(&self, id: i64) -> Option<(i64, i64)> {
        assert!(
            self.leading,
            "deadlines are meaningless on a machine that does not lead"
        );
        let lease = self.leases.get(&id)?;
        let now = self.clock.now();
        let left = seconds(lease.expires.saturating_since(now));
        let overdue = seconds(now.saturating_since(lease.expires));
        Some((left - overdue, lease.ttl_seconds))
    }

    pub fn grant(&mut self, id: i64, ttl_seconds: i64) {
        assert_ne!(id, 0, "lease 0 means no lease");
        let expires = self.clock.now() + time(ttl_seconds);
        let lease = Lease {
            ttl_seconds,
            expires,
            due: expires,
            keys: BTreeSet::new(),
            deletion_bytes: 0,
        };
        let replaced = self.leases.insert(id, lease);
        assert!(
            replaced.is_none(),
            "lease {id} is granted once: {replaced:?}"
        );
        if self.leading {
            self.due.insert((expires, id));
        }
    }

    /// Removes a lease. Its keys must have been deleted before.
    pub fn revoke(&mut self, id: i64) {
        let Some(lease) = self.leases.remove(&id) else {
            return;
        };
        self.due.remove(&(lease.due, id));
        for key in &lease.keys {
            self.attached.remove(key);
        }
        self.ended.notify_waiters();
    }

    /// Attaches the key to this lease and detaches it from any other. Lease 0 means none.
    pub fn attach(&mut self, key: Bytes, id: i64) {
        self.detach(&key);
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.deletion_bytes += deletion_bytes(&key);
            lease.keys.insert(key.clone());
            self.attached.insert(key, id);
        }
    }

    /// Detaches the key from its lease, if it has one.
    pub fn detach(&mut self, key: &[u8]) {
        assert!(!key.is_empty(), "every key has at least one byte");
        if self.attached.is_empty() {
            return;
        }
        let Some(id) = self.attached.remove(key) else {
            return;
        };
        let lease = self
            .leases
            .get_mut(&id)
            .expect("a key is attached to a lease that exists");
        lease.deletion_bytes -= deletion_bytes(key);
        let removed = lease.keys.remove(key);
        assert!(removed, "lease {id} does not have its key {key:?}");
    }

    /// Gives a lease its full time again, if it has not expired.
    pub fn renew(&mut self, id: i64) -> Renewal {
        // A machine that does not lead may not have applied the grant of the lease yet.
        if !self.leading {
            return Renewal::NotLeading;
        }
        let Some(lease) = self.leases.get(&id) else {
            return Renewal::NotFound;
        };
        let now = self.clock.now();
        if lease.expires <= now {
            return Renewal::Expired;
        }
        let ttl_seconds = lease.ttl_seconds;
        self.set_expiry(id, now + time(ttl_seconds));
        Renewal::Renewed(ttl_seconds)
    }

    fn set_expiry(&mut self, id: i64, expires: Instant) {
        let lease = self
            .leases
            .get_mut(&id)
            .expect("only existing leases get a deadline");
        self.due.remove(&(lease.due, id));
        lease.expires = expires;
        lease.due = expires;
        self.due.insert((expires, id));
    }

    /// Starts the deadlines: each lease gets its full time and `extend` on top. Deadlines that
    /// are too close together are spread to `per_second` of them in each second, so that clients
    /// can send keep-alives for all of them first.
    pub fn promote(&mut self, extend: Duration, per_second: u32) {
        self.leading = true;
        self.per_second = per_second.max(1);
        let now = self.clock.now() + extend;
        let mut leases: Vec<_> = self
            .leases
            .iter()
            .map(|(&id, lease)| (now + time(lease.ttl_seconds), id))
            .collect();
        leases.sort_unstable();
        let first = leases.first().map_or(now, |&(expires, _)| expires);
        for (place, (expires, id)) in leases.into_iter().enumerate() {
            let slot = first + Duration::from_secs(place as u64 / u64::from(self.per_second));
            self.set_expiry(id, expires.max(slot));
        }
        assert_eq!(
            self.due.len(),
            self.leases.len(),
            "every lease has one deadline"
        );
    }

    /// Starts the deadlines of all leases again, as a promotion does, if this machine leads.
    pub fn begin_again(&mut self) {
        if self.leading {
            self.promote(Duration::ZERO, self.per_second);
        }
    }

    /// Stops the deadlines and wakes the waiters.
    pub fn demote(&mut self) {
        self.leading = false;
        self.due.clear();
        self.ended.notify_waiters();
    }

    /// Returns up to `limit` expired leases. A lease that is not revoked is returned again after
    /// `retry`.
    pub fn take_expired(&mut self, now: Instant, retry: Duration, limit: usize) -> Vec<i64> {
        let mut expired = Vec::new();
        while expired.len() < limit
            && let Some(&(due, id)) = self.due.first()
            && due <= now
        {
            self.due.pop_first();
            let lease = self.leases.get_mut(&id).expect("due leases exist");
            lease.due = now + retry;
            self.due.insert((lease.due, id));
            expired.push(id);
        }
        assert!(
            expired.len() <= limit,
            "more leases are revoked than the pace allows"
        );
        expired
    }
}

fn time(ttl_seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl_seconds).unwrap_or(0))
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}
