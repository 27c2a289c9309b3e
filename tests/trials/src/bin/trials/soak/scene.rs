//! State that all tasks of a soak share: the server, the end, and the counts.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use etcd_api::etcdserverpb::watch_client::WatchClient;
use tonic::transport::Channel;

use crate::process::Outcome;

/// Prefix of all keys.
pub const PREFIX: &str = "soak/";
/// Most errors that are kept as text.
const STORIES_MAX: usize = 10;

/// Counts only grow, except those called `open` and `held`.
#[derive(Debug, Default)]
pub struct Scene {
    pub url: String,
    ended: AtomicBool,
    pub operations: AtomicU64,
    pub events: AtomicU64,
    pub connections: AtomicU64,
    pub compactions: AtomicU64,
    pub watches: AtomicU64,
    pub watch_streams_open: AtomicI64,
    pub leases: AtomicU64,
    pub leases_held: AtomicI64,
    /// The newest revision that any answer named.
    pub revision: AtomicI64,
    pub errors: AtomicU64,
    stories: Mutex<Vec<String>>,
}

impl Scene {
    pub fn new(url: String) -> Scene {
        Scene {
            url,
            ..Scene::default()
        }
    }

    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Sleeps, but not long past the end.
    pub async fn pause(&self, duration: Duration) {
        const STEP: Duration = Duration::from_millis(50);
        let mut left = duration;
        while !left.is_zero() && !self.has_ended() {
            tokio::time::sleep(left.min(STEP)).await;
            left = left.saturating_sub(STEP);
        }
    }

    /// Records an error that a healthy server does not return.
    pub fn complain(&self, what: &str, error: &dyn std::fmt::Display) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut stories = self.stories.lock().expect("no holder panics");
        if stories.len() < STORIES_MAX {
            stories.push(format!("{what}: {error}"));
        }
    }

    pub fn stories(&self) -> Vec<String> {
        self.stories.lock().expect("no holder panics").clone()
    }

    pub fn note_revision(&self, revision: i64) {
        self.revision.fetch_max(revision, Ordering::Relaxed);
    }

    /// Opens a new connection.
    pub async fn connect(&self) -> Outcome<Channel> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(Channel::from_shared(self.url.clone())?.connect().await?)
    }

    pub async fn watch(&self) -> Outcome<WatchClient<Channel>> {
        Ok(WatchClient::new(self.connect().await?))
    }
}
