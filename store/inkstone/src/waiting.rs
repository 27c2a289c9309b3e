//! Waiting for a future on a thread that has no runtime.
//!
//! Other threads (replica, network) complete these futures, so the waiting thread only sleeps
//! until it is woken.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use environment::real::RealClock;
use environment::{Clock, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for the future without a time limit.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    wait(future, None).expect("without a deadline there is an outcome")
}

/// Waits for the future until `deadline`; returns `None` once it has passed.
pub(crate) fn block_on_until<F: Future>(future: F, deadline: Instant) -> Option<F::Output> {
    wait(future, Some(deadline))
}

fn wait<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
            return Some(outcome);
        }
        // A wake-up between the poll and here is not lost: `park` then returns at once.
        match deadline {
            None => std::thread::park(),
            Some(deadline) => {
                let left = deadline.saturating_since(RealClock.now());
                if left.is_zero() {
                    return None;
                }
                std::thread::park_timeout(left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn block_on_returns_an_outcome_of_another_thread() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let other = environment::threads::spawn("other", move || sender.send(7)).unwrap();
        assert_eq!(block_on(receiver), Ok(7));
        other.join().unwrap().unwrap();
    }

    #[test]
    fn a_deadline_ends_the_wait_but_not_the_future() {
        let (sender, mut receiver) = tokio::sync::oneshot::channel();
        let soon = RealClock.now() + Duration::from_millis(1);
        assert_eq!(block_on_until(&mut receiver, soon), None);
        sender.send(8).unwrap();
        assert_eq!(block_on_until(&mut receiver, soon), Some(Ok(8)));
    }
}
