//! The service KV: reads from applied state, writes through the replica.
//!
//! A read confirms first that it sees every acknowledged write (unless the
//! client takes it as it is), then looks the keys up on this very task; the
//! stored bytes go out as they lie in the log. Only a range of many keys
//! moves to a thread of its own, so that it does not hold up the others on
//! this core.

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
use crate::methods::Method;
use crate::range_stream;
use crate::refusal::of_machine;

/// A range of more keys than this is read aside.
const KEYS_READ_IN_PLACE: i64 = 2048;

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

    async fn answer_range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        let backend = &self.backend;
        if !request.serializable {
            backend.refuse_at_learner()?;
        }
        validate::range(&request)?;
        if !request.serializable {
            backend.confirm_reads().await?;
        }
        backend.metrics.ranges.add(1);
        let mut response = if self.is_long(&request)? {
            backend
                .aside(move |backend| read(backend, &request))
                .await?
        } else {
            read(backend, &request)?
        };
        backend.fill(response.header.get_or_insert_default());
        Ok(response)
    }

    /// Whether the answer may hold more keys than are read in place.
    fn is_long(&self, request: &RangeRequest) -> Result<bool, Status> {
        let limited = (1..=KEYS_READ_IN_PLACE).contains(&request.limit);
        if request.range_end.is_empty() || request.count_only || limited {
            return Ok(false);
        }
        let count = RangeRequest {
            key: request.key.clone(),
            range_end: request.range_end.clone(),
            count_only: true,
            ..RangeRequest::default()
        };
        Ok(read(&self.backend, &count)?.count > KEYS_READ_IN_PLACE)
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

    async fn answer_txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        validate::txn(&request, self.backend.config.txn_operations_max)?;
        let mut response = if revisions::is_read_only(&request) {
            self.read_txn(request).await?
        } else {
            match self.backend.execute(Command::Txn(request)).await? {
                Outcome::Txn(response) => response,
                _ => unreachable!("a transaction is answered by a transaction"),
            }
        };
        self.backend.fill(response.header.get_or_insert_default());
        self.backend.metrics.count_txn(&response);
        Ok(response)
    }

    async fn read_txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        if !revisions::is_serializable(&request) {
            self.backend.confirm_reads().await?;
        }
        self.backend
            .reader()
            .txn(&request)
            .map_err(|error| of_machine(&error))
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

fn read(backend: &Backend, request: &RangeRequest) -> Result<RangeResponse, Status> {
    backend
        .reader()
        .range(request)
        .map_err(|error| of_machine(&error))
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
        call.end(self.answer_range(request.into_inner()).await)
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
        call.end(self.answer_txn(request.into_inner()).await)
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Compact, request.metadata())?;
        call.end(self.answer_compact(request.into_inner()).await)
    }
}
