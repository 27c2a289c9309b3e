//! Machines for a walk through a guide, and the walk itself.
//!
//! A walk has a desk (10.0.0.254) and four machines, `a` to `d` (10.0.0.1 to 10.0.0.4), each with
//! a network, a host name and an empty directory of its own: all in namespaces of one process, so
//! that no address or mount is seen outside, and all ends with the process. The only command
//! that is not what it is elsewhere is `scp`: it copies into the directory of the machine.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::page::{Block, parse};

/// Makes the machines and their network, and defines `on MACHINE FILE`, which runs commands there.
const MACHINES: &str = r#"
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add net type bridge
ip address add 10.0.0.254/24 dev net
ip link set net up
number=0
for machine in a b c d; do
  number=$((number + 1))
  mkdir -p ../machines/10.0.0.$number
  ln -s 10.0.0.$number ../machines/$machine
  ip netns add $machine
  ip link add to-$machine type veth peer name eth0 netns $machine
  ip link set to-$machine master net up
  ip -n $machine address add 10.0.0.$number/24 dev eth0
  ip -n $machine link set eth0 up
  ip -n $machine link set lo up
done
on() {
  nsenter --net=/run/netns/"$1" unshare --uts env -i PATH="$PATH" sh -c 'hostname "$1" && cd ../machines/"$1" && exec sh -eux "$2"' sh "$1" "$2"
}
"#;

const SCP: &str = r#"#!/bin/sh
# Copies files into the directory of a machine: scp FILE... ADDRESS:
for last; do :; done
while [ $# -gt 1 ]; do cp "$1" "$(dirname "$0")/../machines/${last%:}/" || exit 1; shift; done
"#;

/// What the guides and their machines need besides a shell.
const PROGRAMS: [&str; 6] = ["curl", "hostname", "ip", "nsenter", "openssl", "unshare"];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Directories of a walk: `programs`, `desk`, `machines`, `blocks`; and the file `transcript`.
pub struct Walk(TempDir);

impl Walk {
    /// `None`, with a message, if a program of the guides is missing, or if the system does not
    /// let this user make namespaces.
    pub fn new() -> Option<Walk> {
        let missing = PROGRAMS.iter().find(|name| installed(name).is_none());
        if let Some(missing) = missing {
            eprintln!("SKIPPED: the guides need {missing}, which is not installed");
            return None;
        }
        let mut probe = isolated();
        let works = probe.args(["sh", "-c", "mount -t tmpfs tmpfs /run && ip netns add x"]);
        if !works.status().is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: this user cannot make networks and mounts of its own (unshare)");
            return None;
        }
        let mut walk = Walk(tempfile::tempdir().unwrap());
        // Other users of the machines, such as postgres, reach their files.
        set_mode(walk.0.path(), 0o755);
        for name in ["programs", "desk", "machines", "blocks"] {
            std::fs::create_dir(walk.path(name)).unwrap();
        }
        walk.add_program("inkstone", Path::new(env!("CARGO_BIN_EXE_inkstone")));
        let scp = walk.path("programs/scp");
        std::fs::write(&scp, SCP).unwrap();
        set_mode(&scp, 0o755);
        Some(walk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a program into the path of desk and machines.
    pub fn add_program(&mut self, name: &str, file: &Path) {
        symlink(file, self.path("programs").join(name)).unwrap();
    }

    /// Runs all commands of pages, each of which begins where the one before has ended.
    pub fn follow(&mut self, pages: &[&str]) {
        let mut blocks = Vec::new();
        for page in pages {
            let text = std::fs::read_to_string(root().join(page)).unwrap();
            let of_page = parse(&text);
            assert!(!of_page.is_empty(), "{page} has no commands");
            blocks.extend(of_page);
        }
        if let Err(failed) = self.run(&blocks) {
            panic!("{pages:?}: {failed}");
        }
    }

    /// Runs blocks; fails with the number of the block that failed and everything that was
    /// printed.
    pub fn run(&mut self, blocks: &[Block]) -> Result<(), String> {
        let mut script = format!("set -eu\n{MACHINES}\nset -x\n");
        for (index, block) in blocks.iter().enumerate() {
            script += &self.commands_of(index, block);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let transcript = File::create(self.path("transcript")).unwrap();
        let status = isolated()
            .args(["sh", "-c", &script])
            .current_dir(self.path("desk"))
            .env(
                "PATH",
                format!("{}:{path}", self.path("programs").display()),
            )
            .stdin(Stdio::null())
            .stdout(transcript.try_clone().unwrap())
            .stderr(transcript)
            .status()
            .unwrap();
        let transcript = std::fs::read_to_string(self.path("transcript")).unwrap();
        match status.success() {
            true => {
                // `--nocapture` shows it.
                eprintln!("{transcript}");
                Ok(())
            }
            false => Err(transcript),
        }
    }

    /// The commands at the desk are part of the script; those of a machine are a file of their
    /// own.
    fn commands_of(&self, index: usize, block: &Block) -> String {
        let number = block.number;
        let Some(machine) = &block.machine else {
            return format!(": block {number}, at the desk\n{}", block.commands);
        };
        let file = self.path("blocks").join(format!("{index}.sh"));
        std::fs::write(&file, &block.commands).unwrap();
        format!(
            ": block {number}, on {machine}\non {machine} {}\n",
            file.display()
        )
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A command with networks, mounts and processes of its own, which end with it.
fn isolated() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--kill-child", "--pid", "--fork"]);
    command.arg("--mount-proc");
    if !is_root() {
        command.arg("--map-root-user");
    }
    command
}

/// Whether the user of this test is root, so that the users of the machine are there in a walk,
/// too.
pub fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// The program of this name in the path of this test.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}
