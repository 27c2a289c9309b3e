//! The table of client connections, and the limit of their number.
//!
//! Every connection takes a descriptor, and the log needs descriptors too: one for each
//! segment, one for the next checkpoint. So clients get the descriptors that the process may
//! open, less those that it has open for other purposes and a reserve. If those are used up,
//! a new connection replaces the one that has been without a call for the longest; the client
//! of that one connects again when it has a request. If all connections are busy, the new one
//! is closed. As the log opens files and other members connect, the limit falls: once a
//! second the table checks whether clients have too many connections.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use environment::{Clock, Instant, Throttle};
use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tracing::warn;

use crate::{files, lock};

/// Descriptors reserved for the log and for other members: the limit of the process divided
/// by this, kept between the two bounds below.
const RESERVE_PART: u64 = 8;
const RESERVE_MIN: u64 = 12;
const RESERVE_MAX: u64 = 256;
/// Connections that are admitted however few descriptors there are.
const CONNECTIONS_MIN: usize = 2;
/// The smallest reserve and the fewest connections together.
pub(crate) const LEAST: u64 = RESERVE_MIN + CONNECTIONS_MIN as u64;
/// Interval of the checks of how many descriptors are open.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// If room is needed, at least this part of all connections is asked to end, so that the
/// search for idle ones is not repeated for each new connection.
const ENDING_PART: usize = 64;
/// Shortest time between two warnings that connections are closed, refused or not accepted.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// All connections of clients.
#[derive(Debug)]
pub(crate) struct Connections {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
    /// Attempts to accept that the system refused, on all sockets.
    not_accepted: Mutex<Throttle>,
    /// Connections that were closed because no request came.
    silent: Mutex<Throttle>,
}

#[derive(Debug)]
struct Table {
    next_id: u64,
    open: HashMap<u64, Arc<Activity>>,
    /// Connections that were asked to end and are still open.
    ending: usize,
    connections_max: usize,
    look_at: Instant,
    /// Connections that were asked to end or refused.
    warned: Throttle,
}

/// The activity of one connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Calls under way, until their answers are sent.
    calls: AtomicUsize,
    /// When a call last did something, or the connection began: milliseconds of the clock.
    used_at: AtomicU64,
    asked_to_end: AtomicBool,
    /// Whether it is ended because its client keeps memory that others wait for.
    blocks_others: AtomicBool,
    /// Notified when the connection is to end.
    end: Notify,
}

impl Connections {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Connections {
        let now = clock.now();
        Connections {
            clock,
            table: Mutex::new(Table {
                next_id: 0,
                open: HashMap::new(),
                ending: 0,
                connections_max: usize::MAX,
                look_at: now,
                warned: Throttle::new(WARN_EVERY),
            }),
            not_accepted: Mutex::new(Throttle::new(WARN_EVERY)),
            silent: Mutex::new(Throttle::new(WARN_EVERY)),
        }
    }

    /// Counts a failed accept, and logs at a limited rate: in a shortage each acceptor tries
    /// again many times a second.
    pub(crate) fn note_not_accepted(&self, error: &io::Error) {
        let mut throttle = lock(&self.not_accepted);
        if let Some(attempts) = throttle.note(self.clock.now(), 1) {
            warn!(%error, attempts, "cannot accept connections of clients");
        }
    }

    /// Counts a connection that is closed because its client sent no request, and logs at a
    /// limited rate.
    pub(crate) fn note_silent(&self, from: Option<SocketAddr>, within: Duration) {
        let mut throttle = lock(&self.silent);
        let Some(connections) = throttle.note(self.clock.now(), 1) else {
            return;
        };
        let from = from.map(|it| SocketAddr::new(it.ip().to_canonical(), it.port()));
        let from = from.map_or_else(|| "@".to_owned(), |from| from.to_string());
        warn!(
            "remote-addr" = from,
            connections,
            "closed connections on which no request came within {} s: find out what connects from \
             this address and does not speak, a check of the port, a scan, or an attack; it costs \
             this server little, and a firewall can end it",
            within.as_secs()
        );
    }

