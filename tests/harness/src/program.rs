//! A server program, and how it is started.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::member::MemberConfig;

/// A server program, Inkstone or etcd, and what its members have in common.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub binary: PathBuf,
    /// Command that starts the binary, such as `nsenter` with its options; may be empty.
    pub prefix: Vec<String>,
    /// Flags that follow name, directory, addresses and cluster.
    pub flags: Vec<String>,
    pub environment: Vec<(OsString, OsString)>,
    /// The processes form groups of their own: Ctrl-C does not reach them.
    pub own_process_group: bool,
    /// The kernel kills a process when the thread that started it ends.
    pub ends_with_starter: bool,
}

impl Program {
    pub fn new(binary: impl Into<PathBuf>) -> Program {
        Program {
            binary: binary.into(),
            ..Program::default()
        }
    }

    /// The program with more flags.
    pub fn with(mut self, flags: &[impl AsRef<str>]) -> Program {
        let flags = flags.iter().map(|flag| flag.as_ref().to_owned());
        self.flags.extend(flags);
        self
    }

    /// The program in a shell that first limits open files.
    pub fn with_files_max(mut self, files_max: u64) -> Program {
        self.limit("n", files_max);
        self
    }

    /// The program in a shell that first limits the memory that it may allocate.
    pub fn with_memory_max(mut self, memory_bytes: u64) -> Program {
        self.limit("d", memory_bytes >> 10);
        self
    }

    fn limit(&mut self, option: &str, value: u64) {
        let script = format!("ulimit -{option} {value} && exec \"$0\" \"$@\"");
        self.prefix.extend(["sh".into(), "-c".into(), script]);
    }

    /// Whether the program is etcd: its file name begins with `etcd`.
    pub fn is_etcd(&self) -> bool {
        let name = self.binary.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("etcd")
    }

    /// The version that the program prints.
    pub fn version(&self) -> Outcome<String> {
        let output = Command::new(&self.binary).arg("--version").output();
        let output =
            output.map_err(|error| format!("cannot start {}: {error}", self.binary.display()))?;
        Ok(own_version(&String::from_utf8_lossy(&output.stdout)))
    }

    /// The command that starts a member.
    pub fn command(&self, config: &MemberConfig) -> Command {
        let mut words = self.prefix.iter().map(OsString::from);
        let mut command = match words.next() {
            Some(first) => Command::new(first),
            None => Command::new(&self.binary),
        };
        if !self.prefix.is_empty() {
            command.args(words).arg(&self.binary);
        }
        if !self.is_etcd() {
            command.arg("serve");
        }
        command.args(config.flags()).args(&self.flags);
        command.envs(self.environment.clone()).stdin(Stdio::null());
        if self.own_process_group {
            command.process_group(0);
        }
        if self.ends_with_starter {
            end_with_starter(&mut command);
        }
        command
    }
}

/// Path of etcd: `INKSTONE_ETCD`, or the binary that `cargo xtask etcd` built below the root
/// of the repository. `None` if there is none.
pub fn etcd_binary(root: &Path) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("INKSTONE_ETCD") {
        return Some(PathBuf::from(named));
    }
    let built = root.join("target/etcd/bin/etcd");
    built.exists().then_some(built)
}

/// The version in the output of `--version`. Inkstone prints the version of the etcd API in
/// the first line, where etcd prints its version, and its own version in another line.
fn own_version(output: &str) -> String {
    let own = |line: &&str| line.starts_with("Inkstone Version:");
    let line = output.lines().find(own).or(output.lines().next());
    let word = line.and_then(|line| line.split_whitespace().last());
    word.unwrap_or_default().to_owned()
}

/// Makes the kernel kill the started process when the thread that started it ends.
pub fn end_with_starter(command: &mut Command) {
    let set = || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(Into::into)
    };
    // SAFETY: between fork and exec only one system call is made, which is allowed there;
    // nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_server_and_not_that_of_the_api() {
        let ours = "etcd Version: 3.7.3\nInkstone Version: 0.1.0\nTarget: linux/x86_64\n";
        assert_eq!(own_version(ours), "0.1.0");
        assert_eq!(own_version("etcd Version: 3.7.3\nGit SHA: 1\n"), "3.7.3");
        assert_eq!(own_version(""), "");
    }

    #[test]
    fn a_prefix_and_the_verb_stand_before_the_flags() {
        let config = MemberConfig::alone("a", Path::new("/data"));
        let words = |program: Program| {
            let command = program.command(&config);
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            let words: Vec<String> = words.map(|it| it.to_string_lossy().into()).collect();
            words.join(" ")
        };
        let ours = words(Program::new("/bin/inkstone").with(&["--last"]));
        assert!(ours.starts_with("/bin/inkstone serve --name=a "), "{ours}");
        assert!(ours.ends_with(" --last"), "{ours}");
        let etcd = words(Program::new("/bin/etcd-3.5"));
        assert!(etcd.starts_with("/bin/etcd-3.5 --name=a "), "{etcd}");
        let limited = words(Program::new("/bin/inkstone").with_files_max(9));
        assert!(limited.starts_with("sh -c ulimit -n 9 "), "{limited}");
        assert!(limited.contains(" /bin/inkstone serve "), "{limited}");
    }
}
