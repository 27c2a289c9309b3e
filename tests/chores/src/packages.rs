//! Debian's packages for one chore: fetched by name and unpacked below `target`.
//! Nothing is installed, and the system's own lists stay as they are.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::process::{Outcome, capture, run};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where packages have their libraries.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

/// Where packages come from.
pub enum Source {
    /// The release that this machine runs, with all that a package needs and the machine
    /// does not have.
    System,
    /// Suites of Debian's that this machine does not run; a package alone.
    Suites(&'static str),
}

/// The folder of unpacked packages, fetched unless it is there.
pub fn unpacked(folder: &Path, source: &Source, names: &[&str]) -> Outcome<PathBuf> {
    let root = folder.join("root");
    if root.exists() {
        return Ok(root);
    }
    let archives = folder.join("archives");
    fs::create_dir_all(&archives)?;
    match source {
        Source::System => fetch(apt_get(), with_dependencies(names)?, &archives)?,
        Source::Suites(suites) => {
            let configuration = private_configuration(folder, suites)?;
            run(apt_get().arg("-c").arg(&configuration).arg("update"))?;
            let mut command = apt_get();
            command.arg("-c").arg(&configuration);
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            fetch(command, names, &archives)?;
        }
    }
    // Under another name until it is whole.
    let half = folder.join("half");
    for archive in fs::read_dir(&archives)? {
        run(Command::new("dpkg")
            .arg("-x")
            .arg(archive?.path())
            .arg(&half))?;
    }
    fs::rename(&half, &root)?;
    Ok(root)
}

/// The value of `LD_LIBRARY_PATH` for programs of unpacked packages.
pub fn library_path(root: &Path) -> String {
    LIBRARIES
        .map(|part| root.join(part).display().to_string())
        .join(":")
}

/// Whether this machine has what this page needs; otherwise why not.
pub fn check_machine() -> Outcome {
    for tool in ["apt-get", "dpkg"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Err(format!("SKIPPED: packages take Debian's {tool}, which is missing").into());
        }
    }
    Ok(())
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.args(["-q", "-o", "APT::Sandbox::User=root"]);
    command
}

fn fetch(mut apt_get: Command, names: Vec<String>, archives: &Path) -> Outcome {
    run(apt_get.arg("download").args(names).current_dir(archives)).map_err(|error| {
        format!("SKIPPED: packages cannot be had ({error}); `apt-get update` may help").into()
    })
}

/// The packages and what they need, less what is installed.
fn with_dependencies(names: &[&str]) -> Outcome<Vec<String>> {
    let mut command = apt_get();
    command
        .args(["-s", "install", "--no-install-recommends"])
        .args(names);
    let plan = capture(&mut command)
        .map_err(|error| format!("SKIPPED: packages are not known to apt: {error}"))?;
    let planned: Vec<String> = installed_by(&plan).map(str::to_owned).collect();
    if planned.is_empty() {
        return Err(format!("{} are installed already, but not found", names.join(", ")).into());
    }
    Ok(planned)
}

/// Names in a plan of apt's.
fn installed_by(plan: &str) -> impl Iterator<Item = &str> {
    plan.lines()
        .filter_map(|line| line.strip_prefix("Inst "))
        .filter_map(|rest| rest.split(' ').next())
}

/// Lists of other suites, from the mirror that this machine uses.
fn private_configuration(folder: &Path, suites: &str) -> Outcome<PathBuf> {
    let here = folder.join("apt");
    for part in ["lists/partial", "cache/archives/partial", "parts"] {
        fs::create_dir_all(here.join(part))?;
    }
    let source = format!(
        "Types: deb\nURIs: {}\nSuites: {suites}\nComponents: main\nSigned-By: {KEYRING}\n",
        mirror()?
    );
    fs::write(here.join("parts/debian.sources"), source)?;
    let at = here.display();
    let configuration = format!(
        "Dir::State::Lists \"{at}/lists\";\nDir::Cache \"{at}/cache\";\n\
         Dir::Etc::SourceList \"/dev/null\";\nDir::Etc::SourceParts \"{at}/parts\";\n"
    );
    let path = here.join("apt.conf");
    fs::write(&path, configuration)?;
    Ok(path)
}

fn mirror() -> Outcome<String> {
    let mut command = apt_get();
    command.args([
        "indextargets",
        "--format",
        "$(LABEL) $(REPO_URI)",
        "Created-By: Packages",
    ]);
    let targets = capture(&mut command)?;
    let mirror = targets
        .lines()
        .find_map(|line| line.strip_prefix("Debian "));
    mirror
        .map(str::to_owned)
        .ok_or_else(|| "SKIPPED: this machine's apt knows no mirror of Debian's".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_names_what_would_be_installed() {
        let plan = "NOTE: simulated\nInst clang-19 (1:19.1 Debian:12 [amd64])\n\
                    Inst libelf-dev (0.188 [amd64])\nConf clang-19 (1:19.1)\n";
        let names: Vec<&str> = installed_by(plan).collect();
        assert_eq!(names, ["clang-19", "libelf-dev"]);
    }
}
