//! A server for one test, and clients for it.

use std::path::Path;

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::{
    PutRequest, RangeRequest, WatchCreateRequest, WatchRequest, watch_request,
};
use server::Server;
use server::config::{Config, Request, Surroundings, resolve};
use tempfile::TempDir;
use tonic::transport::Channel;

/// A running server.
pub struct Serving {
    server: Option<Server>,
    /// `http://127.0.0.1:port`.
    pub endpoint: String,
    directory: TempDir,
    words: Vec<String>,
}

/// The error of a server that cannot start with these flags.
pub fn refusal(words: &[&str]) -> String {
    let serving = stopped(words);
    Server::start(serving.config()).unwrap_err().to_string()
}

/// Starts a server with these flags and the necessary ones.
pub fn serving(words: &[&str]) -> Serving {
    let mut serving = stopped(words);
    serving.start();
    serving
}

fn stopped(words: &[&str]) -> Serving {
    Serving {
        server: None,
        endpoint: String::new(),
        directory: tempfile::tempdir().unwrap(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
    }
}

impl Serving {
    /// Starts the server, also again after a stop.
    pub fn start(&mut self) {
        let server = Server::start(self.config()).unwrap();
        if let Some(address) = server.client_addresses().first() {
            self.endpoint = format!("http://{address}");
        }
        self.server = Some(server);
    }

    /// Stops, and starts with other flags.
    pub fn restart_with(&mut self, words: &[&str]) {
        self.stop();
        self.words = words.iter().map(|word| (*word).to_owned()).collect();
        self.start();
    }

    fn config(&self) -> Config {
        let data = format!(
            "--data-dir={}",
            self.directory.path().join("data").display()
        );
        let mut words = vec![
            data,
            // Made at every start: small, so that tests do not wait for it.
            "--segment-bytes=8388608".to_owned(),
            "--warning-long-turn-duration=5ms".to_owned(),
            "--listen-client-urls=http://127.0.0.1:0".to_owned(),
            "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
        ];
        words.extend(self.words.iter().cloned());
        let read_file = |_: &Path| Err("no files here".to_owned());
        let surroundings = Surroundings {
            variables: &[],
            read_file: &read_file,
        };
        match resolve(&words, &surroundings).unwrap() {
            Request::Serve(config) => *config,
            other => panic!("expected a configuration, got {other:?}"),
        }
    }

    pub fn stop(&mut self) {
        self.server.take().expect("it runs").stop();
    }

    /// A directory for files of the test.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A connection.
    pub async fn channel(&self) -> Channel {
        Channel::from_shared(self.endpoint.clone())
            .unwrap()
            .connect()
            .await
            .unwrap()
    }

    /// A client of the service KV.
    pub async fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel().await)
    }
}

pub fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: bytes(key),
        value: bytes(value),
        ..PutRequest::default()
    }
}

/// A range of one key.
pub fn get(key: &str) -> RangeRequest {
    RangeRequest {
        key: bytes(key),
        ..RangeRequest::default()
    }
}

/// All keys that begin with a prefix of one letter.
pub fn get_prefix(prefix: char) -> RangeRequest {
    let end = char::from_u32(u32::from(prefix) + 1).unwrap();
    RangeRequest {
        range_end: bytes(&end.to_string()),
        ..get(&prefix.to_string())
    }
}

/// The creation of a watch of one key.
pub fn create_watch(key: &str) -> WatchRequest {
    let create = WatchCreateRequest {
        key: bytes(key),
        ..WatchCreateRequest::default()
    };
    WatchRequest {
        request_union: Some(watch_request::RequestUnion::CreateRequest(create)),
    }
}

/// Text as bytes.
pub fn bytes(text: &str) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(text.as_bytes())
}
