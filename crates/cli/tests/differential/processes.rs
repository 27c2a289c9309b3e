//! Both servers as child processes on free ports, ended when dropped.
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts processes and looks for files"
)]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

/// A running server with its own directory.
pub struct Server {
    child: Child,
    address: String,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Connects, waiting for the server to listen.
    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.address.clone()).expect("a valid address");
        for _ in 0..300 {
            if let Ok(channel) = endpoint.connect().await {
                return channel;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("nothing listens at {} after 30 seconds", self.address);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number from the environment.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
    )
}

/// Where etcd is, if anywhere: `INKSTONE_ETCD`, or what `cargo xtask etcd` built.
pub fn etcd_binary() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("INKSTONE_ETCD") {
        return Some(PathBuf::from(named));
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = workspace.join("target/etcd/bin/etcd");
    built.exists().then_some(built)
}

pub fn start_etcd(binary: &Path) -> Server {
    start(Command::new(binary))
}

pub fn start_inkstone() -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inkstone"));
    command.arg("serve");
    start(command)
}

fn start(mut command: Command) -> Server {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (client, peer) = (free_port(), free_port());
    let address = format!("http://127.0.0.1:{client}");
    let peer = format!("http://127.0.0.1:{peer}");
    let child = command
        .arg("--name=differential")
        .arg(format!(
            "--data-dir={}",
            directory.path().join("data").display()
        ))
        .arg(format!("--listen-client-urls={address}"))
        .arg(format!("--advertise-client-urls={address}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=differential={peer}"))
        .arg("--log-level=error")
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the server starts");
    Server {
        child,
        address,
        _directory: directory,
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}
