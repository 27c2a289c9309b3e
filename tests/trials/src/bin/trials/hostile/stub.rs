//! A process that poses as a learner: it lets the members in, and keeps their frames.

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::process::Outcome;
use trials::peer_wire as wire;

/// Number of newest frames that are kept.
const FRAMES_MAX: usize = 2_000;
/// Longest frame that is kept.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// The stub; its threads end with the process.
#[derive(Clone)]
pub struct Stub(Arc<Inside>);

struct Inside {
    port: u16,
    /// Cluster and own id, once they are known.
    ids: OnceLock<(u64, u64)>,
    frames: Mutex<VecDeque<(u8, Vec<u8>)>>,
}

impl Stub {
    pub fn listen() -> Outcome<Stub> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stub = Stub(Arc::new(Inside {
            port: listener.local_addr()?.port(),
            ids: OnceLock::new(),
            frames: Mutex::default(),
        }));
        let here = stub.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let here = here.clone();
                std::thread::spawn(move || here.take(socket));
            }
        });
        Ok(stub)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.0.port)
    }

    /// Lets members in from now on.
    pub fn serve_as(&self, cluster: u64, member: u64) {
        let first = self.0.ids.set((cluster, member));
        assert!(first.is_ok(), "a stub is one member");
    }

    /// Its id in the cluster.
    pub fn member(&self) -> u64 {
        self.0.ids.get().map_or(0, |(_, member)| *member)
    }

    /// One of the frames that members have sent.
    pub fn frame(&self, at: u64) -> Option<(u8, Vec<u8>)> {
        let frames = self.0.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let count = frames.len().max(1);
        frames.get(at as usize % count).cloned()
    }

    fn take(&self, mut socket: TcpStream) {
        let Some(&(cluster, member)) = self.0.ids.get() else {
            return;
        };
        if wire::read_greeting(&mut socket).is_err() {
            return;
        }
        let welcome = wire::welcome(cluster, member);
        if std::io::Write::write_all(&mut socket, &welcome).is_err() {
            return;
        }
        while let Ok((kind, payload)) = wire::read_frame(&mut socket) {
            if payload.len() > FRAME_BYTES_MAX {
                continue;
            }
            let mut frames = self.0.frames.lock().unwrap_or_else(PoisonError::into_inner);
            frames.push_back((kind, payload));
            if frames.len() > FRAMES_MAX {
                frames.pop_front();
            }
        }
    }
}
