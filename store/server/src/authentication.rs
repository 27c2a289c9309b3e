//! The work that users cause: passwords are hashed and compared here, and tokens renewed.
//!
//! ```text
//!   connection a ── 1 2 3 ──┐
//!   connection b ── 1 ──────┼──► in turns ──► few threads, which yield to all others ──► answers
//!   connection c ── 1 2 ────┘
//! ```
//!
//! bcrypt takes some 50 ms of a core. It never runs on a thread that serves sockets, the number
//! of its threads is bounded, and they have the lowest priority. Connections take turns, so a
//! client that asks for very much waits for itself; what exceeds the queue is refused at once.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex};

use auth::{AuthRequest, RenewRequest};
use environment::threads;
use revisions::Command;
use tokio::sync::oneshot;
use tonic::Status;
use tracing::warn;

use crate::backend::Backend;
use crate::client::Client;
use crate::lock;
use crate::tokens::Renewal;

/// Most jobs that wait, of all connections and of one.
const JOBS_MAX: usize = 16 << 10;
const JOBS_OF_CONNECTION_MAX: usize = 64;
/// Most renewals under way.
const RENEWALS_MAX: usize = 1024;

/// Hashing threads, and the renewals under way.
#[derive(Debug, Default)]
pub(crate) struct Authentication {
    hashing: Arc<Hashing>,
    are_started: Mutex<bool>,
    renewing: Mutex<HashSet<u64>>,
}

#[derive(Debug, Default)]
struct Hashing {
    queue: Mutex<Queue>,
    changed: Condvar,
}

type Job = Box<dyn FnOnce() + Send>;

/// The jobs of all connections, the next one in front.
#[derive(Default)]
struct Queue {
    turns: VecDeque<(usize, VecDeque<Job>)>,
    jobs: usize,
    stops: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Queue");
        shown.field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

impl Authentication {
    /// Runs `work` on a hashing thread, in turns with the jobs of other connections. A job is
    /// skipped if its caller has left.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        client: &Arc<Client>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.start().map_err(|error| {
            Status::unavailable(format!("inkstone: no thread for passwords: {error}"))
        })?;
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            if !answer.is_closed() {
                // The caller may leave at any time.
                let _ = answer.send(work());
            }
        });
        if !lock(&self.hashing.queue).push(Arc::as_ptr(client) as usize, job) {
            return Err(etcd_api::Error::TooManyRequests.to_status());
        }
        self.hashing.changed.notify_one();
        let broken = |_| Status::internal("inkstone: hashing a password broke an invariant");
        answered.await.map_err(broken)
    }

    /// Starts the threads with the first job.
    fn start(&self) -> std::io::Result<()> {
        let mut are_started = lock(&self.are_started);
        if *are_started {
            return Ok(());
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.div_ceil(2) {
            let hashing = Arc::clone(&self.hashing);
            let body = move || {
                threads::yield_to_all_others();
                hashing.work();
            };
            threads::spawn(&format!("password-{number}"), body)?;
        }
        *are_started = true;
        Ok(())
    }

    /// Makes a token live on, in the background. If that fails, the next use of the token tries
    /// again.
    pub(crate) fn renew(&self, backend: &Arc<Backend>, renewal: Renewal) {
        let mut renewing = lock(&self.renewing);
        if renewing.len() >= RENEWALS_MAX || !renewing.insert(renewal.number) {
            return;
        }
        drop(renewing);
        let backend = Arc::clone(backend);
        tokio::spawn(async move {
            let renew = AuthRequest::Renew(RenewRequest {
                token: renewal.number,
                until: renewal.until,
                now: renewal.now,
            });
            let command = backend
                .reader()
                .users()
                .own_command(Command::Auth(renew.into()));
            if let Err(error) = backend.node.execute(command).await {
                warn!(%error, "cannot renew a token; its next use tries again");
            }
            lock(&backend.authentication.renewing).remove(&renewal.number);
        });
    }
}

/// Ends the threads after their present jobs, without a wait: a hash may take days if its cost was
/// chosen so.
impl Drop for Authentication {
    fn drop(&mut self) {
        lock(&self.hashing.queue).stops = true;
        self.hashing.changed.notify_all();
    }
}

impl Hashing {
    fn work(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let job = loop {
                if queue.stops {
                    return;
                }
                if let Some(job) = queue.pop() {
                    break job;
                }
                let woken = self.changed.wait(queue);
                queue = woken.unwrap_or_else(std::sync::PoisonError::into_inner);
            };
            drop(queue);
            job();
        }
    }
}

impl Queue {
    /// Adds a job of a connection; false if there are too many.
    fn push(&mut self, connection: usize, job: Job) -> bool {
        if self.jobs >= JOBS_MAX {
            return false;
        }
        let own = self.turns.iter_mut().find(|(key, _)| *key == connection);
        match own {
            Some((_, jobs)) if jobs.len() >= JOBS_OF_CONNECTION_MAX => return false,
            Some((_, jobs)) => jobs.push_back(job),
            None => self.turns.push_back((connection, VecDeque::from([job]))),
        }
        self.jobs += 1;
        true
    }

    /// Takes the next job; its connection has its next turn after all others.
    fn pop(&mut self) -> Option<Job> {
        let (connection, mut jobs) = self.turns.pop_front()?;
        let job = jobs
            .pop_front()
            .expect("a connection without jobs has no turn");
        if !jobs.is_empty() {
            self.turns.push_back((connection, jobs));
        }
        self.jobs -= 1;
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The order in which jobs of these connections are done.
    fn order(jobs: &[(usize, &'static str)]) -> Vec<&'static str> {
        let (done, order) = mpsc::channel();
        let mut queue = Queue::default();
        for &(connection, name) in jobs {
            let done = done.clone();
            assert!(queue.push(connection, Box::new(move || done.send(name).unwrap())));
        }
        while let Some(job) = queue.pop() {
            job();
        }
        drop(done);
        order.iter().collect()
    }

    #[test]
    fn a_connection_with_many_jobs_waits_for_itself() {
        let jobs = [
            (1, "a1"),
            (1, "a2"),
            (1, "a3"),
            (2, "b1"),
            (3, "c1"),
            (3, "c2"),
        ];
        assert_eq!(order(&jobs), ["a1", "b1", "c1", "a2", "c2", "a3"]);
    }

    #[test]
    fn jobs_over_a_limit_are_refused() {
        let mut queue = Queue::default();
        for _ in 0..JOBS_OF_CONNECTION_MAX {
            assert!(queue.push(0, Box::new(|| ())));
        }
        assert!(!queue.push(0, Box::new(|| ())));
        for number in JOBS_OF_CONNECTION_MAX..JOBS_MAX {
            assert!(queue.push(1 + number / JOBS_OF_CONNECTION_MAX, Box::new(|| ())));
        }
        assert!(!queue.push(usize::MAX, Box::new(|| ())));
        queue.pop().unwrap()();
        assert!(queue.push(usize::MAX, Box::new(|| ())));
    }
}
