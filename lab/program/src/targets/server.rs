//! Servers as targets: Inkstone or etcd as child processes, started with the same flags,
//! alone or as a cluster with a leader. The kernel kills them when the worker ends, however
//! it ends.

use std::path::Path;

use harness::{Cluster, Program};

/// Above what any load of the lab writes.
const QUOTA_BYTES: u64 = 64 << 30;

/// The program of measured servers, with flags that follow those of all of them.
pub fn server_program(binary: &Path, flags: &[String]) -> Program {
    let mut program = Program::new(binary)
        .with(&[&format!("--quota-backend-bytes={QUOTA_BYTES}")])
        .with(&["--log-level=error"])
        .with(flags);
    program.ends_with_starter = true;
    program
}

/// Command line of the first member, without folders.
pub fn command_line(cluster: &Cluster) -> Vec<String> {
    let member = &cluster.members[0];
    let command = member.program.command(&member.config);
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| recorded(&word.to_string_lossy()))
        .collect()
}

fn recorded(word: &str) -> String {
    match word.starts_with("--data-dir=") {
        true => "--data-dir=DIRECTORY".to_owned(),
        false => without_folder(word),
    }
}

/// A word of a command line with file names instead of paths, because records are published
/// and the user's folders are private.
pub fn without_folder(word: &str) -> String {
    match word.rsplit_once('/') {
        Some((front, file)) if !word.contains("://") => {
            let kept = front.rfind([':', '=', '@']).map_or("", |at| &front[..=at]);
            format!("{kept}{file}")
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_command_names_no_folder() {
        assert_eq!(recorded("/home/a/target/inkstone"), "inkstone");
        assert_eq!(recorded("--data-dir=/tmp/a"), "--data-dir=DIRECTORY");
        let url = "--listen-client-urls=http://127.0.0.1:2379";
        assert_eq!(recorded(url), url);
    }
}
