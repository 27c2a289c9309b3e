//! State that the calls of one connection share.
//!
//! Counting a reference to what all connections share costs more than it looks like: the
//! count's cache line moves from core to core with each call. A connection is served by one
//! core, so its calls refer to this, and this refers to the rest.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tonic::Status;

use crate::answers::{AnswerShare, Claim, Pieces};
use crate::backend::Backend;
use crate::connections::Activity;
use crate::unsent::Unsent;

/// One connection of a client, as its calls see it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) backend: Arc<Backend>,
    /// Its small answers that are not sent yet.
    pub(crate) unsent: Arc<Unsent>,
    /// Its share of the memory for large answers.
    pub(crate) share: AnswerShare,
    pub(crate) activity: Arc<Activity>,
}

impl Client {
    pub(crate) fn new(backend: Arc<Backend>, activity: Arc<Activity>) -> Client {
        let grants = Arc::clone(&backend.resources.small_answers);
        Client {
            unsent: Arc::new(Unsent::new(grants, Arc::clone(&activity))),
            share: backend.resources.answers.share(Arc::clone(&activity)),
            backend,
            activity,
        }
    }

    /// Claims memory for a large answer; fails with etcd's timeout if none is free in the
    /// time that a request may take.
    pub(crate) async fn claim(&self, bytes: u64) -> Result<Claim, Status> {
        let memory = &self.backend.resources.answers;
        self.backend.in_time(memory.claim(&self.share, bytes)).await
    }

    /// Makes a large answer ready to be sent.
    pub(crate) fn send(&self, pieces: VecDeque<Bytes>, claim: Claim) -> Pieces {
        let memory = &self.backend.resources.answers;
        memory.send(&self.share, pieces, claim)
    }
}
