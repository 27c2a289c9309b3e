//! Batches wake-ups between the request tasks of a runtime and the replica.
//!
//! ```text
//!   request tasks of a turn ──queue──► inbox        batcher ──one wake-up──► replica
//!                           └─ the first one: batcher, at the end of the turn ─┘
//!
//!   replica ──answers──► wakers in the batcher ──one wake-up──► batcher ──► request tasks
//! ```
//!
//! Waking a thread costs a system call, and the woken thread often takes the processor of
//! the waking one. Then the replica would run for the first of many requests alone, and the
//! first of many answers would be written to its client alone. A runtime with a batcher pays
//! for one wake-up for all requests of a turn, and for one for all answers that the replica
//! gives together.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use revisions::Response;
use tokio::sync::Notify;
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::Error;
use crate::lock::lock;

thread_local! {
    /// The batcher of the runtime that this thread runs.
    static HERE: RefCell<Option<Arc<WakeBatcher>>> = const { RefCell::new(None) };
    /// Batchers that `batched` wakes after its work; none outside of `batched`.
    static HELD: RefCell<Option<Vec<Arc<WakeBatcher>>>> = const { RefCell::new(None) };
}

/// A thread or task that sleeps while it has nothing to do.
pub(crate) trait Sleeper: Debug + Send + Sync {
    /// Wakes it, if it sleeps.
    fn wake(&self);
}

#[derive(Debug, Default)]
struct WakeBatcher {
    due: Mutex<Due>,
    bell: Notify,
}

/// The tasks and sleepers that the batcher has to wake.
#[derive(Debug, Default)]
struct Due {
    tasks: Vec<Waker>,
    sleepers: Vec<Arc<dyn Sleeper>>,
    /// The batcher does not run any more.
    ended: bool,
}

/// Runs the batcher of a runtime, as a task that the caller spawns there. Only for runtimes
/// of one thread, because tasks find their batcher by their thread. It ends with the runtime.
pub async fn batch_wakes() -> Infallible {
    let batcher = Arc::new(WakeBatcher::default());
    let _installed = Installed::new(Arc::clone(&batcher));
    loop {
        batcher.bell.notified().await;
        batcher.pass_on();
    }
}

/// Wakes the sleeper: at the end of this turn if the thread has a batcher, otherwise at once.
pub(crate) fn wake_after_turn(sleeper: &Arc<impl Sleeper + 'static>) {
    match here() {
        Some(batcher) => batcher.add_sleeper(Arc::clone(sleeper) as Arc<dyn Sleeper>),
        None => sleeper.wake(),
    }
}

/// Runs `work`, which gives many answers, and wakes the waiting tasks afterwards.
pub(crate) fn batched<T>(work: impl FnOnce() -> T) -> T {
    HELD.set(Some(Vec::new()));
    let outcome = work();
    for batcher in HELD.take().into_iter().flatten() {
        batcher.bell.notify_one();
    }
    outcome
}

fn here() -> Option<Arc<WakeBatcher>> {
    HERE.with_borrow(Option::clone)
}

impl WakeBatcher {
    fn add_sleeper(&self, sleeper: Arc<dyn Sleeper>) {
        let mut due = lock(&self.due);
        if due.ended {
            drop(due);
            return sleeper.wake();
        }
        let known = |it: &Arc<dyn Sleeper>| Arc::ptr_eq(it, &sleeper);
        if !due.sleepers.iter().any(known) {
            due.sleepers.push(sleeper);
            drop(due);
            self.bell.notify_one();
        }
    }

    fn add_task(self: &Arc<WakeBatcher>, task: Waker) {
        let mut due = lock(&self.due);
        if due.ended {
            drop(due);
            return task.wake();
        }
        let first = due.tasks.is_empty();
        due.tasks.push(task);
        drop(due);
        if first {
            self.ring();
        }
    }

    fn ring(self: &Arc<WakeBatcher>) {
        HELD.with_borrow_mut(|held| match held {
            Some(held) => held.push(Arc::clone(self)),
            None => self.bell.notify_one(),
        });
    }

