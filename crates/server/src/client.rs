//! What the calls of one connection share.
//!
//! Counting a reference to what all connections share costs more than it looks like: the
//! count's cache line moves from core to core with each call. A connection is served by one
//! core, so its calls refer to this, and this refers to the rest.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use environment::Instant;
use tonic::Status;

use crate::answer_body::Large;
use crate::answers::{AnswerShare, Claim};
use crate::backend::Backend;
use crate::connections::Activity;
use crate::unsent::Unsent;

/// One connection of a client, as its calls see it.
#[derive(Debug)]
pub(crate) struct Client {
    /// What the services stand on.
    pub(crate) backend: Arc<Backend>,
    /// Its small answers.
    pub(crate) unsent: Arc<Unsent>,
    /// For its large answers.
    pub(crate) share: AnswerShare,
    activity: Arc<Activity>,
}

impl Client {
    /// A connection that does `activity`.
    pub(crate) fn new(backend: Arc<Backend>, activity: Arc<Activity>) -> Client {
        let grants = Arc::clone(&backend.resources.small_answers);
        Client {
            unsent: Arc::new(Unsent::new(grants, Arc::clone(&activity))),
            share: backend.resources.answers.share(Arc::clone(&activity)),
            backend,
            activity,
        }
    }

    /// Waits until there is memory for a large answer, for as long as a request may.
    pub(crate) async fn claim(&self, bytes: u64) -> Result<Claim, Status> {
        let memory = &self.backend.resources.answers;
        self.backend.in_time(memory.claim(&self.share, bytes)).await
    }

    /// Makes a large answer ready to be sent.
    pub(crate) fn send(&self, pieces: VecDeque<Bytes>, claim: Claim) -> Large {
        let memory = &self.backend.resources.answers;
        Large::Whole(memory.send(&self.share, pieces, claim))
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
