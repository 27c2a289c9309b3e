//! Ports of 127.0.0.1 for servers that tests and tools start.
//!
//! ```text
//!   10000 ──────────────────── ip_local_port_range ──────────── 65535
//!     └─ [`reserve`] takes here   └─ the kernel hands out these: to a program that binds port 0,
//!                                    and as the near end of each connection
//! ```
//!
//! A server that can say where it listens should listen at port 0. A member of a cluster
//! cannot: the others must know its address before it starts, and find it there again after
//! each restart. A port that the kernel hands out may be another program's by then. So ports
//! are taken from below those, and each is claimed for the life of this process, so that no
//! other process that uses this module takes it.

use std::io;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

/// Below are ports of well-known services.
const FIRST: u16 = 10_000;
/// If fewer ports are left below the kernel's own, the kernel chooses.
const ROOM_MIN: u16 = 1_000;
/// The first and the last port that Linux hands out by default.
const HANDED_OUT: (u16, u16) = (32_768, 60_999);
/// Spreads the process ids, which follow each other, over all ports.
const SPREAD: u32 = 2_654_435_769;

/// The claims of this process.
static CLAIMS: Mutex<Vec<Claim>> = Mutex::new(Vec::new());

/// `count` different ports at which no program listens, claimed until this process ends.
pub fn reserve(count: usize) -> io::Result<Vec<u16>> {
    let draw = std::process::id().wrapping_mul(SPREAD);
    reserve_below(handed_out().0, draw, count)
}

/// One port, claimed until this process ends.
pub fn reserve_one() -> io::Result<u16> {
    Ok(reserve(1)?[0])
}

/// `127.0.0.1:port` with such a port. No other program is given it, so that a server can be
/// started there again.
pub fn free_address() -> io::Result<String> {
    Ok(format!("127.0.0.1:{}", reserve_one()?))
}

/// The first and the last port that the kernel hands out.
pub fn handed_out() -> (u16, u16) {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    parse(&range.unwrap_or_default())
}

fn parse(range: &str) -> (u16, u16) {
    let mut words = range.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => (first, last),
        _ => HANDED_OUT,
    }
}

fn reserve_below(end: u16, draw: u32, count: usize) -> io::Result<Vec<u16>> {
    let room = end.saturating_sub(FIRST);
    if room < ROOM_MIN {
        return chosen_by_the_kernel(count);
    }
    let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
    let around =
        (0..u32::from(room)).map(|step| FIRST + (draw.wrapping_add(step) % u32::from(room)) as u16);
    let found: Vec<Claim> = around.filter_map(Claim::of_free).take(count).collect();
    if found.len() < count {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!(
                "the ports from {FIRST} to {end} of 127.0.0.1 are taken but for {}; {count} are \
                 needed",
                found.len()
            ),
        ));
    }
    let ports = found.iter().map(|claim| claim.port).collect();
    claims.extend(found);
    Ok(ports)
}

/// All are held until the last of them is found, so that they differ.
fn chosen_by_the_kernel(count: usize) -> io::Result<Vec<u16>> {
    let listeners = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)));
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    let address = listeners.iter().map(TcpListener::local_addr);
    address
        .map(|address| address.map(|address| address.port()))
        .collect()
}

/// A port that other users of this module pass over.
struct Claim {
    port: u16,
    /// The kernel lets one process have a name, and frees it when the process ends.
    _name: std::os::unix::net::UnixListener,
}

impl Claim {
    /// A claim on a port that is neither claimed nor listened at.
    fn of_free(port: u16) -> Option<Claim> {
        let claim = Claim::of(port)?;
        TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some(claim)
    }

    fn of(port: u16) -> Option<Claim> {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixListener};
        let name = format!("inkstone test port {port}");
        let name = SocketAddr::from_abstract_name(name).ok()?;
        let _name = UnixListener::bind_addr(&name).ok()?;
        Some(Claim { port, _name })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_differ_and_are_not_those_that_connections_get() {
        let first = reserve_below(HANDED_OUT.0, u32::MAX, 10).unwrap();
        let second = reserve_below(HANDED_OUT.0, u32::MAX, 10).unwrap();
        let all: BTreeSet<u16> = first.into_iter().chain(second).collect();
        assert_eq!(all.len(), 20, "a claim lasts");
        assert!(all.iter().all(|port| (FIRST..HANDED_OUT.0).contains(port)));
    }

    #[test]
    fn a_port_that_is_taken_is_passed_over() {
        let port = reserve_below(HANDED_OUT.0, 7_000, 1).unwrap()[0];
        let taken = (port + 1..HANDED_OUT.0)
            .find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok())
            .unwrap();
        let taken = taken.local_addr().unwrap().port();
        let draw = u32::from(taken - FIRST);
        assert_ne!(reserve_below(HANDED_OUT.0, draw, 1).unwrap(), [taken]);
    }

    #[test]
    fn where_the_kernel_hands_out_all_ports_they_still_differ() {
        let found = reserve_below(1_024, 1, 10).unwrap();
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 10);
    }

    #[test]
    fn the_range_is_the_system_s() {
        assert_eq!(parse("1024\t65535\n"), (1_024, 65_535));
        assert_eq!(parse(""), HANDED_OUT);
        assert_eq!(parse("9 3"), HANDED_OUT);
    }

    #[test]
    fn more_ports_than_there_are_is_an_error_that_says_so() {
        let error = reserve_below(FIRST + ROOM_MIN, 0, 2_000).unwrap_err();
        assert!(error.to_string().contains("2000 are needed"), "{error}");
    }
}