    /// Asks idle connections to end if the log and other members need their descriptors.
    pub(crate) fn give_way(&self) {
        let now = self.clock.now();
        let mut table = lock(&self.table);
        table.look_at = now + LOOK_EVERY;
        table.connections_max = connections_max(table.open.len());
        let excess = table.open.len().saturating_sub(table.connections_max);
        let excess = excess.saturating_sub(table.ending);
        if excess > 0 {
            table.make_room(excess, now);
        }
    }

    /// Admits a new connection; `None` if there is no descriptor for it.
    pub(crate) fn admit(self: &Arc<Connections>) -> Option<Admitted> {
        let now = self.clock.now();
        let mut table = lock(&self.table);
        if now >= table.look_at {
            table.look_at = now + LOOK_EVERY;
            table.connections_max = connections_max(table.open.len());
        }
        let excess = (table.open.len() + 1).saturating_sub(table.connections_max);
        let excess = excess.saturating_sub(table.ending);
        if excess > 0 && !table.make_room(excess, now) {
            return None;
        }
        let activity = Arc::new(Activity {
            used_at: AtomicU64::new(millis(now)),
            ..Activity::default()
        });
        let id = table.next_id;
        table.next_id += 1;
        table.open.insert(id, Arc::clone(&activity));
        Some(Admitted {
            connections: Arc::clone(self),
            id,
            activity,
        })
    }
}

impl Table {
    /// Asks the connections that have been idle for the longest to end; false if there is no
    /// room for a new one.
    fn make_room(&mut self, excess: usize, now: Instant) -> bool {
        let wanted = excess.max(self.open.len() / ENDING_PART);
        let idle = self.open.values().filter(|it| it.is_idle());
        let mut idle: Vec<&Arc<Activity>> = idle.collect();
        let asked = wanted.min(idle.len());
        if asked > 0 {
            idle.select_nth_unstable_by_key(asked - 1, |it| it.used_at.load(Ordering::Relaxed));
            idle[..asked].iter().for_each(|it| it.ask_to_end());
        }
        self.ending += asked;
        self.warn(now, asked.max(1) as u64);
        asked > 0
    }

    fn warn(&mut self, now: Instant, connections: u64) {
        if let Some(connections) = self.warned.note(now, connections) {
            warn!(
                connections,
                connections_max = self.connections_max,
                "idle connections of clients are closed, or new ones refused, because the process \
                 may not open more files: raise its limit (ulimit -n, LimitNOFILE)"
            );
        }
    }
}

impl Activity {
    /// Whether no call is open and the connection was not asked to end.
    fn is_idle(&self) -> bool {
        self.calls.load(Ordering::Relaxed) == 0 && !self.asked_to_end.load(Ordering::Relaxed)
    }

    fn ask_to_end(&self) {
        self.asked_to_end.store(true, Ordering::Relaxed);
        self.end.notify_one();
    }

    /// Ends the connection, even with open calls, because its client keeps memory that
    /// others wait for; false if it was ended before.
    pub(crate) fn end(&self) -> bool {
        let first = !self.blocks_others.swap(true, Ordering::Relaxed);
        if first {
            self.end.notify_one();
        }
        first
    }

    #[cfg(test)]
    pub(crate) fn is_ending(&self) -> bool {
        self.blocks_others.load(Ordering::Relaxed)
    }

    /// Returns when the connection is to end.
    pub(crate) async fn ended(&self) {
        self.end.notified().await;
    }

    /// Whether a call is under way.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn begin_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a call was active at `now`.
    pub(crate) fn used(&self, now: Instant) {
        self.used_at.store(millis(now), Ordering::Relaxed);
    }

