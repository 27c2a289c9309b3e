//! Answers of a [`Node`](crate::Node), for threads and for tasks.

use std::fmt::{self, Debug, Formatter};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use environment::Clock;
use environment::real::RealClock;

use crate::Error;
use crate::waiting::{block_on, block_on_until};

/// The outcome of a call, which may arrive later.
///
/// It is a future for tasks of any runtime; a thread calls [`Answer::wait`]. A write is under
/// way as soon as the call has returned: dropping its answer does not cancel it. A read
/// begins when its answer is first polled or waited for.
///
/// ```
/// # fn main() -> Result<(), inkstone::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
/// # let node = inkstone::NodeOptions::new("a", directory.path().join("a"))
/// #     .founder("a", "127.0.0.1:7400").listener(listener).segment_bytes(1 << 20).start()?;
/// # node.wait_for_leader().wait()?;
/// // Ten concurrent writes share a flush; then the thread waits for each answer.
/// let answers: Vec<_> = (0..10).map(|n| node.put(format!("k{n}"), "v")).collect();
/// for answer in answers {
///     answer.wait()?;
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a write may still fail, and a read begins when it is waited for"]
pub struct Answer<'a, T> {
    /// `None` once the outcome was returned.
    outcome: Option<Outcome<'a, T>>,
}

type Outcome<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl<'a, T> Answer<'a, T> {
    pub(crate) fn new(
        outcome: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> Answer<'a, T> {
        Answer {
            outcome: Some(Box::pin(outcome)),
        }
    }

    /// Blocks the calling thread until the outcome arrives. In a task, await the answer
    /// instead: blocking would also stop the other tasks of the thread.
    pub fn wait(self) -> Result<T, Error> {
        block_on(self)
    }

    /// Blocks the calling thread until the outcome arrives, at most for `patience`. Returns
    /// `None` if it has not arrived yet (the caller may wait again), or if an earlier call
    /// returned it.
    pub fn wait_at_most(&mut self, patience: Duration) -> Option<Result<T, Error>> {
        let deadline = RealClock.now() + patience;
        let outcome = block_on_until(self.outcome.as_mut()?, deadline);
        if outcome.is_some() {
            self.outcome = None;
        }
        outcome
    }
}

impl<T> Future for Answer<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.outcome.as_mut();
        let polled = outcome
            .expect("polled after its end")
            .as_mut()
            .poll(context);
        if polled.is_ready() {
            self.outcome = None;
        }
        polled
    }
}

impl<T> Debug for Answer<'_, T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Answer")
            .field("given", &self.outcome.is_none())
            .finish()
    }
}
