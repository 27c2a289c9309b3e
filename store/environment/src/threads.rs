//! Threads with names.
//!
//! `top -H`, panic messages and core dumps show a thread's name, so every thread of the workspace
//! has one. Linux keeps the first 15 bytes.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// A tenth of the weight of a thread with the usual priority.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Starts a thread called `name`.
pub fn spawn<T, F>(name: &str, body: F) -> io::Result<JoinHandle<T>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    named(name).spawn(body).map_err(cannot_start(name))
}

/// Starts a thread called `name` that ends before `scope` does.
pub fn spawn_scoped<'scope, 'env, T, F>(
    scope: &'scope Scope<'scope, 'env>,
    name: &str,
    body: F,
) -> io::Result<ScopedJoinHandle<'scope, T>>
where
    T: Send + 'scope,
    F: FnOnce() -> T + Send + 'scope,
{
    named(name)
        .spawn_scoped(scope, body)
        .map_err(cannot_start(name))
}

fn named(name: &str) -> Builder {
    assert!(!name.is_empty(), "a thread needs a name");
    Builder::new().name(name.to_owned())
}

fn cannot_start(name: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot start thread {name}: {error}"))
}

/// Lowers the priority of the calling thread, so that it takes about a tenth of a core while other
/// threads want all of it.
pub fn yield_to_all_others() {
    // Linux applies it to one thread. Elsewhere it would slow the whole process down.
    #[cfg(target_os = "linux")]
    if rustix::process::setpriority_process(None, NICE).is_err() {
        // Without it the thread is only less polite.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_its_name() {
        let thread = spawn("log-flush", || {
            std::thread::current().name().map(str::to_owned)
        });
        assert_eq!(
            thread.unwrap().join().unwrap().as_deref(),
            Some("log-flush")
        );
    }

    #[test]
    fn a_scoped_thread_knows_its_name_and_may_borrow() {
        let expected = String::from("borrower");
        std::thread::scope(|scope| {
            let thread = spawn_scoped(scope, "borrower", || {
                std::thread::current().name() == Some(&expected)
            });
            assert!(thread.unwrap().join().unwrap());
        });
    }
}
