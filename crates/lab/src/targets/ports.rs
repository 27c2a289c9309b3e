//! Ports for servers that are started here.
//!
//! A port that the kernel hands out may be handed out again: to the next who asks,
//! or as the near end of a connection, even one to that very port, which then is
//! answered by nobody. So ports are taken from below those that it hands out, and
//! all of a group are held until the last of them is found.

use std::net::TcpListener;

use super::Failure;
use crate::workload::mixed;

/// Below are ports of well-known services.
const FIRST: u16 = 10_000;
/// Fewer to choose from, and the kernel chooses.
const ROOM_MIN: u16 = 1_000;
/// What Linux hands out from unless it is told otherwise.
const HANDED_OUT_FROM: u16 = 32_768;

/// So many different ports that nobody listened at a moment ago.
pub fn free_ports(count: usize) -> Result<Vec<u16>, Failure> {
    let draw = mixed(crate::worker::unix_ms() ^ (u64::from(std::process::id()) << 42));
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let listeners = listeners(count, draw, handed_out_from(&text.unwrap_or_default()))?;
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    let ports = listeners.iter().map(port).collect::<Result<_, _>>();
    ports.map_err(Failure::of)
}

fn handed_out_from(range: &str) -> u16 {
    let first = range.split_whitespace().next();
    first
        .and_then(|word| word.parse().ok())
        .unwrap_or(HANDED_OUT_FROM)
}

fn listeners(count: usize, draw: u64, end: u16) -> Result<Vec<TcpListener>, Failure> {
    let listen = |port: u16| TcpListener::bind(("127.0.0.1", port));
    let room = end.saturating_sub(FIRST);
    if room < ROOM_MIN {
        let chosen = (0..count).map(|_| listen(0));
        return chosen.collect::<Result<_, _>>().map_err(Failure::of);
    }
    let begin = (draw % u64::from(room)) as u16;
    let around = (0..room)
        .map(|step| FIRST + ((u32::from(begin) + u32::from(step)) % u32::from(room)) as u16);
    let found: Vec<TcpListener> = around
        .filter_map(|port| listen(port).ok())
        .take(count)
        .collect();
    match found.len() == count {
        true => Ok(found),
        false => Err(Failure(format!(
            "the ports from {FIRST} to {end} of 127.0.0.1 are taken but for {}; {count} are needed",
            found.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn ports(listeners: &[TcpListener]) -> BTreeSet<u16> {
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        listeners.iter().map(port).collect()
    }

    #[test]
    fn ports_of_a_group_differ_and_are_not_those_that_connections_get() {
        let found = listeners(10, u64::MAX, HANDED_OUT_FROM).unwrap();
        let ports = ports(&found);
        assert_eq!(ports.len(), 10);
        assert!(
            ports
                .iter()
                .all(|port| (FIRST..HANDED_OUT_FROM).contains(port))
        );
    }

    #[test]
    fn a_port_that_is_taken_is_passed_over() {
        let first = listeners(1, 7, HANDED_OUT_FROM).unwrap();
        let second = listeners(1, 7, HANDED_OUT_FROM).unwrap();
        assert!(ports(&first).is_disjoint(&ports(&second)));
    }

    #[test]
    fn where_the_kernel_hands_out_all_ports_they_still_differ() {
        let found = listeners(10, 1, 1_024).unwrap();
        assert_eq!(ports(&found).len(), 10);
        assert_eq!(handed_out_from("1024\t65535\n"), 1_024);
        assert_eq!(handed_out_from(""), HANDED_OUT_FROM);
    }
}
