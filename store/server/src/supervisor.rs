//! The process seen by its supervisor (systemd, a container runtime): readiness and crashes.
//!
//! systemd's `Type=notify`, which etcd's units use, waits until the server reports that it
//! is ready. A process with a broken invariant must end, so that its supervisor starts it
//! again and it recovers from the log: a panic ends the process, unless it happens in the
//! task of a single request. Every acknowledged write is on the device by then.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::{error, warn};

/// Reports to systemd, if it started this process, that the server accepts clients.
pub(crate) fn notify_ready() {
    notify("READY=1");
}

/// Reports to systemd that the server shuts down, so that it counts as stopping until it ends.
pub(crate) fn notify_stopping() {
    notify("STOPPING=1");
}

fn notify(state: &str) {
    let socket = std::env::var("NOTIFY_SOCKET").unwrap_or_default();
    if socket.is_empty() {
        return;
    }
    if let Err(error) = send(&socket, state) {
        warn!(%error, socket, state, "cannot report the server's state to systemd");
    }
}

/// A socket name that begins with `@` is in Linux's abstract namespace.
fn send(socket: &str, state: &str) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(state.as_bytes(), &address)
        .map(drop)
}

/// Installs a panic hook that logs the panic and ends the process, unless the panic
/// concerns one request only.
pub(crate) fn end_on_broken_invariants() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("?");
        error!(
            thread,
            location = panic.location().map(ToString::to_string),
            reason = panic.payload_as_str().unwrap_or_default(),
            "broken invariant"
        );
        if !serves_requests(thread) {
            std::process::abort();
        }
    }));
}

/// Whether the thread runs request tasks. The runtime catches a panic of such a task.
fn serves_requests(thread: &str) -> bool {
    thread.starts_with("serve-") || thread.starts_with("tokio-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_announced_over_a_path_and_over_an_abstract_name() {
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
            send(&name, "READY=1").unwrap();
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
