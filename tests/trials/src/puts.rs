//! Clients that put; each waits for an answer before its next put.

use bytes::Bytes;
use etcd_api::etcdserverpb::{PutRequest, kv_client::KvClient};
use tonic::transport::Channel;

use crate::process::Outcome;

/// `total` puts of distinct keys, shared among `clients`.
pub async fn puts(url: &str, clients: u64, total: u64, value_bytes: usize) -> Outcome {
    let channel = Channel::from_shared(url.to_owned())?.connect().await?;
    let value = Bytes::from(vec![b'i'; value_bytes]);
    let clients: Vec<_> = (0..clients)
        .map(|client| {
            let numbers = (client..total).step_by(clients as usize);
            tokio::spawn(puts_of_one(channel.clone(), numbers, value.clone()))
        })
        .collect();
    for client in clients {
        client.await??;
    }
    Ok(())
}

async fn puts_of_one(
    channel: Channel,
    numbers: impl Iterator<Item = u64>,
    value: Bytes,
) -> Outcome {
    let mut client = KvClient::new(channel);
    for number in numbers {
        let request = PutRequest {
            key: key(number).into(),
            value: value.clone(),
            ..PutRequest::default()
        };
        client.put(request).await?;
    }
    Ok(())
}

/// The key that holds the put with this number.
pub fn key(number: u64) -> String {
    format!("put/{number:010}")
}
