//! The handle, and the thread behind it.

use std::sync::{Arc, Mutex, Weak};
use std::thread::{JoinHandle, ThreadId};

use bytes::Bytes;
use environment::randomness::Random;
use environment::threads;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle as Task;

use crate::greet::Identity;
use crate::keep::keep;
use crate::member::{Member, check_addresses};
use crate::shared::{Given, Shared};
use crate::{
    Dropped, Handler, Lane, MemberError, PeerStatus, PeersOptions, StartError, Stream, StreamError,
    accept, status, stream,
};

/// Name of the network thread.
const THREAD: &str = "peers";

/// Connections to the other members. Clones share them; the last one to be
/// dropped stops them.
#[derive(Clone)]
pub struct Peers {
    owner: Arc<Owner>,
}

/// The same, without keeping them up.
#[derive(Clone, Debug)]
pub struct WeakPeers {
    owner: Weak<Owner>,
}

impl WeakPeers {
    /// The connections, unless the last of their handles was dropped.
    pub fn upgrade(&self) -> Option<Peers> {
        let owner = self.owner.upgrade()?;
        Some(Peers { owner })
    }
}

struct Owner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    thread_id: ThreadId,
}

impl Peers {
    /// Starts the network thread, which listens from now on. The table of
    /// members is empty.
    pub fn start(options: PeersOptions, handler: Arc<dyn Handler>) -> Result<Peers, StartError> {
        options.check()?;
        let random = Random::from_system()?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // Only names of hosts are looked up there.
            .thread_name("peers-resolve")
            .max_blocking_threads(2)
            .build()?;
        let given = Given {
            identity: Identity {
                cluster: options.cluster_id,
                member: options.member_id,
            },
            release: options.release,
            agreement: options.agreement,
            addresses: options.addresses,
            secret: options.secret,
            limits: options.limits,
            clock: options.clock,
            handler,
        };
        let shared = Arc::new(Shared::new(given, runtime.handle().clone(), random));
        for listener in options.listen {
            let entered = runtime.enter();
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            drop(entered);
            runtime.spawn(accept::accept(Arc::clone(&shared), listener));
        }
        let thread = {
            let shared = Arc::clone(&shared);
            threads::spawn(THREAD, move || run(runtime, shared))?
        };
        let thread_id = thread.thread().id();
        Ok(Peers {
            owner: Arc::new(Owner {
                shared,
                thread: Mutex::new(Some(thread)),
                thread_id,
            }),
        })
    }

    /// A handle that does not keep the connections up: for what they own themselves.
    pub fn downgrade(&self) -> WeakPeers {
        WeakPeers {
            owner: Arc::downgrade(&self.owner),
        }
    }

    /// Takes a member into the table and connects to it, or gives it other addresses
    /// (`host:port`, tried in turn) for its next connection. A connection that works
    /// stays: a member whose new address is announced before it has moved there is
    /// reached at the old one. See [`Peers::moved`].
    pub fn set_member(&self, id: u64, addresses: Vec<String>) -> Result<(), MemberError> {
        let shared = &self.owner.shared;
        if id == shared.identity.member {
            return Err(MemberError::Own(id));
        }
        check_addresses(id, &addresses)?;
        let mut table = shared.write_table();
        if table.stopped {
            return Err(MemberError::Stopped);
        }
        if let Some(member) = table.members.get(&id) {
            member.addresses.send_if_modified(|known| {
                let changed = known[..] != addresses[..];
                *known = addresses.into();
                changed
            });
            return Ok(());
        }
        let member = Arc::new(Member::new(id, addresses, &shared.limits));
        for lane in Lane::KEPT {
            let keeper = keep(Arc::clone(shared), Arc::clone(&member), lane);
            member.adopt(shared.runtime.spawn(keeper).abort_handle());
        }
        let elder = table.members.insert(id, member);
        assert!(elder.is_none(), "its tasks would go on unseen");
        Ok(())
    }

    /// The member says that it listens at `addresses` from now on: connections to other
    /// addresses are given up at once, and not only when the system finds them broken.
    pub fn moved(&self, id: u64, addresses: &[String]) {
        if let Some(member) = self.owner.shared.member(id) {
            member.listens_at.send_replace(addresses.into());
        }
    }

    /// Takes a member out of the table: its lanes are closed.
    /// What it sends is still delivered; streams go on.
    pub fn remove_member(&self, id: u64) {
        let shared = &self.owner.shared;
        let member = shared.write_table().members.remove(&id);
        if let Some(member) = member {
            member.close();
        }
        shared.forget_received(id);
    }

