//! Finds the process that holds the other end of a local connection, from `/proc`.

use std::{fs, path::Path};

use crate::process::Outcome;

/// Index of the process that dialled port `door` from port `client`; `None` if it
/// is none of `processes`, or has ended.
pub fn of_socket(client: u16, door: u16, processes: &[u32]) -> Outcome<Option<usize>> {
    let table = fs::read_to_string("/proc/net/tcp")?;
    let Some(inode) = inode(&table, client, door) else {
        return Ok(None);
    };
    let name = format!("socket:[{inode}]");
    let holds = |process: &&u32| **process != 0 && has_open(**process, &name);
    let owner = processes.iter().enumerate().find(|(_, it)| holds(it));
    Ok(owner.map(|(index, _)| index))
}

/// Inode from the row of the socket with this own port and peer port.
fn inode(table: &str, own: u16, peer: u16) -> Option<&str> {
    let (own, peer) = (format!(":{own:04X}"), format!(":{peer:04X}"));
    let mut rows = table.lines().map(|row| row.split_whitespace());
    rows.find_map(|mut fields| {
        let matches = fields.nth(1)?.ends_with(&own) && fields.next()?.ends_with(&peer);
        fields.nth(6).filter(|_| matches)
    })
}

fn has_open(process: u32, name: &str) -> bool {
    // A process that has just ended holds no sockets.
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    files
        .flatten()
        .any(|file| fs::read_link(file.path()).is_ok_and(|it| it == Path::new(name)))
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
