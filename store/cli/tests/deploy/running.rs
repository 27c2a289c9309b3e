//! Servers with the settings of a manifest, where its addresses and paths are the test's own.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use harness::{ServerProcess, page, ports, wait_for};
use tempfile::TempDir;

/// Time limit for a start on a busy machine.
const READY_MAX: Duration = Duration::from_secs(120);

/// The binary under all its names, and room for data.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        for name in ["inkstone", "etcd", "etcdctl"] {
            symlink(env!("CARGO_BIN_EXE_inkstone"), folder.path().join(name)).unwrap();
        }
        Folder(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs the program of this name; returns its output.
    pub fn printed(&self, name: &str, words: &[&str]) -> String {
        let mut command = Command::new(self.path().join(name));
        let output = command.args(words).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {words:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts `etcd` and waits for its line of readiness.
    pub fn start(
        &self,
        name: &str,
        flags: &[String],
        variables: &BTreeMap<String, String>,
    ) -> ServerProcess {
        let mut command = Command::new(self.path().join("etcd"));
        command.args(flags).envs(variables).current_dir(self.path());
        ServerProcess::spawn(command, &self.path().join(format!("{name}.log"))).unwrap()
    }
}

/// A directory with a pair and its authority under the names that a manifest uses.
pub struct Certificates(PathBuf);

impl Certificates {
    pub fn new(folder: &Folder, pair: [&str; 2]) -> Certificates {
        let path = folder.path().join("certificates");
        std::fs::create_dir_all(&path).unwrap();
        trials::secure::write_certificates(&path).unwrap();
        let [certificate, key] = pair;
        for (from, to) in [
            ("server.pem", certificate),
            ("server.key", key),
            ("ca.pem", "ca.crt"),
        ] {
            if from != to {
                std::fs::copy(path.join(from), path.join(to)).unwrap();
            }
        }
        Certificates(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Flags of `etcdctl`.
    pub fn flags(&self) -> [String; 3] {
        let file = |flag, name| format!("--{flag}={}", self.0.join(name).display());
        [
            file("cacert", "ca.pem"),
            file("cert", "server.pem"),
            file("key", "server.key"),
        ]
    }
}

/// Texts of a manifest, and what a test has in their place.
#[derive(Clone, Default)]
pub struct Substitutions(Vec<(String, String)>);

impl Substitutions {
    pub fn with(mut self, from: impl Into<String>, to: impl Into<String>) -> Substitutions {
        self.0.push((from.into(), to.into()));
        self
    }

    pub fn apply(&self, text: &str) -> String {
        let replace = |text: String, (from, to): &(String, String)| text.replace(from, to);
        self.0.iter().fold(text.to_owned(), replace)
    }
}

/// A member of a cluster that runs.
pub struct Running {
    process: ServerProcess,
    /// Where it serves clients and its metrics.
    pub client: String,
    pub metrics: String,
}

/// Starts three members with the variables of a manifest, each with its `host` in the addresses,
/// and waits until all are ready.
pub fn three_members(
    folder: &Folder,
    settings: &[BTreeMap<String, String>; 3],
    hosts: &[String; 3],
    common: &Substitutions,
) -> Vec<Running> {
    let addresses: Vec<[String; 3]> = (0..3)
        .map(|_| std::array::from_fn(|_| ports::free_address().unwrap()))
        .collect();
    let mut named = common.clone();
    for (host, [client, peer, _]) in hosts.iter().zip(&addresses) {
        let prefix = if host.starts_with("//") { "//" } else { "" };
        named = named.with(format!("{host}:2379"), format!("{prefix}{client}"));
        named = named.with(format!("{host}:2380"), format!("{prefix}{peer}"));
    }
    let mut members = Vec::new();
    for (settings, [client, peer, metrics]) in settings.iter().zip(&addresses) {
        let own = named
            .clone()
            .with("0.0.0.0:2379", client)
            .with("0.0.0.0:2380", peer)
            .with("0.0.0.0:2381", metrics);
        let name = &settings["ETCD_NAME"];
        let data = folder.path().join(format!("{name}.data"));
        let own = own.with("/var/lib/inkstone/data", data.to_str().unwrap());
        let variables = settings.iter();
        let variables = variables.map(|(key, value)| (key.clone(), own.apply(value)));
        members.push(Running {
            process: folder.start(name, &[], &variables.collect()),
            client: client.clone(),
            metrics: metrics.clone(),
        });
    }
    for member in &mut members {
        member
            .process
            .wait_for_line("ready to serve client requests")
            .unwrap();
    }
    members
}

/// Waits until a page answers with 200.
pub fn wait_for_page(process: &mut ServerProcess, address: &str, path: &str) {
    let answered = wait_for(path, READY_MAX, || {
        process.check_running()?;
        Ok(page::get(address, path)
            .ok()
            .filter(|page| page.status == 200))
    });
    answered.unwrap();
}

impl Running {
    pub fn wait_for_page(&mut self, path: &str) {
        wait_for_page(&mut self.process, &self.metrics, path);
    }
}