    fn pass_on(&self) {
        let mut due = lock(&self.due);
        let tasks = std::mem::take(&mut due.tasks);
        let sleepers = std::mem::take(&mut due.sleepers);
        drop(due);
        sleepers.iter().for_each(|sleeper| sleeper.wake());
        tasks.into_iter().for_each(Waker::wake);
    }
}

/// Registers a batcher for its thread, until it is dropped.
struct Installed(Arc<WakeBatcher>);

impl Installed {
    fn new(batcher: Arc<WakeBatcher>) -> Installed {
        let before = HERE.replace(Some(Arc::clone(&batcher)));
        assert!(before.is_none(), "a runtime has one batcher");
        Installed(batcher)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        HERE.with_borrow_mut(|here| {
            here.take_if(|here| Arc::ptr_eq(here, &self.0));
        });
        lock(&self.0.due).ended = true;
        self.0.pass_on();
    }
}

/// Wakes a task through its runtime's batcher.
struct BatchedWaker {
    batcher: Arc<WakeBatcher>,
    task: Waker,
}

impl Wake for BatchedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.batcher.add_task(self.task.clone());
    }
}

/// The future answer to a command or a request. Threads outside a runtime call
/// [`Pending::wait`].
#[derive(Debug)]
pub struct Pending<T = Response>(pub(crate) oneshot::Receiver<Result<T, Error>>);

impl<T> Pending<T> {
    /// Blocks this thread until the answer is there. Not for use inside an asynchronous
    /// runtime.
    pub fn wait(mut self) -> Result<T, Error> {
        match self.look() {
            Some(answer) => answer,
            None => self.0.blocking_recv().unwrap_or(Err(Error::Stopped)),
        }
    }

    /// The answer, if it is there.
    pub(crate) fn look(&mut self) -> Option<Result<T, Error>> {
        match self.0.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(Error::Stopped)),
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let received = match here() {
            None => Pin::new(&mut self.0).poll(context),
            Some(batcher) => {
                if let Some(answer) = self.look() {
                    return Poll::Ready(answer);
                }
                let task = context.waker().clone();
                let waker = Waker::from(Arc::new(BatchedWaker { batcher, task }));
                Pin::new(&mut self.0).poll(&mut Context::from_waker(&waker))
            }
        };
        received.map(|received| received.unwrap_or(Err(Error::Stopped)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::yield_now;

    use super::*;

    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    impl Sleeper for Counting {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Counting {
        fn wakes(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn requests_of_one_turn_wake_the_replica_once_after_it() {
        let sleeper = Arc::new(Counting::default());
        wake_after_turn(&sleeper);
        assert_eq!(sleeper.wakes(), 1, "at once, without a batcher");
        let batcher = tokio::spawn(batch_wakes());
        yield_now().await;
        for _ in 0..3 {
            wake_after_turn(&sleeper);
        }
        assert_eq!(sleeper.wakes(), 1, "the turn is not over");
        while sleeper.wakes() < 2 {
            yield_now().await;
        }
        wake_after_turn(&sleeper);
        batcher.abort();
        assert!(batcher.await.unwrap_err().is_cancelled());
        assert_eq!(sleeper.wakes(), 3, "the batcher passes it on when it ends");
        wake_after_turn(&sleeper);
        assert_eq!(sleeper.wakes(), 4);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn answers_that_are_given_together_arrive() {
        let _batcher = tokio::spawn(batch_wakes());
        yield_now().await;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..10)
            .map(|_| oneshot::channel::<Result<u32, Error>>())
            .unzip();
        let waiting: Vec<_> = receivers
            .into_iter()
            .map(|receiver| tokio::spawn(Pending(receiver)))
            .collect();
        yield_now().await;
        let replica = environment::threads::spawn("replica", move || {
            batched(|| {
                for (number, sender) in senders.into_iter().enumerate() {
                    // One of them gets no answer.
                    if number != 7 {
                        sender.send(Ok(number as u32)).unwrap();
                    }
                }
            });
        });
        for (number, task) in waiting.into_iter().enumerate() {
            let expected = (number != 7).then_some(number as u32);
            assert_eq!(task.await.unwrap().ok(), expected);
        }
        replica.unwrap().join().unwrap();
    }
}
