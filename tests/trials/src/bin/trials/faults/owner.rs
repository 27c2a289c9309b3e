//! Finds the process that holds the other end of a local connection, from `/proc`.

use procfs::process::{FDTarget, Process};

use crate::process::Outcome;

/// Index of the process that dialled port `door` from port `client`; `None` if it
/// is none of `processes`, or has ended.
pub fn of_socket(client: u16, door: u16, processes: &[u32]) -> Outcome<Option<usize>> {
    let mut sockets = procfs::net::tcp()?.into_iter();
    let ports = (client, door);
    let dialed = sockets.find(|it| (it.local_address.port(), it.remote_address.port()) == ports);
    let holds = |process: &u32, socket| has_open(*process, &FDTarget::Socket(socket));
    Ok(dialed.and_then(|it| {
        processes
            .iter()
            .position(|process| holds(process, it.inode))
    }))
}

fn has_open(process: u32, target: &FDTarget) -> bool {
    // A process that has just ended holds no sockets.
    let files = Process::new(process.cast_signed()).and_then(|it| it.fd());
    let mut files = files.into_iter().flatten().flatten();
    files.any(|file| file.target == *target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_dialer_is_found_among_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (client, door) = (
            dialer.local_addr().unwrap().port(),
            listener.local_addr().unwrap().port(),
        );
        let processes = [0, 1, std::process::id()];
        assert_eq!(of_socket(client, door, &processes).unwrap(), Some(2));
        assert_eq!(of_socket(client, door, &[0, 1]).unwrap(), None);
        drop(dialer);
    }
}
