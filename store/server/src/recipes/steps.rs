//! The calls of which a recipe is made, in the name of the recipe's caller.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use etcd_api::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest, RangeRequest, RangeResponse,
    TxnRequest, TxnResponse,
};
use prost::Message;
use tonic::{Code, Status};

use crate::answer_body::{Answered, Handled};
use crate::backend::{Backend, stopped};
use crate::callers::Caller;
use crate::encoded::PREFIX_BYTES;
use crate::methods::Method;
use crate::recipes::LEASE_SECONDS;
use crate::{kv, lease};

/// The calls of a recipe. Each is what the recipe's caller could call itself, and needs what it
/// would need then: a check of its identity and permissions belongs here and nowhere else.
#[derive(Clone)]
pub(super) struct Steps {
    caller: Caller,
}

impl Steps {
    pub(super) fn new(caller: Caller) -> Steps {
        Steps { caller }
    }

    pub(super) fn backend(&self) -> &Arc<Backend> {
        &self.caller.backend
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        decoded(kv::range(self.caller.clone(), request).await)
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        decoded(kv::txn(self.caller.clone(), request).await)
    }

    pub(super) async fn delete(&self, key: Bytes) -> Result<DeleteRangeResponse, Status> {
        let request = DeleteRangeRequest {
            key,
            ..Default::default()
        };
        decoded(kv::delete_range(self.caller.clone(), request).await)
    }

    /// The lease of a claim: the given one, or a new one if it is 0.
    pub(super) async fn lease(&self, given: i64) -> Result<i64, Status> {
        if given != 0 {
            return Ok(given);
        }
        let request = LeaseGrantRequest {
            ttl: LEASE_SECONDS,
            id: 0,
        };
        self.caller.admit(Method::LeaseGrant.needs()).await?;
        let granted = lease::grant(self.caller.clone(), request).await;
        Ok(decoded(granted)?.id)
    }

    /// The outcome of `work`; an error if the server stops first.
    pub(super) async fn until_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let mut stopping = self.caller.backend.stopping.clone();
        tokio::select! {
            biased;
            () = stopped(&mut stopping) => Err(etcd_api::Error::Stopped.to_status()),
            outcome = work => outcome,
        }
    }
}

/// The message of an answer. A large one was encoded for the client already.
fn decoded<T: Message + Default>(answered: Handled<T>) -> Result<T, Status> {
    match answered.map_err(of_recipe)? {
        Answered::Small(message) => Ok(message),
        Answered::Large(mut pieces) => {
            let mut encoded = BytesMut::new();
            while let Some((bytes, _)) = pieces.next()? {
                encoded.extend_from_slice(&bytes);
            }
            // Behind the prefix of a gRPC message.
            let message = T::decode(encoded.split_off(PREFIX_BYTES));
            message.map_err(|error| Status::internal(format!("inkstone: {error}")))
        }
    }
}

/// The error of a recipe for the error of one of its calls. As in etcd it has the same text
/// and no code; only a server that stops says so, because its clients must try another one.
fn of_recipe(status: Status) -> Status {
    match status.code() == Code::Unavailable && is_stopped(&status) {
        true => status,
        false => Status::unknown(status.message()),
    }
}

/// Whether an error says that the server stops.
pub(super) fn is_stopped(status: &Status) -> bool {
    status.message() == etcd_api::Error::Stopped.message()
}
