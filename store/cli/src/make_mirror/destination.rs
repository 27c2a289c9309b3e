//! Writes to the destination of a mirror, several in a transaction.

use bytes::Bytes;
use etcd_api::etcdserverpb::request_op::Request as Requested;
use etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};
use tokio::time::{Duration, sleep};
use tonic::Code;

use crate::client::{Connection, Endpoints};
use crate::failure::Failure;

/// A transaction with more bytes is not made larger: servers refuse 1.5 MiB by default.
const TXN_BYTES_MAX: usize = 1 << 20;
/// How often a write that found no server is made again.
const ATTEMPTS_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Writes that are collected, and the cluster that they go to.
pub(super) struct Destination {
    endpoints: Endpoints,
    connection: Option<Connection>,
    operations: Vec<RequestOp>,
    operations_max: usize,
    bytes: usize,
    written: u64,
}

impl Destination {
    pub(super) async fn open(
        endpoints: Endpoints,
        operations_max: usize,
    ) -> Result<Destination, Failure> {
        let connection = Some(endpoints.any().await?);
        Ok(Destination {
            endpoints,
            connection,
            operations: Vec::new(),
            operations_max,
            bytes: 0,
            written: 0,
        })
    }

    /// Number of changes that the destination has acknowledged.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) async fn put(&mut self, key: Bytes, value: Bytes) -> Result<(), Failure> {
        let bytes = key.len() + value.len();
        let put = PutRequest {
            key,
            value,
            ..PutRequest::default()
        };
        self.add(Requested::RequestPut(put), bytes).await
    }

    pub(super) async fn delete(&mut self, key: Bytes) -> Result<(), Failure> {
        let bytes = key.len();
        let deletion = DeleteRangeRequest {
            key,
            ..DeleteRangeRequest::default()
        };
        self.add(Requested::RequestDeleteRange(deletion), bytes)
            .await
    }

    async fn add(&mut self, request: Requested, bytes: usize) -> Result<(), Failure> {
        let is_full = self.operations.len() >= self.operations_max;
        if is_full || self.bytes + bytes > TXN_BYTES_MAX {
            self.flush().await?;
        }
        self.bytes += bytes;
        self.operations.push(RequestOp {
            request: Some(request),
        });
        Ok(())
    }

    /// Writes what is collected.
    pub(super) async fn flush(&mut self) -> Result<(), Failure> {
        if self.operations.is_empty() {
            return Ok(());
        }
        let number = self.operations.len() as u64;
        let message = TxnRequest {
            success: std::mem::take(&mut self.operations),
            ..TxnRequest::default()
        };
        self.bytes = 0;
        let mut attempts = 1;
        while let Err(failure) = self.attempt(&message).await? {
            if attempts == ATTEMPTS_MAX {
                return Err(failure);
            }
            attempts += 1;
            sleep(PAUSE).await;
        }
        self.written += number;
        Ok(())
    }

    /// Writes once. The inner failure may be gone at another attempt.
    async fn attempt(&mut self, message: &TxnRequest) -> Result<Result<(), Failure>, Failure> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => match self.endpoints.any().await {
                Ok(connection) => connection,
                Err(failure) => return Ok(Err(failure)),
            },
        };
        let send = async |request| connection.kv().txn(request).await;
        match connection.attempt(message.clone(), send).await {
            Err(failure) => Ok(Err(failure)),
            Ok(Ok(_)) => {
                self.connection = Some(connection);
                Ok(Ok(()))
            }
            Ok(Err(status)) if status.code() == Code::Unavailable => {
                Ok(Err(connection.refused(&status)))
            }
            Ok(Err(status)) => Err(connection.refused(&status)),
        }
    }
}
