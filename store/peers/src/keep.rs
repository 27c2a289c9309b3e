//! Keeps a lane to a member connected.
//!
//! ```text
//!             ┌──────────────────────── wait ◄───────────────┐
//!             ▼                          ▲                   │
//!   start ► dial ── fails: give up ──────┘                   │
//!             │                                              │
//!             └── connected: write until it breaks ──────────┘
//! ```
//!
//! Messages are queued until the first attempt fails, and again while a broken connection
//! is dialled again. After a failed attempt they are dropped until an attempt succeeds. The
//! wait doubles, and ends early when the member dials this one or its addresses change.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::dial::{Dialled, dial};
use crate::link::Link;
use crate::lock::lock;
use crate::member::Member;
use crate::shared::Shared;
use crate::writer::MessageWriter;
use crate::{Lane, Limits, LinkError};

/// Keeps the lane connected until the task is aborted.
pub(crate) async fn keep(shared: Arc<Shared>, member: Arc<Member>, lane: Lane) {
    let mut writer = MessageWriter::new(member.message_lane(lane));
    let mut addresses = member.addresses.subscribe();
    let mut dialled_us = member.dialled_us.subscribe();
    let mut listens_at = member.listens_at.subscribe();
    let mut backoff = Backoff::new(&shared.options.limits);
    loop {
        let known = Arc::clone(&addresses.borrow_and_update());
        dialled_us.mark_unchanged();
        listens_at.mark_unchanged();
        let was_connected = match dial(&shared, member.id, &known, lane).await {
            Ok(dialled) => {
                let address = dialled.address.clone();
                let began = shared.now();
                let ended = connected(&shared, &member, &mut writer, dialled, lane);
                let error = until_moved(ended, &mut listens_at, &address).await;
                down(&shared, &member, lane, &writer.lane.link, &error);
                // A connection that breaks soon does not reset the pause.
                if shared.now().saturating_since(began) > shared.options.limits.retry_max {
                    backoff = Backoff::new(&shared.options.limits);
                }
                true
            }
            Err(error) => {
                writer.give_up();
                down(&shared, &member, lane, &writer.lane.link, &error);
                false
            }
        };
        tokio::select! {
            () = tokio::time::sleep(backoff.step(&shared)) => {}
            // Not after a connection that broke: two members that break each other's
            // connections would dial without a pause.
            () = changed(&mut dialled_us), if !was_connected => {}
            () = changed(&mut addresses) => {}
        }
    }
}

fn down(shared: &Shared, member: &Member, lane: Lane, link: &Link, error: &LinkError) {
    if link.down(error) {
        let member = format!("{:x}", member.id);
        match lane {
            Lane::Urgent => tracing::warn!(member, "no connection: {error}"),
            _ => tracing::debug!(member, %lane, "no connection: {error}"),
        }
    }
    shared.handler.link(member.id, lane, Err(error));
}

/// Logs a new connection: at level info for the Urgent lane, at level debug for the others.
fn log_connected(member: &Member, lane: Lane, address: &str, release: &str) {
    let member = format!("{:x}", member.id);
    match lane {
        Lane::Urgent => tracing::info!(member, address, release, "connected"),
        _ => tracing::debug!(member, %lane, address, release, "connected"),
    }
}

/// Writes messages until the connection breaks. Returns the reason.
async fn connected(
    shared: &Shared,
    member: &Member,
    writer: &mut MessageWriter<'_>,
    dialled: Dialled,
    lane: Lane,
) -> LinkError {
    let address = dialled.address.clone();
    let now = shared.now();
    let link = &writer.lane.link;
    link.up(now, &address, dialled.round_trip, &dialled.release);
    writer.lane.hope();
    log_connected(member, lane, &address, &dialled.release);
    shared.handler.link(member.id, lane, Ok(()));
    let reason = writer.run(shared, dialled.socket).await;
    LinkError::broken(&address, reason)
}

/// Waits for `ended`, or until the member says that it listens at other addresses than
/// `address`. What it said before `address` was dialled does not count.
async fn until_moved(
    ended: impl Future<Output = LinkError>,
    listens_at: &mut watch::Receiver<Arc<[String]>>,
    address: &str,
) -> LinkError {
    let moved = async {
        loop {
            changed(listens_at).await;
            if !listens_at
                .borrow_and_update()
                .iter()
                .any(|one| one == address)
            {
                return;
            }
        }
    };
    tokio::select! {
        error = ended => error,
        () = moved => LinkError::broken(address, "the member listens elsewhere now"),
    }
}

async fn changed<T>(watched: &mut watch::Receiver<T>) {
    if watched.changed().await.is_err() {
        // The member was removed, and this task is about to be aborted.
        std::future::pending::<()>().await;
    }
}

/// Pauses that double, each shortened at random by up to a half, so that two members that
/// lost their connections at the same time do not always dial at the same time.
struct Backoff {
    next: Duration,
}

impl Backoff {
    fn new(limits: &Limits) -> Backoff {
        Backoff {
            next: limits.retry_min,
        }
    }

    fn step(&mut self, shared: &Shared) -> Duration {
        let (pause, max) = (self.next, shared.options.limits.retry_max);
        assert!(
            !pause.is_zero() && pause <= max,
            "`Limits::check` ensures it"
        );
        self.next = (pause * 2).min(max);
        let half = pause / 2;
        let jitter = lock(&shared.random).below(half.as_micros() as u64 + 1);
        half + Duration::from_micros(jitter)
    }
}
