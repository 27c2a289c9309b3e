//! A client that keeps its connection.

use std::time::Duration;

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use harness::wait_for;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use trials::Outcome;
use trials::secure::Way;

use crate::secure::{Certificates, Server};

/// Long enough for a machine under load; it decides no test.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// One connection with the certificate of a client.
pub struct Connected {
    runtime: Runtime,
    channel: Channel,
    puts: u64,
}

impl Connected {
    /// Connects, and puts once: the server refuses a certificate after the client's handshake.
    pub fn new(certificates: &Certificates, server: &Server, client: &str) -> Outcome<Connected> {
        let address = server.member.client_address();
        let way = Way::new(address, certificates.place(), client)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let channel = runtime.block_on(way.channel(None))?;
        let mut connected = Connected {
            runtime,
            channel,
            puts: 0,
        };
        connected.put()?;
        Ok(connected)
    }

    fn put(&mut self) -> Outcome {
        self.puts += 1;
        let value = self.puts.to_string();
        let mut client = KvClient::new(self.channel.clone());
        self.runtime.block_on(async {
            let put = PutRequest {
                key: "connected".into(),
                value: value.clone().into(),
                ..PutRequest::default()
            };
            client.put(put).await?;
            let range = RangeRequest {
                key: "connected".into(),
                ..RangeRequest::default()
            };
            let answer = client.range(range).await?.into_inner();
            let found = answer.kvs.first().map(|entry| entry.value().to_vec());
            match found == Some(value.into_bytes()) {
                true => Ok(()),
                false => Err(format!("{found:?} was read").into()),
            }
        })
    }

    /// Puts and gets. A lost connection fails if a new one with the same certificate would be
    /// refused.
    pub fn works(&mut self) {
        self.put().unwrap();
    }
}

/// Whether a new connection with this certificate is served.
pub fn is_served(certificates: &Certificates, server: &Server, client: &str) -> bool {
    Connected::new(certificates, server, client).is_ok()
}

/// Waits until a new connection with this certificate is refused.
pub fn wait_until_refused(certificates: &Certificates, server: &Server, client: &str) {
    let refused = || Ok((!is_served(certificates, server, client)).then_some(()));
    wait_for("a new connection is refused", PATIENCE, refused).unwrap();
}

/// The only line of the server's log that contains `text`, which must contain each of `parts`.
pub fn only_line(server: &mut Server, text: &str, parts: &[&str]) {
    server
        .member
        .process()
        .unwrap()
        .wait_for_line(text)
        .unwrap();
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(text)).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for part in parts {
        assert!(lines[0].contains(part), "{part} in {}", lines[0]);
    }
}
