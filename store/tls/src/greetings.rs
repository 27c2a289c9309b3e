//! Incoming connections that have not been let in yet.
//!
//! Their number is limited. When one more comes, the oldest connection of the address that
//! has the most is closed, so that a process that opens connections and sends nothing does not
//! keep members out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use environment::Mutex;
use tokio::sync::Notify;

/// All connections in their greetings.
#[derive(Debug)]
pub struct Greetings {
    max: usize,
    waiting: Mutex<WaitingGreetings>,
}

#[derive(Debug, Default)]
struct WaitingGreetings {
    last_number: u64,
    /// The oldest first.
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    number: u64,
    address: Option<IpAddr>,
    ended: Arc<Notify>,
}

/// One connection in its greetings; dropping this frees its place.
#[derive(Debug)]
pub struct Greeting {
    all: Arc<Greetings>,
    number: u64,
    ended: Arc<Notify>,
}

impl Greetings {
    /// At most `max` connections at a time.
    pub fn new(max: usize) -> Greetings {
        assert!(max > 0, "at least one connection must be able to begin");
        Greetings {
            max,
            waiting: Mutex::default(),
        }
    }

    /// Adds a connection, and ends another one if the limit is reached.
    pub fn enter(self: &Arc<Greetings>, address: Option<IpAddr>) -> Greeting {
        let mut waiting = self.waiting.lock();
        if waiting.places.len() >= self.max {
            let at = waiting.victim();
            waiting.places.remove(at).ended.notify_one();
        }
        waiting.last_number += 1;
        let number = waiting.last_number;
        let ended = Arc::new(Notify::new());
        waiting.places.push(Place {
            number,
            address,
            ended: Arc::clone(&ended),
        });
        Greeting {
            all: Arc::clone(self),
            number,
            ended,
        }
    }
}

impl WaitingGreetings {
    /// Index of the oldest connection of the address that has the most.
    fn victim(&self) -> usize {
        let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
        for place in &self.places {
            *counts.entry(place.address).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or(0);
        let has_most = |place: &Place| counts.get(&place.address) == Some(&most);
        self.places.iter().position(has_most).unwrap_or(0)
    }
}

impl Greeting {
    /// Waits until this connection is ended in favour of another.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Drop for Greeting {
    fn drop(&mut self) {
        let mut waiting = self.all.waiting.lock();
        waiting.places.retain(|place| place.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ended(greeting: &Greeting) -> bool {
        let mut ended = std::pin::pin!(greeting.ended());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        ended.as_mut().poll(&mut context).is_ready()
    }

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn the_oldest_connection_of_the_address_that_has_the_most_is_ended() {
        let greetings = Arc::new(Greetings::new(4));
        let member = greetings.enter(address(1));
        let flood: Vec<Greeting> = (0..20).map(|_| greetings.enter(address(9))).collect();
        assert!(!is_ended(&member));
        let ended = flood.iter().filter(|greeting| is_ended(greeting)).count();
        assert_eq!(ended, 20 - 3);
        assert!(!is_ended(&flood[19]));
        drop(flood);
        let others: Vec<Greeting> = (2..5).map(|last| greetings.enter(address(last))).collect();
        assert!(!is_ended(&member) && others.iter().all(|other| !is_ended(other)));
    }
}
