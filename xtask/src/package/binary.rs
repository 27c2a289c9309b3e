//! The binary: built, freed of debugging information, and asked for its processor and libraries.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::process::{Outcome, capture, cargo, run};

/// How a binary is linked.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Link {
    /// With the system's C library
    Shared,
    /// With a copy of glibc inside; runs without any library
    Static,
    /// With musl inside, which rustup's target x86_64-unknown-linux-musl has
    Musl,
}

/// A program for one kind of processor.
pub struct Binary {
    /// Where a copy can be started.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    pub machine: Machine,
    /// The newest version of glibc that it asks for, `2.34`. `None` for a static binary.
    pub glibc: Option<String>,
}

/// A processor and its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub debian: &'static str,
    pub red_hat: &'static str,
}

const MACHINES: [(u16, Machine); 2] = [
    (
        62,
        Machine {
            debian: "amd64",
            red_hat: "x86_64",
        },
    ),
    (
        183,
        Machine {
            debian: "arm64",
            red_hat: "aarch64",
        },
    ),
];

/// Builds the server's optimised binary.
pub fn build(link: Link) -> Outcome<PathBuf> {
    let mut command = cargo(&["build", "--release", "--package", "cli"]);
    command.args(["--locked", "--message-format=json-render-diagnostics"]);
    match link {
        Link::Shared => {}
        Link::Static => {
            // The target is named so that macros of the build stay shared libraries.
            command.args(["--target", &host()?]);
            command.env("RUSTFLAGS", "-C target-feature=+crt-static");
        }
        Link::Musl => {
            let target = host()?.replace("-gnu", "-musl");
            check_target(&target)?;
            command.args(["--target", &target]);
        }
    }
    let messages = capture(&mut command)?;
    let mut lines = messages.lines().rev();
    let built = lines.find_map(executable);
    built.ok_or_else(|| "cargo has not said where the binary is".into())
}

/// The path in one of cargo's messages.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some(PathBuf::from(message["executable"].as_str()?))
}

fn host() -> Outcome<String> {
    let host = capture(Command::new("rustc").args(["--print", "host-tuple"]))?;
    Ok(host.trim().to_owned())
}

