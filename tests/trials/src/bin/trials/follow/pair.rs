//! A source, and a store that was filled from its snapshot.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};

use harness::{MemberConfig, Program, ServerProcess, initial_cluster};
use tonic::transport::Channel;

use crate::{client, member::Member, process::Outcome};

/// The servers' programs.
pub struct Programs {
    pub source: Program,
    pub inkstone: Program,
}

/// Two clusters of one member each.
pub struct Pair {
    folder: tempfile::TempDir,
    inkstone: PathBuf,
    pub source: Arc<Member>,
    pub target: Arc<Member>,
}

fn member(program: &Program, name: &str, folder: &Path) -> Outcome<(Arc<Member>, MemberConfig)> {
    let mut config = MemberConfig::on_reserved_ports(name, folder)?;
    config.initial_cluster = initial_cluster([&config]);
    Ok((Member::voter(program.clone(), config.clone()), config))
}

impl Pair {
    /// Starts the source; the store is filled later.
    pub fn begin(programs: &Programs) -> Outcome<Pair> {
        let folder = tempfile::tempdir()?;
        let (source, _) = member(&programs.source, "source", folder.path())?;
        let (target, _) = member(&programs.inkstone, "target", folder.path())?;
        source.start_and_wait()?;
        Ok(Pair {
            inkstone: programs.inkstone.binary.clone(),
            folder,
            source,
            target,
        })
    }

    /// Fills the store from a snapshot of now, and starts it.
    pub fn fill(&self) -> Outcome {
        let file = self.folder.path().join("source.db");
        let mut save = self.verb("snapshot");
        save.args(["save", "--timeout=600", "--endpoint", &self.source.url()]);
        done(save.arg(&file).output()?)?;
        let config = self.target.server().config.clone();
        let mut restore = self.verb("snapshot");
        restore.arg("restore").arg(&file);
        restore.arg(format!("--name={}", config.name));
        restore.arg(format!("--initial-cluster={}", config.initial_cluster));
        restore.arg(format!(
            "--initial-advertise-peer-urls={}",
            config.peer_url()
        ));
        restore.arg(format!("--data-dir={}", config.data.display()));
        done(restore.output()?)?;
        self.target.start_and_wait()
    }

    fn verb(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.inkstone);
        command.arg(verb);
        command
    }

    /// Starts `inkstone follow`.
    pub fn follow(&self) -> Outcome<ServerProcess> {
        let mut command = self.verb("follow");
        command.arg(self.source.url());
        command.args(["--check-every=5s", "--endpoint", &self.target.url()]);
        ServerProcess::spawn(command, &self.log())
    }

    /// The output of all processes that followed.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("follow.log")
    }

    /// Runs `inkstone cut-over`; returns what it said.
    pub fn cut_over(&self) -> Outcome<String> {
        let mut command = self.verb("cut-over");
        command.arg(self.source.url());
        command.args(["--timeout=60", "--endpoint", &self.target.url()]);
        done(command.output()?)
    }

    pub async fn dial_source(&self) -> Outcome<Channel> {
        client::dial(self.source.url()).await
    }

    pub async fn dial_target(&self) -> Outcome<Channel> {
        client::dial(self.target.url()).await
    }
}

fn done(output: Output) -> Outcome<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stderr)),
        false => Err(format!("{}: {}", output.status, text(&output.stderr)).into()),
    }
}