    /// Ends the connections that came in from a member, but for its streams.
    /// It will come again, and meet [`Handler::is_removed`].
    pub fn turn_away(&self, id: u64) {
        let shared = &self.owner.shared;
        for lane in Lane::KEPT {
            if let Some(connection) = shared.incoming().get(&(id, lane)) {
                connection.notify_one();
            }
        }
    }

    /// What is known of a member of the table.
    pub fn status(&self, id: u64) -> Option<PeerStatus> {
        let shared = &self.owner.shared;
        let member = shared.member(id)?;
        Some(status::status(shared, &member))
    }

    /// Queues a message whose payload is `parts`, end to end, on the Urgent or
    /// the Bulk lane. Never waits. Messages of a lane arrive in their order,
    /// but any of them may be lost, and nobody tells: what matters is repeated
    /// by the caller.
    ///
    /// # Panics
    ///
    /// For the other lanes, which carry no messages.
    pub fn send(&self, to: u64, lane: Lane, kind: u8, parts: &[Bytes]) -> Result<(), Dropped> {
        let shared = &self.owner.shared;
        let bytes_max = shared.limits.payload_bytes_max;
        let bytes = parts.iter().map(Bytes::len).sum();
        if bytes > bytes_max {
            return Err(Dropped::TooLong { bytes, bytes_max });
        }
        let now = shared.clock.now();
        let table = shared.read_table();
        let Some(member) = table.members.get(&to) else {
            return Err(match table.stopped {
                true => Dropped::Unreachable,
                false => Dropped::UnknownMember(to),
            });
        };
        let lane = member.message_lane(lane);
        if lane.push(kind, parts, now)? {
            shared.doorbell.ring(&lane.bell);
        }
        Ok(())
    }

    /// Opens a stream to a member, on a connection of its own. Usable under
    /// any executor.
    pub async fn open_stream(
        &self,
        to: u64,
        kind: u8,
        header: Bytes,
    ) -> Result<Stream, StreamError> {
        let shared = &self.owner.shared;
        let bytes_max = shared.limits.payload_bytes_max;
        if header.len() > bytes_max {
            return Err(StreamError::TooLong {
                bytes: header.len(),
                bytes_max,
            });
        }
        let member = shared.member(to).ok_or_else(|| self.no_stream(to))?;
        let open = stream::open(Arc::clone(shared), member, kind, header);
        let mut open = AbortOnDrop(shared.runtime.spawn(open));
        // An error is the end of the runtime, or a panic of ours.
        (&mut open.0).await.unwrap_or(Err(StreamError::Stopped))
    }

    fn no_stream(&self, member: u64) -> StreamError {
        match self.owner.shared.is_stopped() {
            true => StreamError::Stopped,
            false => StreamError::UnknownMember(member),
        }
    }

    /// Runs `guest` on the network thread, where what comes in wakes nobody else and
    /// what it sends needs no wake-up to get out. While it works nothing else does there.
    /// It is dropped when the connections are stopped.
    pub fn run_beside(&self, guest: impl Future<Output = ()> + Send + 'static) {
        self.owner.shared.runtime.spawn(guest);
    }

    /// Closes all connections and ends the thread. Streams end with an error. On the network thread itself, it ends soon after.
    pub fn stop(&self) {
        self.owner.stop();
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Owner").finish_non_exhaustive()
    }
}

/// Nobody waits for the task any more.
struct AbortOnDrop<T>(Task<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Owner {
    fn stop(&self) {
        let members = {
            let mut table = self.shared.write_table();
            table.stopped = true;
            std::mem::take(&mut table.members)
        };
        members.values().for_each(|member| member.close());
        self.shared.stopping.send_replace(true);
        if std::thread::current().id() == self.thread_id {
            return;
        }
        // Held while joining: whoever else stops waits as well.
        let mut thread = self
            .thread
            .lock()
            .expect("nobody panics with this lock held");
        if let Some(thread) = thread.take() {
            thread
                .join()
                .expect("the network thread catches panics of handlers");
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The network thread.
fn run(runtime: Runtime, shared: Arc<Shared>) {
    let mut stopping = shared.stopping.subscribe();
    // A task: waking what a runtime is blocked on costs a system call, even on its
    // own thread.
    runtime.spawn(answer_the_door(shared));
    // An error is the end of whoever could stop it.
    let _ = runtime.block_on(stopping.wait_for(|stopping| *stopping));
    // Drops all tasks and with them their sockets; does not wait for names
    // that are being looked up.
    runtime.shutdown_background();
}

/// Wakes the lanes that were rung, for ever.
async fn answer_the_door(shared: Arc<Shared>) {
    loop {
        shared.doorbell.rung().await;
        let table = shared.read_table();
        table
            .members
            .values()
            .for_each(|member| member.pass_on_bells());
    }
}
