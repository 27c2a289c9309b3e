//! State that the calls of one connection share.
//!
//! Counting a reference to what all connections share costs more than it looks like: the
//! count's cache line moves from core to core with each call. A connection is served by one
//! core, so its calls refer to this, and this refers to the rest.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tonic::Status;

use crate::answers::{AnswerShare, Claim, Pieces};
use crate::backend::Backend;
use crate::callers::standing::Standing;
use crate::connections::Activity;
use crate::lock;
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
    /// The token that its last calls had.
    pub(crate) known_token: Mutex<Option<KnownToken>>,
    /// Serves the connection after it has changed its protocol.
    upgraded: Mutex<Option<Upgraded>>,
}

/// A verified token, so that the next call with it is not verified again. Printing it does not
/// show it.
pub(crate) struct KnownToken {
    pub(crate) token: Vec<u8>,
    /// Until then, in seconds since 1970, it needs no second look.
    pub(crate) fresh_until: u64,
    pub(crate) standing: Standing,
}

impl fmt::Debug for KnownToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KnownToken")
    }
}

/// A session of another protocol on a client's connection.
pub(crate) struct Upgraded(BoxFuture<'static, ()>);

impl fmt::Debug for Upgraded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Upgraded")
    }
}

impl Client {
    pub(crate) fn new(backend: Arc<Backend>, activity: Arc<Activity>) -> Client {
        let grants = Arc::clone(&backend.resources.small_answers);
        Client {
            unsent: Arc::new(Unsent::new(grants, Arc::clone(&activity))),
            share: backend.resources.answers.share(Arc::clone(&activity)),
            backend,
            activity,
            known_token: Mutex::new(None),
            upgraded: Mutex::new(None),
        }
    }

    /// Keeps what serves the connection once it has changed its protocol.
    pub(crate) fn upgrade(&self, session: impl Future<Output = ()> + Send + 'static) {
        *lock(&self.upgraded) = Some(Upgraded(Box::pin(session)));
    }

    /// Serves the connection in its new protocol, if it has one.
    pub(crate) async fn serve_upgraded(&self) {
        let session = lock(&self.upgraded).take();
        if let Some(Upgraded(session)) = session {
            session.await;
        }
    }

    /// Drops a session that was never served: it refers to this client.
    pub(crate) fn end_upgraded(&self) {
        drop(lock(&self.upgraded).take());
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
