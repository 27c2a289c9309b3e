//! What the process owes to whoever watches over it.
//!
//! systemd's `Type=notify`, which etcd's units use, waits for a word that the
//! server is ready. And a process whose invariants are broken must end, so
//! that it is started again and recovers: a panic anywhere but in a single
//! request's task is the end, as every acknowledged write is on the device.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::panic::PanicHookInfo;

use tracing::{error, warn};

/// Tells systemd, if it is there, that clients can come.
pub(crate) fn notify_ready() {
    let Some(socket) = std::env::var("NOTIFY_SOCKET")
        .ok()
        .filter(|socket| !socket.is_empty())
    else {
        return;
    };
    if let Err(error) = send_ready(&socket) {
        warn!(%error, socket, "cannot tell systemd that the server is ready");
    }
}

/// A name that begins with `@` is in Linux's abstract space.
fn send_ready(socket: &str) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(b"READY=1", &address)
        .map(drop)
}

/// From now on a panic is logged, and ends the process unless it concerns one
/// request only.
pub(crate) fn end_on_broken_invariants() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("?");
        error!(
            thread,
            location = place(panic),
            reason = reason(panic),
            "broken invariant"
        );
        if !serves_requests(thread) {
            std::process::abort();
        }
    }));
}

/// Tasks of these threads are isolated from each other by the runtime.
fn serves_requests(thread: &str) -> bool {
    thread.starts_with("serve-") || thread.starts_with("tokio-")
}

fn place(panic: &PanicHookInfo<'_>) -> String {
    panic
        .location()
        .map_or_else(|| "?".to_owned(), ToString::to_string)
}

fn reason(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let fixed = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    fixed
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_told_over_a_path_and_over_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let abstract_name = format!("inkstone-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (socket, name) in [
            (
                UnixDatagram::bind(&path).unwrap(),
                path.to_str().unwrap().to_owned(),
            ),
            (
                UnixDatagram::bind_addr(&abstract_address).unwrap(),
                format!("@{abstract_name}"),
            ),
        ] {
            send_ready(&name).unwrap();
            let mut word = [0; 16];
            let length = socket.recv(&mut word).unwrap();
            assert_eq!(&word[..length], b"READY=1");
        }
    }

    #[test]
    fn only_requests_are_isolated() {
        assert!(serves_requests("serve-0") && serves_requests("tokio-rt-worker"));
        assert!(!serves_requests("replica") && !serves_requests("log-flush"));
    }
}
