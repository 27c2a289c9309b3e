//! One client, which writes without a pause until the server is killed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RequestOp, ResponseHeader, TxnRequest, kv_client::KvClient,
    request_op::Request,
};
use tonic::{Status, transport::Channel};

use super::model::{self, Model, Operation};
use crate::process::Outcome;

/// Writes until `killed`; a refused write before that fails the test.
pub async fn run(
    url: String,
    mut model: Model,
    seed: u64,
    killed: Arc<AtomicBool>,
) -> Outcome<Model> {
    let mut random = Random::from_seed(seed);
    let mut client = match KvClient::connect(url).await {
        Ok(client) => client,
        Err(_) if killed.load(Ordering::SeqCst) => return Ok(model),
        Err(error) => return Err(error.into()),
    };
    loop {
        let operation = model.begin(&mut random);
        match send(&mut client, operation).await {
            Ok(header) => model.acknowledge(header.revision),
            Err(_) if killed.load(Ordering::SeqCst) => return Ok(model),
            Err(status) => return Err(format!("refused while alive: {status}").into()),
        }
    }
}

/// Sends the request for one operation: put, delete or transaction.
pub async fn send(
    client: &mut KvClient<Channel>,
    operation: Operation,
) -> Result<ResponseHeader, Status> {
    let mut requests: Vec<Request> = operation.effects.into_iter().map(request).collect();
    let header = match (requests.pop(), requests.is_empty()) {
        (Some(Request::RequestPut(put)), true) => client.put(put).await?.into_inner().header,
        (Some(Request::RequestDeleteRange(delete)), true) => {
            client.delete_range(delete).await?.into_inner().header
        }
        (last, _) => {
            requests.extend(last);
            let success = requests.into_iter().map(|request| RequestOp {
                request: Some(request),
            });
            let txn = TxnRequest {
                success: success.collect(),
                ..TxnRequest::default()
            };
            client.txn(txn).await?.into_inner().header
        }
    };
    header.ok_or_else(|| Status::data_loss("an answer without a header"))
}

fn request((key, effect): (Bytes, Option<u64>)) -> Request {
    match effect {
        Some(counter) => Request::RequestPut(PutRequest {
            key,
            value: model::value(counter),
            ..PutRequest::default()
        }),
        None => Request::RequestDeleteRange(DeleteRangeRequest {
            key,
            ..DeleteRangeRequest::default()
        }),
    }
}