fn check_target(target: &str) -> Outcome {
    let libraries =
        capture(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    if Path::new(libraries.trim()).exists() {
        return Ok(());
    }
    Err(format!("SKIPPED: the target is missing: `rustup target add {target}` installs it").into())
}

impl Binary {
    /// Copies the binary into `place` without debugging information, and reads it.
    pub fn read(from: &Path, place: &Path) -> Outcome<Binary> {
        if !from.is_file() {
            return Err(format!("{}: no such file; see --binary", from.display()).into());
        }
        let path = place.join("inkstone");
        // Symbols stay, for panics and profiles. binutils is there wherever Rust can link.
        run(Command::new("strip")
            .args(["--strip-debug", "-o"])
            .args([&path, from]))?;
        let bytes = fs::read(&path)?;
        let header = Elf::read(&bytes).ok_or_else(|| not_for_linux(from))?;
        let machine = MACHINES.iter().find(|(code, _)| *code == header.machine);
        let machine = machine.ok_or_else(|| not_for_linux(from))?.1;
        let glibc = header.is_shared.then(|| newest_glibc(&bytes)).flatten();
        if header.is_shared && glibc.is_none() {
            return Err(not_for_linux(from).into());
        }
        Ok(Binary {
            path,
            bytes,
            machine,
            glibc,
        })
    }

    /// Fails unless the binary is Inkstone of this version.
    pub fn check_version(&self, version: &str) -> Outcome {
        let printed = self.printed(&["--version"])?;
        let line = format!("Inkstone Version: {version}");
        match printed.lines().any(|printed| printed == line) {
            true => Ok(()),
            false => Err(format!(
                "the binary is not Inkstone {version}, the version of these sources; its \
                 --version prints {printed:?}; see --binary"
            )
            .into()),
        }
    }

    /// Runs the binary with these words; returns its output.
    pub fn printed(&self, words: &[&str]) -> Outcome<String> {
        capture(Command::new(&self.path).args(words))
    }
}

fn not_for_linux(path: &Path) -> String {
    format!(
        "{}: no program for Linux on x86-64 or arm64, static or with glibc; see --binary",
        path.display()
    )
}

/// The parts of an ELF header that a package names.
struct Elf {
    machine: u16,
    /// Whether a dynamic linker starts it.
    is_shared: bool,
}

impl Elf {
    /// `None` if the bytes are no ELF file of 64 bits, little-endian.
    fn read(bytes: &[u8]) -> Option<Elf> {
        const INTERPRETER: u32 = 3;
        bytes.strip_prefix(b"\x7fELF\x02\x01")?;
        let machine = u16::from_le_bytes(at(bytes, 0x12)?);
        let table = usize::try_from(u64::from_le_bytes(at(bytes, 0x20)?)).ok()?;
        let row_bytes = usize::from(u16::from_le_bytes(at(bytes, 0x36)?));
        let rows = usize::from(u16::from_le_bytes(at(bytes, 0x38)?));
        let mut is_shared = false;
        for row in 0..rows {
            let start = table.checked_add(row * row_bytes)?;
            is_shared |= u32::from_le_bytes(at(bytes, start)?) == INTERPRETER;
        }
        Some(Elf { machine, is_shared })
    }
}

fn at<const BYTES: usize>(bytes: &[u8], start: usize) -> Option<[u8; BYTES]> {
    bytes.get(start..)?.first_chunk().copied()
}

/// The highest version among the names of versions that the binary asks for.
fn newest_glibc(bytes: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"GLIBC_2.";
    let names = bytes.windows(NAME.len()).enumerate();
    let names = names.filter(|(_, window)| *window == NAME);
    let minor = names.filter_map(|(start, _)| {
        let digits = bytes[start + NAME.len()..].iter();
        let digits: String = digits
            .map_while(|byte| byte.is_ascii_digit().then_some(char::from(*byte)))
            .collect();
        digits.parse::<u32>().ok()
    });
    minor.max().map(|minor| format!("2.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts_as_a_number() {
        let bytes = b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_2.\0";
        assert_eq!(newest_glibc(bytes).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc(b"GLIBC_PRIVATE"), None);
    }

    #[test]
    fn this_test_is_a_shared_program_for_this_machine() {
        let bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        let header = Elf::read(&bytes).unwrap();
        assert!(header.is_shared);
        let machine = MACHINES.iter().find(|(code, _)| *code == header.machine);
        assert_eq!(machine.unwrap().1.red_hat, std::env::consts::ARCH);
    }

    #[test]
    fn files_that_are_no_program_are_refused() {
        assert!(Elf::read(b"#!/bin/sh\n").is_none());
        assert!(Elf::read(b"\x7fELF\x02\x01").is_none());
        let place = tempfile::tempdir().unwrap();
        let error = Binary::read(Path::new("/nope"), place.path())
            .err()
            .unwrap();
        assert!(error.to_string().contains("/nope"));
    }

    #[test]
    fn another_program_or_version_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let binary = Binary::read(Path::new("/bin/true"), place.path()).unwrap();
        let error = binary.check_version("9.9").unwrap_err().to_string();
        assert!(
            error.contains("9.9") && error.contains("--binary"),
            "{error}"
        );
    }

    #[test]
    fn the_executable_is_taken_from_cargo_s_messages() {
        let message = r#"{"reason":"compiler-artifact","executable":"/t/inkstone"}"#;
        assert_eq!(executable(message), Some(PathBuf::from("/t/inkstone")));
        assert_eq!(executable(r#"{"executable":null}"#), None);
        assert_eq!(executable("warning: x"), None);
    }
}