    pub(crate) fn end_call(&self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection's place in the table.
#[derive(Debug)]
pub(crate) struct Admitted {
    connections: Arc<Connections>,
    id: u64,
    activity: Arc<Activity>,
}

impl Admitted {
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut table = lock(&self.connections.table);
        table.open.remove(&self.id);
        let was_asked = self.activity.asked_to_end.load(Ordering::Relaxed);
        table.ending -= usize::from(was_asked);
    }
}

fn millis(instant: Instant) -> u64 {
    u64::try_from(instant.since_origin().as_millis()).unwrap_or(u64::MAX)
}

/// The limit of connections, of which `open` are open now.
fn connections_max(open: usize) -> usize {
    let Some(files_max) = getrlimit(Resource::Nofile).current else {
        return usize::MAX;
    };
    let Some(files_open) = files::open_files() else {
        return usize::MAX;
    };
    let others = files_open.saturating_sub(open as u64);
    let reserve = (files_max / RESERVE_PART).clamp(RESERVE_MIN, RESERVE_MAX);
    let left = files_max.saturating_sub(others + reserve);
    usize::try_from(left).map_or(usize::MAX, |left| left.max(CONNECTIONS_MIN))
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;

    use super::*;

    fn full(connections_max: usize) -> (SimulatedClock, Arc<Connections>) {
        let clock = SimulatedClock::stepped();
        let connections = Arc::new(Connections::new(Arc::new(clock.clone())));
        {
            let mut table = lock(&connections.table);
            table.connections_max = connections_max;
            table.look_at = clock.now() + Duration::from_secs(3600);
        }
        (clock, connections)
    }

    #[test]
    fn a_new_connection_ends_the_one_that_was_idle_for_the_longest() {
        let (clock, connections) = full(3);
        let mut admitted = Vec::new();
        for _ in 0..3 {
            clock.advance(Duration::from_secs(1));
            admitted.push(connections.admit().unwrap());
        }
        clock.advance(Duration::from_secs(1));
        // The oldest has a call, the second one has just ended its own.
        admitted[0].activity().begin_call();
        admitted[1].activity().begin_call();
        admitted[1].activity().used(clock.now());
        admitted[1].activity().end_call();
        let fourth = connections.admit().unwrap();
        let asked = |it: &Admitted| it.activity.asked_to_end.load(Ordering::Relaxed);
        assert_eq!(
            admitted.iter().map(asked).collect::<Vec<_>>(),
            [false, false, true]
        );
        drop(admitted.pop());
        assert_eq!(lock(&connections.table).ending, 0);
        assert_eq!(lock(&connections.table).open.len(), 3);
        drop(fourth);
    }

    #[test]
    fn a_new_connection_is_refused_while_all_are_busy() {
        let (_clock, connections) = full(2);
        let admitted: Vec<Admitted> = (0..2).map(|_| connections.admit().unwrap()).collect();
        admitted.iter().for_each(|it| it.activity().begin_call());
        assert!(connections.admit().is_none());
        admitted[1].activity().end_call();
        assert!(connections.admit().is_some());
    }

    #[test]
    fn each_new_connection_beyond_the_limit_ends_one_idle_connection() {
        let (_clock, connections) = full(10);
        let admitted: Vec<Admitted> = (0..10).map(|_| connections.admit().unwrap()).collect();
        let newer: Vec<Admitted> = (0..4).map(|_| connections.admit().unwrap()).collect();
        assert_eq!(lock(&connections.table).ending, 4);
        drop((admitted, newer));
        assert_eq!(lock(&connections.table).ending, 0);
    }

    #[test]
    fn the_limit_leaves_descriptors_for_the_log() {
        let files_max = getrlimit(Resource::Nofile).current.unwrap();
        let most = connections_max(0) as u64;
        assert!(most <= files_max - RESERVE_MIN, "{most} of {files_max}");
        assert!(most >= CONNECTIONS_MIN as u64);
    }
}
