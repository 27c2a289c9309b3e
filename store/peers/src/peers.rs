//! The handle [`Peers`] and the network thread.

use std::sync::{Arc, Mutex, Weak};
use std::thread::{JoinHandle, ThreadId};

use bytes::Bytes;
use environment::randomness::Random;
use environment::threads;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::keep::keep;
use crate::lock::lock;
use crate::member::{Member, check_addresses};
use crate::shared::Shared;
use crate::{
    Dropped, Handler, Lane, MemberError, PeerStatus, PeersOptions, StartError, Stream, StreamError,
    accept, open_stream, status,
};

/// Name of the network thread.
const THREAD: &str = "peers";

/// Connections to the other members. Clones share them; the last one to be
/// dropped stops them.
#[derive(Clone)]
pub struct Peers {
    owner: Arc<Owner>,
}

/// A handle that does not keep the connections up.
#[derive(Clone)]
pub struct WeakPeers {
    owner: Weak<Owner>,
}

impl WeakPeers {
    /// Returns a [`Peers`] handle, or `None` after the last one was dropped.
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
    /// Starts the network thread, which listens from then on. The table of
    /// members is empty at first.
    pub fn start(
        mut options: PeersOptions,
        handler: Arc<dyn Handler>,
    ) -> Result<Peers, StartError> {
        options.check()?;
        let random = Random::from_system()?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // Blocking threads only look up the names of hosts.
            .thread_name("peers-resolve")
            .max_blocking_threads(2)
            .build()?;
        let listeners = std::mem::take(&mut options.listen);
        let shared = Shared::new(options, handler, random, runtime.handle().clone());
        let shared = Arc::new(shared);
        for listener in listeners {
            let entered = runtime.enter();
            let accepts = listener.accepts;
            listener.socket.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener.socket)?;
            drop(entered);
            runtime.spawn(accept::accept(Arc::clone(&shared), listener, accepts));
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

    /// A handle that does not keep the connections up, for a handler or task that the
    /// connections own.
    pub fn downgrade(&self) -> WeakPeers {
        WeakPeers {
            owner: Arc::downgrade(&self.owner),
        }
    }

    /// Adds a member to the table and connects to it. For a member of the table, replaces
    /// its addresses (`host:port` or `https://host:port`, tried in turn) for the next connection; a working
    /// connection stays, because a new address may be announced before the member has moved
    /// there. See [`Peers::moved`].
    pub fn set_member(&self, id: u64, addresses: Vec<String>) -> Result<(), MemberError> {
        let shared = &self.owner.shared;
        if id == shared.options.member_id {
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
        let member = Arc::new(Member::new(id, addresses, &shared.options.limits));
        for lane in Lane::KEPT {
            let keeper = keep(Arc::clone(shared), Arc::clone(&member), lane);
            member.adopt(shared.runtime.spawn(keeper).abort_handle());
        }
        let elder = table.members.insert(id, member);
        assert!(
            elder.is_none(),
            "the tasks of a replaced member would never be aborted"
        );
        Ok(())
    }

    /// Closes connections to addresses of the member that are not in `addresses`, where the
    /// member says that it listens now. Without this call, such a connection stays until the
    /// system finds it broken.
    pub fn moved(&self, id: u64, addresses: &[String]) {
        if let Some(member) = self.owner.shared.member(id) {
            member.listens_at.send_replace(addresses.into());
        }
    }

    /// Removes a member from the table and closes the lanes to it. Messages that it sends
    /// are still delivered, and its streams stay open.
    pub fn remove_member(&self, id: u64) {
        let shared = &self.owner.shared;
        let member = shared.write_table().members.remove(&id);
        if let Some(member) = member {
            member.close();
        }
        shared.forget_received(id);
    }

    /// Closes the incoming connections of a member, except its streams. The member will
    /// dial again, and then [`Handler::is_removed`] decides.
    pub fn disconnect(&self, id: u64) {
        let shared = &self.owner.shared;
        for lane in Lane::KEPT {
            if let Some(connection) = shared.senders.incoming().get(&(id, lane)) {
                connection.notify_one();
            }
        }
    }

    /// The status of a member; `None` if the table has no such member.
    pub fn status(&self, id: u64) -> Option<PeerStatus> {
        let shared = &self.owner.shared;
        let member = shared.member(id)?;
        Some(status::status(shared, &member))
    }

    /// Queues a message with `parts`, end to end, as its payload, on the Urgent or
    /// the Bulk lane. Never waits. Messages of a lane arrive in their order,
    /// but any of them may be lost without a notice: the caller repeats what matters.
    ///
    /// # Panics
    ///
    /// If `lane` is not Urgent or Bulk: the other lanes carry no messages.
    pub fn send(&self, to: u64, lane: Lane, kind: u8, parts: &[Bytes]) -> Result<(), Dropped> {
        let shared = &self.owner.shared;
        let bytes_max = shared.options.limits.payload_bytes_max;
        let bytes = parts.iter().map(Bytes::len).sum();
        if bytes > bytes_max {
            return Err(Dropped::TooLong { bytes, bytes_max });
        }
        let now = shared.now();
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

    /// Opens a stream to a member, on its own connection. Works under any executor.
    pub async fn open_stream(
        &self,
        to: u64,
        kind: u8,
        header: Bytes,
    ) -> Result<Stream, StreamError> {
        let shared = &self.owner.shared;
        let bytes_max = shared.options.limits.payload_bytes_max;
        if header.len() > bytes_max {
            return Err(StreamError::TooLong {
                bytes: header.len(),
                bytes_max,
            });
        }
        let member = shared.member(to).ok_or_else(|| self.no_stream(to))?;
        let open = open_stream::open(Arc::clone(shared), member, kind, header);
        // Dropping the set aborts the task.
        let mut opening = JoinSet::new();
        opening.spawn_on(open, &shared.runtime);
        // The task fails if the runtime has ended, or if `open_stream::open` panicked.
        match opening.join_next().await {
            Some(Ok(opened)) => opened,
            _ => Err(StreamError::Stopped),
        }
    }

    fn no_stream(&self, member: u64) -> StreamError {
        match self.owner.shared.is_stopped() {
            true => StreamError::Stopped,
            false => StreamError::UnknownMember(member),
        }
    }

    /// Runs `task` on the network thread, where it reacts to received messages without
    /// waking another thread, and its sends need no wake-up either. Other tasks of the
    /// thread wait while `task` is polled. It is dropped when the connections are stopped.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.owner.shared.runtime.spawn(task);
    }

    /// Closes all connections and waits until the network thread has ended. Streams end
    /// with an error. A call on the network thread itself does not wait.
    pub fn stop(&self) {
        self.owner.stop();
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
        // The lock is held while joining, so that concurrent calls of `stop` wait as well.
        if let Some(thread) = lock(&self.thread).take() {
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

/// The body of the network thread.
fn run(runtime: Runtime, shared: Arc<Shared>) {
    let mut stopping = shared.stopping.subscribe();
    // The doorbell is a task of its own: waking the future that `block_on` runs costs a
    // system call, even from the same thread.
    runtime.spawn(answer_the_door(shared));
    // An error means that the sender of `stopping` is gone.
    let _ = runtime.block_on(stopping.wait_for(|stopping| *stopping));
    // Drops all tasks with their sockets, and does not wait for look-ups of names.
    runtime.shutdown_background();
}

/// Wakes the tasks of lanes that have new messages, until it is aborted.
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
