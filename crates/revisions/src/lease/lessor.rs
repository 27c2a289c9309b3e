//! The leases as applied: who has how long, and which keys hang on whom.
//!
//! Invariants: a key hangs on one lease at most; `attached` and the leases'
//! own sets say the same; while leading, every lease is in `due` exactly once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use environment::{Clock, Instant};
use tokio::sync::Notify;

use crate::delete_range::deletion_bytes;

/// One lease.
#[derive(Debug)]
struct Lease {
    ttl_seconds: i64,
    /// When its time is up; meaningless while not leading.
    expires: Instant,
    /// When it is to be revoked, first or again; its place in `Lessor::due`.
    due: Instant,
    keys: BTreeSet<Bytes>,
    /// What deleting the keys would take in the log.
    deletion_bytes: u64,
}

/// All leases.
#[derive(Debug)]
pub(crate) struct Lessor {
    leases: HashMap<i64, Lease>,
    attached: HashMap<Bytes, i64>,
    /// Leases by the moment they are to be revoked; empty while not leading.
    due: BTreeSet<(Instant, i64)>,
    /// Deadlines count here; elsewhere leases never expire.
    leading: bool,
    clock: Arc<dyn Clock>,
    /// Told whenever a lease ends or the lead is lost.
    ended: Arc<Notify>,
}

/// How a renewal went.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// The lease has this many seconds again.
    Renewed(i64),
    /// There is none.
    NotFound,
    /// Its time is up; the outcome is not known yet.
    Expired,
    /// Ask the leader.
    NotLeading,
}

impl Lessor {
    pub fn new(clock: Arc<dyn Clock>) -> Lessor {
        Lessor {
            leases: HashMap::new(),
            attached: HashMap::new(),
            due: BTreeSet::new(),
            leading: false,
            clock,
            ended: Arc::default(),
        }
    }

    pub fn contains(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// Told whenever a lease ends or the lead is lost.
    pub fn ended(&self) -> &Arc<Notify> {
        &self.ended
    }

    /// Takes the place of another: whoever waits there is told, and looks again.
    pub fn succeed(&mut self, before: &Lessor) {
        self.ended = Arc::clone(&before.ended);
        self.ended.notify_waiters();
    }

    /// The keys of a lease, ascending; none of one that does not exist.
    pub fn keys(&self, id: i64) -> BTreeSet<Bytes> {
        self.leases
            .get(&id)
            .map(|lease| lease.keys.clone())
            .unwrap_or_default()
    }

    /// What deleting the keys of a lease would take in the log.
    pub fn deletion_bytes(&self, id: i64) -> u64 {
        self.leases.get(&id).map_or(0, |lease| lease.deletion_bytes)
    }

    /// Id, granted seconds and keys of every lease, by id.
    pub fn all(&self) -> impl Iterator<Item = (i64, i64, &BTreeSet<Bytes>)> {
        let mut ids: Vec<_> = self.leases.keys().copied().collect();
        ids.sort_unstable();
        ids.into_iter().map(|id| {
            let lease = &self.leases[&id];
            (id, lease.ttl_seconds, &lease.keys)
        })
    }

    /// Ids, soonest to expire first.
    pub fn by_expiry(&self) -> Vec<i64> {
        let mut order: Vec<_> = self
            .leases
            .iter()
            .map(|(&id, lease)| (lease.expires, id))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, id)| id).collect()
    }

    /// Deadlines count here.
    pub fn is_leading(&self) -> bool {
        self.leading
    }

    /// Seconds left (negative: overdue) and seconds granted. `None`: no such
    /// lease. To be asked only where deadlines count.
    pub fn time_to_live(&self, id: i64) -> Option<(i64, i64)> {
        assert!(self.leading, "deadlines mean nothing here");
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

    /// Ends a lease. Its keys were deleted by then.
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

    /// The key hangs on this lease from now on, and on no other; 0: on none.
    pub fn attach(&mut self, key: Bytes, id: i64) {
        self.detach(&key);
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.deletion_bytes += deletion_bytes(&key);
            lease.keys.insert(key.clone());
            self.attached.insert(key, id);
        }
    }

    /// The key is gone, or hangs on none.
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
            .expect("a key hangs on a lease that exists");
        lease.deletion_bytes -= deletion_bytes(key);
        let removed = lease.keys.remove(key);
        assert!(removed, "lease {id} does not know its key {key:?}");
    }

    /// Gives a lease its full time again.
    pub fn renew(&mut self, id: i64) -> Renewal {
        // Whoever does not lead may not have heard of the lease yet.
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

    /// Deadlines count here from now on: each lease's full time, and `extend`
    /// on top. Where many would end together they are spread, `per_second` of
    /// them in any second, so that all get the chance of a keep-alive first.
    pub fn promote(&mut self, extend: Duration, per_second: u32) {
        self.leading = true;
        let now = self.clock.now() + extend;
        let mut leases: Vec<_> = self
            .leases
            .iter()
            .map(|(&id, lease)| (now + time(lease.ttl_seconds), id))
            .collect();
        leases.sort_unstable();
        let first = leases.first().map_or(now, |&(expires, _)| expires);
        for (place, (expires, id)) in leases.into_iter().enumerate() {
            let slot = first + Duration::from_secs(place as u64 / u64::from(per_second.max(1)));
            self.set_expiry(id, expires.max(slot));
        }
        assert_eq!(
            self.due.len(),
            self.leases.len(),
            "every lease has one deadline"
        );
    }

    /// Deadlines no longer count here.
    pub fn demote(&mut self) {
        self.leading = false;
        self.due.clear();
        self.ended.notify_waiters();
    }

    /// Up to `limit` leases whose time is up. Each is handed out again only
    /// after `retry`.
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
        assert!(expired.len() <= limit, "more than the pace allows");
        expired
    }
}

fn time(ttl_seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl_seconds).unwrap_or(0))
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}
