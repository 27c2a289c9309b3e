//! Addresses for members, used again by later walks.
//!
//! Ports stay claimed for the life of this process, so a hundred walks share those
//! of a few. Within a walk no address is given out twice.

use std::sync::Mutex;

use crate::process::Outcome;

/// Ports that no walk uses at present.
static FREE: Mutex<Vec<u16>> = Mutex::new(Vec::new());

/// The addresses of one walk on one system; given back when dropped.
#[derive(Default)]
pub struct Ports {
    taken: Vec<u16>,
}

impl Ports {
    /// `host:port`, at which no program listens.
    pub fn address(&mut self) -> Outcome<String> {
        let free = FREE.lock().expect("no holder panics").pop();
        let port = match free {
            Some(port) => port,
            None => harness::ports::reserve_one()?,
        };
        self.taken.push(port);
        Ok(format!("127.0.0.1:{port}"))
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        let mut free = FREE.lock().expect("no holder panics");
        free.append(&mut self.taken);
    }
}
