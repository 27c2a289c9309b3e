//! The service KV: reads from applied state, writes through the replica.
//!
//! A linearizable read first confirms that it sees every acknowledged write; a
//! serializable read skips that. Then the request's own task looks the keys up, and the
//! stored bytes are sent as they lie in the log. A range of many keys or of many
//! bytes is read and encoded on a thread of its own (`large_reads.rs`), so that
//! it does not delay the other requests of this core.

use std::pin::Pin;
use std::sync::Arc;

use etcd_api::etcdserverpb::kv_server::Kv;
use etcd_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, TxnRequest, TxnResponse,
};
use futures_util::{Stream, stream};
use revisions::{Command, Response as Outcome, validate};
use tonic::{Request, Response, Status};

use crate::answer_body::{Encoded, Large};
use crate::calls::Call;
use crate::client::Client;
use crate::large_reads::{self, Answered};
use crate::large_writes;
use crate::methods::Method;
use crate::range_stream::{self, Chunks};

#[derive(Clone)]
pub(crate) struct KvService {
    client: Arc<Client>,
}

impl KvService {
    pub(crate) fn new(client: Arc<Client>) -> KvService {
        KvService { client }
    }

    async fn answer_range(&self, request: RangeRequest) -> Result<Answered<RangeResponse>, Status> {
        let backend = &self.client.backend;
        if !request.serializable {
            backend.refuse_at_learner()?;
        }
        validate::range(&request)?;
        if !request.serializable {
            backend.confirm_reads().await?;
        }
        backend.metrics.ranges.add(1);
        large_reads::range(&self.client, request).await
    }

    async fn answer_put(&self, request: PutRequest) -> Result<Answered<PutResponse>, Status> {
        validate::put(&request)?;
        let bytes = request.key.len() + request.value.len();
        let command = Command::Put(request);
        let answered = large_writes::execute(&self.client, command, |_, outcome| match outcome {
            Outcome::Put(response) => response,
            _ => unreachable!("a put is answered by a put"),
        });
        let answered = answered.await?;
        self.client.backend.metrics.count_put(bytes);
        Ok(answered)
    }

    async fn answer_delete(
        &self,
        request: DeleteRangeRequest,
    ) -> Result<Answered<DeleteRangeResponse>, Status> {
        validate::delete_range(&request)?;
        let command = Command::DeleteRange(request);
        let answered = large_writes::execute(&self.client, command, |_, outcome| match outcome {
            Outcome::DeleteRange(response) => response,
            _ => unreachable!("a deletion is answered by a deletion"),
        });
        let answered = answered.await?;
        self.client.backend.metrics.deletes.add(1);
        Ok(answered)
    }

    async fn answer_txn(&self, request: TxnRequest) -> Result<Answered<TxnResponse>, Status> {
        let backend = &self.client.backend;
        validate::txn(
            &request,
            backend.config.node.replica.command_limits.operations_max,
        )?;
        if revisions::is_read_only(&request) {
            if !revisions::is_serializable(&request) {
                backend.confirm_reads().await?;
            }
            return large_reads::txn(&self.client, request).await;
        }
        let command = Command::Txn(request);
        large_writes::execute(&self.client, command, |backend, outcome| {
            let Outcome::Txn(response) = outcome else {
                unreachable!("a transaction is answered by a transaction");
            };
            backend.metrics.count_txn(&response);
            response
        })
        .await
    }

    async fn answer_compact(
        &self,
        request: CompactionRequest,
    ) -> Result<CompactionResponse, Status> {
        match self
            .client
            .backend
            .execute(Command::Compact(request))
            .await?
        {
            Outcome::Compact(response) => Ok(response),
            _ => unreachable!("a compaction is answered by a compaction"),
        }
    }
}

#[tonic::async_trait]
impl Kv for KvService {
    type RangeStreamStream =
        Pin<Box<dyn Stream<Item = Result<RangeStreamResponse, Status>> + Send>>;

    async fn range(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<RangeResponse>, Status> {
        let call = Call::begin(&self.client.backend, Method::Range, request.metadata())?;
        let answered = self.answer_range(request.into_inner()).await;
        large_reads::end(call, answered)
    }

    async fn range_stream(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        let mut call = Call::begin(
            &self.client.backend,
            Method::RangeStream,
            request.metadata(),
        )?;
        match range_stream::open(&self.client.backend, request.into_inner()).await {
            Ok(chunks) => {
                let chunks = Chunks::new(Arc::clone(&self.client), call, chunks);
                let none: Self::RangeStreamStream = Box::pin(stream::empty());
                let mut response = Response::new(none);
                let chunks = Encoded::new(Large::Chunks(chunks));
                response.extensions_mut().insert(chunks);
                Ok(response)
            }
            Err(status) => {
                call.close(Err(&status));
                Err(status)
            }
        }
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let call = Call::begin(&self.client.backend, Method::Put, request.metadata())?;
        large_reads::end(call, self.answer_put(request.into_inner()).await)
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let call = Call::begin(
            &self.client.backend,
            Method::DeleteRange,
            request.metadata(),
        )?;
        large_reads::end(call, self.answer_delete(request.into_inner()).await)
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let call = Call::begin(&self.client.backend, Method::Txn, request.metadata())?;
        let answered = self.answer_txn(request.into_inner()).await;
        large_reads::end(call, answered)
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        let call = Call::begin(&self.client.backend, Method::Compact, request.metadata())?;
        call.end(self.answer_compact(request.into_inner()).await)
    }
}
