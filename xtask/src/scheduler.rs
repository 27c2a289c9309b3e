//! `handoff-scheduler`, built beside `handoff`: it takes clang and libelf, which are
//! fetched for this build alone if the machine does not have them.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    packages::{self, Source},
    process::{Outcome, cargo, root, run},
};

const MANIFEST: &str = "locks/handoff-scheduler/Cargo.toml";
const PACKAGES: [&str; 2] = ["clang-19", "libelf-dev"];
/// Within the unpacked packages.
const COMPILER: &str = "usr/lib/llvm-19/bin/clang";

/// Builds it into `target/release`.
pub fn build() -> Outcome<PathBuf> {
    let mut command = cargo(&["build", "--release", "--manifest-path", MANIFEST]);
    command.arg("--target-dir").arg(root().join("target"));
    prepare(&mut command)?;
    run(&mut command)?;
    let built = root().join("target/release/handoff-scheduler");
    println!("built {}", built.display());
    Ok(built)
}

/// Tests it; needs root, and skips what the kernel does not allow.
pub fn test() -> Outcome {
    let mut command = cargo(&["test", "--manifest-path", MANIFEST]);
    command.arg("--target-dir").arg(root().join("target"));
    prepare(&mut command)?;
    run(&mut command)
}

/// Gives the build a compiler and headers if the machine has none.
fn prepare(command: &mut Command) -> Outcome {
    let has_clang = std::env::var_os("BPF_CLANG").is_some() || answers("clang");
    if has_clang && Path::new("/usr/include/libelf.h").exists() {
        return Ok(());
    }
    packages::check_machine()?;
    let folder = root().join("target/bpf-tools");
    let unpacked = packages::unpacked(&folder, &Source::System, &PACKAGES)?;
    let libraries = packages::library_path(&unpacked);
    command
        .env("BPF_CLANG", compiler(&folder, &unpacked)?)
        .env("C_INCLUDE_PATH", unpacked.join("usr/include"))
        .env("LIBRARY_PATH", &libraries)
        .env(
            "RUSTFLAGS",
            format!("-L {}", libraries.replace(':', " -L ")),
        );
    Ok(())
}

fn answers(program: &str) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// A script that starts the unpacked compiler with its own libraries.
fn compiler(folder: &Path, unpacked: &Path) -> Outcome<PathBuf> {
    let path = folder.join("clang");
    let script = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
        packages::library_path(unpacked),
        unpacked.join(COMPILER).display()
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}
