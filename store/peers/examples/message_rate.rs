//! Measures messages per second over loopback, and their CPU time.
//!
//! ```text
//! cargo run --release -p peers --example message_rate
//! ```
//!
//! Two members run in one process, so the figures cover both ends and the
//! sending thread, which pauses while the lane's queue is full.

use std::error::Error;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use environment::Clock;
use environment::real::RealClock;
use peers::{BoxFuture, Handler, Lane, Peers, PeersOptions, Stream};
use rustix::time::{ClockId, clock_gettime};

/// Handler that signals the last message of a run.
struct Counter {
    done: SyncSender<()>,
}

/// Pause of the sender while the queue is full. The queue holds much more than is written in
/// this time.
const PAUSE: Duration = Duration::from_micros(500);
/// Kind of the last message of a run.
const LAST: u8 = 1;

impl Handler for Counter {
    fn message(&self, _: u64, _: Lane, kind: u8, _: Bytes) -> Result<(), String> {
        if kind == LAST {
            self.done.send(()).expect("the program waits for it");
        }
        Ok(())
    }

    fn stream(&self, _: u64, _: u8, _: Bytes, _: Stream) -> BoxFuture<()> {
        Box::pin(async {})
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (done, finished) = sync_channel(1);
    let counter = Arc::new(Counter { done });
    #[expect(clippy::disallowed_methods, reason = "binding is the caller's part")]
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let two = Peers::start(PeersOptions::new(1, 2, vec![listener]), counter.clone())?;
    let one = Peers::start(PeersOptions::new(1, 1, vec![]), counter)?;
    one.set_member(2, vec![address])?;
    println!("    bytes   messages  messages/s      MiB/s  CPU us/message  refused");
    for (bytes, messages) in [(100, 3_000_000), (64 << 10, 60_000)] {
        run(&one, &finished, bytes, messages / 10)?;
        for _ in 0..3 {
            println!("{}", run(&one, &finished, bytes, messages)?);
        }
    }
    one.stop();
    two.stop();
    Ok(())
}

fn run(
    peers: &Peers,
    finished: &Receiver<()>,
    bytes: usize,
    messages: u64,
) -> Result<String, Box<dyn Error>> {
    let payload = [Bytes::from(vec![1; bytes])];
    let (began, used) = (RealClock.now(), cpu());
    let mut refused = 0_u64;
    for number in 1..=messages {
        let kind = if number == messages { LAST } else { 0 };
        while peers.send(2, Lane::Bulk, kind, &payload).is_err() {
            refused += 1;
            RealClock.sleep(PAUSE);
        }
    }
    finished.recv()?;
    let seconds = RealClock.now().saturating_since(began).as_secs_f64();
    let micros = (cpu() - used).as_secs_f64() * 1e6 / messages as f64;
    let rate = messages as f64 / seconds;
    let volume = rate * bytes as f64 / f64::from(1 << 20);
    Ok(format!(
        "{bytes:9} {messages:10} {rate:11.0} {volume:10.0} {micros:15.2} {refused:8}"
    ))
}

/// CPU time of this process, user and system.
fn cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}
