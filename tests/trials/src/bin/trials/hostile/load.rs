//! Puts that are counted when they are answered, and checked at the end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};

use super::Counts;
use crate::process::Outcome;
use crate::servers::Servers;

/// Number of keys, which are put in turn, so that the last value of each is known.
const KEYS: u64 = 1000;
const PREFIX: &str = "asked/";

fn key(number: u64) -> String {
    format!("{PREFIX}{:04}", number % KEYS)
}

/// Puts until the end of the scene; a failed put is repeated for a while.
pub fn put_until_over(url: &str, counts: &Counts) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime
        .block_on(put_all(url, counts))
        .map_err(|error| error.to_string())
}

async fn put_all(url: &str, counts: &Counts) -> Outcome {
    let mut kv = KvClient::connect(url.to_owned()).await?;
    let mut failures = 0;
    while !counts.over.load(Ordering::Relaxed) {
        let number = counts.puts.load(Ordering::Relaxed);
        let request = PutRequest {
            key: key(number).into(),
            value: number.to_string().into(),
            ..PutRequest::default()
        };
        match kv.put(request).await {
            Ok(_) => {
                counts.puts.fetch_add(1, Ordering::Relaxed);
                failures = 0;
            }
            Err(status) if failures > 100 => return Err(status.into()),
            Err(_) => {
                failures += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    Ok(())
}

/// Checks that every answered put is at every member, and that there is no other key.
pub async fn check(servers: &Servers, puts: u64) -> Outcome {
    for server in &servers.cluster.members {
        let mut kv = KvClient::connect(server.client_url()).await?;
        let everything = RangeRequest {
            key: b"\0".to_vec().into(),
            range_end: b"\0".to_vec().into(),
            ..RangeRequest::default()
        };
        let found = kv.range(everything).await?.into_inner().kvs;
        let expected = puts.min(KEYS);
        // The put in progress at the end may have been carried out.
        if found.len() as u64 != expected && found.len() as u64 != expected + 1 {
            return Err(format!("{} keys, {expected} were put", found.len()).into());
        }
        for kv in found {
            let name = String::from_utf8_lossy(kv.key()).into_owned();
            let value = String::from_utf8_lossy(kv.value()).into_owned();
            let number: u64 = value.parse().map_err(|_| format!("{name} has {value}"))?;
            let newest = (0..=puts).rev().find(|it| key(*it) == name);
            let is_last = newest.is_some_and(|newest| {
                number == newest || (newest == puts && number + KEYS == puts)
            });
            if !is_last {
                return Err(format!("{name} has {value}, {newest:?} was put last").into());
            }
        }
    }
    Ok(())
}
