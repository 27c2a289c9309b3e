//! What the calls of one connection share.
//!
//! Counting a reference to what all connections share costs more than it looks like: the
//! count's cache line moves from core to core with each call. A connection is served by one
//! core, so its calls refer to this, and this refers to the rest.

use std::sync::Arc;

use environment::Instant;

use crate::backend::Backend;
use crate::connections::Activity;

/// One connection of a client, as its calls see it.
#[derive(Debug)]
pub(crate) struct Client {
    /// What the services stand on.
    pub(crate) backend: Arc<Backend>,
    activity: Arc<Activity>,
}

impl Client {
    /// A connection that does `activity`.
    pub(crate) fn new(backend: Arc<Backend>, activity: Arc<Activity>) -> Client {
        Client { backend, activity }
    }

    /// A call is under way until what is returned is dropped.
    pub(crate) fn call(self: &Arc<Client>) -> OpenCall {
        self.activity.begin_call();
        OpenCall {
            client: Arc::clone(self),
        }
    }
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct OpenCall {
    client: Arc<Client>,
}

impl OpenCall {
    /// The connection of the call.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The call has just done something.
    pub(crate) fn used(&self, now: Instant) {
        self.client.activity.used(now);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.client.activity.end_call();
    }
}
