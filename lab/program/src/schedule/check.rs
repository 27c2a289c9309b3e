//! Checks before an experiment begins: every target exists or answers. A typing error is thus
//! reported within a second and leaves no folder behind.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::error::{Error, NotExecutable};
use super::memory_group::MemoryGroup;
use super::{Arm, Experiment};
use crate::load::{Access, Remote};
use crate::targets::{TargetKind, TargetSpec};
use crate::workload::ByteCount;

const WORKER_REMEDY: &str = "name an inkstone-lab of another build";
const HANDOFF_REMEDY: &str = "`cargo build --release -p handoff-preload -p handoff-run` makes it";
const SERVER_REMEDY: &str = "correct the path; `cargo build --release -p cli` makes Inkstone's \
                             server, `cargo xtask etcd` makes etcd";

impl Experiment {
    /// Checks that the program of every side exists and may be started, and that endpoints
    /// answer.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(loop_fs) = self.loop_fs {
            loop_fs.check_rights()?;
        }
        let workloads = self.points.iter().map(|point| &point.workload);
        if let Some(limit) = workloads.clone().find_map(|it| it.memory.limit) {
            self.check_limit(limit)?;
        }
        let mut generators = workloads.filter_map(|it| it.clients.generator.as_deref());
        if let Some(generator) = generators.next() {
            let is_server = |arm: &Arm| matches!(arm.target.kind, TargetKind::Server { .. });
            if !self.arms.iter().all(is_server) {
                return Err(Error::GeneratorNeedsServers);
            }
            executable(generator).map_err(Error::Generator)?;
        }
        for arm in &self.arms {
            self.worker(&arm.target)?;
            check(&arm.target)?;
        }
        Ok(())
    }
}

impl Experiment {
    /// Checks that a run can have a limit of memory, by making a group and removing it.
    fn check_limit(&self, limit: ByteCount) -> Result<(), Error> {
        let is_running = |arm: &&Arm| matches!(arm.target.kind, TargetKind::Endpoints(_));
        if let Some(arm) = self.arms.iter().find(is_running) {
            return Err(Error::LimitOfEndpoints(arm.target.text.clone()));
        }
        MemoryGroup::make(limit)
            .map(drop)
            .map_err(Error::MemoryGroup)
    }
}

fn check(target: &TargetSpec) -> Result<(), Error> {
    let program = |path: &Path, remedy| {
        executable(path).map_err(|program| Error::Program {
            target: target.text.clone(),
            program,
            remedy,
        })
    };
    match &target.kind {
        TargetKind::Embedded {
            worker, handoff, ..
        } => {
            if let Some(worker) = worker {
                program(worker, WORKER_REMEDY)?;
            }
            if let Some(handoff) = handoff {
                program(handoff, HANDOFF_REMEDY)?;
            }
            Ok(())
        }
        TargetKind::Server { binary, .. } => program(binary, SERVER_REMEDY),
        TargetKind::Endpoints(urls) => {
            let remote = Remote {
                urls: urls.clone(),
                connections: 1,
                threads: 1,
                access: Access::default(),
            };
            let answered = remote.version().map(drop);
            answered.map_err(|answer| Error::Endpoint {
                target: target.text.clone(),
                answer,
            })
        }
    }
}

/// Checks that the system can start a program. A name without a folder is searched in
/// `PATH`.
fn executable(program: &Path) -> Result<(), NotExecutable> {
    let shown = || program.display().to_string();
    let is_bare = program.components().count() == 1 && !program.is_absolute();
    let path = match is_bare {
        false => program.to_owned(),
        true => in_path(program).ok_or_else(|| NotExecutable::NotInPath(shown()))?,
    };
    let about = std::fs::metadata(&path);
    let about = about.map_err(|error| NotExecutable::Missing(shown(), error))?;
    match about.is_file() && about.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(NotExecutable::NotAProgram(shown())),
    }
}

fn in_path(name: &Path) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(target: &str) -> String {
        check(&target.parse().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn a_missing_program_is_named_with_the_command_that_builds_it() {
        let text = error_of("server:nowhere/etcd");
        assert!(
            text.contains("nowhere/etcd") && text.contains("cargo xtask etcd"),
            "{text}"
        );
        let text = error_of("engine@/nowhere/inkstone-lab");
        assert!(text.contains("/nowhere/inkstone-lab"), "{text}");
        let text = error_of("engine@/nowhere/handoff");
        assert!(text.contains("-p handoff-run"), "{text}");
        let text = error_of("server:no-such-program");
        assert!(text.contains("in PATH"), "{text}");
    }

    #[test]
    fn folders_and_plain_files_are_no_programs() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path(), Path::new("/")] {
            let text = error_of(&format!("server:{}", path.display()));
            assert!(text.contains("may be started"), "{text}");
        }
    }

    #[test]
    fn programs_are_found_by_path_and_in_the_search_path() {
        for target in ["server:sh", "server:/bin/sh", "engine@/bin/sh", "engine"] {
            check(&target.parse().unwrap()).unwrap();
        }
    }

    #[test]
    fn an_endpoint_that_does_not_answer_is_named() {
        let text = error_of("endpoints:127.0.0.1:1");
        assert!(
            text.contains("127.0.0.1:1") && text.contains("start the server"),
            "{text}"
        );
    }
}
