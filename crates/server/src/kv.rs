//! The service KV: reads from applied state, writes through the replica.
//!
//! A read confirms first that it sees every acknowledged write (unless the
//! client takes it as it is), then looks the keys up on this very task; the
//! stored bytes go out as they lie in the log. A range of many keys or of many
//! bytes is read and encoded on a thread of its own (`large_reads.rs`), so that
//! it does not hold up the others on this core.

use std::pin::Pin;
use std::sync::Arc;

use etcd_api::etcdserverpb::kv_server::Kv;
use etcd_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, TxnRequest, TxnResponse,
};
use futures_util::Stream;
use revisions::{Command, Response as Outcome, validate};
use tonic::{Request, Response, Status};

use crate::backend::Backend;
use crate::calls::Call;
use crate::large_reads::{self, Answered};
use crate::methods::Method;
use crate::range_stream;

/// The service.
#[derive(Clone)]
pub(crate) struct KvService {
    backend: Arc<Backend>,
}

impl KvService {
    /// On top of `backend`.
    pub(crate) fn new(backend: Arc<Backend>) -> KvService {
        KvService { backend }
    }

    async fn answer_range(&self, request: RangeRequest) -> Result<Answered<RangeResponse>, Status> {
        let backend = &self.backend;
        if !request.serializable {
            backend.refuse_at_learner()?;
        }
        validate::range(&request)?;
        if !request.serializable {
            backend.confirm_reads().await?;
        }
        backend.metrics.ranges.add(1);
        large_reads::range(backend, request).await
    }

    async fn answer_put(&self, request: PutRequest) -> Result<PutResponse, Status> {
        validate::put(&request)?;
        let bytes = request.key.len() + request.value.len();
        let Outcome::Put(response) = self.backend.execute(Command::Put(request)).await? else {
            unreachable!("a put is answered by a put");
        };
        self.backend.metrics.count_put(bytes);
        Ok(response)
    }

    async fn answer_delete(
        &self,
        request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Status> {
        validate::delete_range(&request)?;
        let command = Command::DeleteRange(request);
        let Outcome::DeleteRange(response) = self.backend.execute(command).await? else {
            unreachable!("a deletion is answered by a deletion");
        };
        self.backend.metrics.deletes.add(1);
        Ok(response)
    }

    async fn answer_txn(&self, request: TxnRequest) -> Result<Answered<TxnResponse>, Status> {
        validate::txn(&request, self.backend.config.txn_operations_max)?;
        if revisions::is_read_only(&request) {
            if !revisions::is_serializable(&request) {
                self.backend.confirm_reads().await?;
            }
            return large_reads::txn(&self.backend, request).await;
        }
        let Outcome::Txn(response) = self.backend.execute(Command::Txn(request)).await? else {
            unreachable!("a transaction is answered by a transaction");
        };
        self.backend.metrics.count_txn(&response);
        Ok(Answered::Small(response))
    }

    async fn answer_compact(
        &self,
        request: CompactionRequest,
    ) -> Result<CompactionResponse, Status> {
        match self.backend.execute(Command::Compact(request)).await? {
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
        let call = Call::begin(&self.backend, Method::Range, request.metadata())?;
        let answered = self.answer_range(request.into_inner()).await;
        large_reads::end(call, answered)
    }

    async fn range_stream(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        let mut call = Call::begin(&self.backend, Method::RangeStream, request.metadata())?;
        match range_stream::open(&self.backend, request.into_inner()).await {
            Ok(chunks) => Ok(Response::new(range_stream::send(
                Arc::clone(&self.backend),
                call,
                chunks,
            ))),
            Err(status) => {
                call.close(Err(&status));
                Err(status)
            }
        }
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Put, request.metadata())?;
        call.end(self.answer_put(request.into_inner()).await)
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let call = Call::begin(&self.backend, Method::DeleteRange, request.metadata())?;
        call.end(self.answer_delete(request.into_inner()).await)
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Txn, request.metadata())?;
        let answered = self.answer_txn(request.into_inner()).await;
        large_reads::end(call, answered)
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Compact, request.metadata())?;
        call.end(self.answer_compact(request.into_inner()).await)
    }
}
