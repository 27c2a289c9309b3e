//! The preload library: finding it, trying it out, and giving it to a program.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use handoff::hints::Page;

use crate::failure::Failure;

const NAME: &str = "libhandoff_preload.so";

/// Remedy if the library is not found.
const MISSING: &str = "\
Build it with `cargo build --release -p handoff-preload -p handoff-run`,
or say where it is: handoff run --library PATH -- PROGRAM";

/// Remedy if the library was loaded but does not replace the locks.
pub(crate) const ASIDE: &str = "\
The library does not know how this C library keeps its mutexes and stands aside;
docs/use/handoff.md says what it works with.";

/// A library that can be opened.
pub(crate) struct Library {
    /// Absolute, because the program may change its working directory.
    path: PathBuf,
}

impl Library {
    /// Finds the library at the given path, or else beside this program.
    pub(crate) fn find(named: Option<&Path>) -> Result<Library, Failure> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => own_executable()?.with_file_name(NAME),
        };
        let refused = |error: std::io::Error| {
            Failure::not_started(
                format_args!("library {} cannot be opened: {error}", path.display()),
                match error.kind() {
                    std::io::ErrorKind::PermissionDenied => "Make it readable for this user.",
                    _ => MISSING,
                },
            )
        };
        let absolute = path.canonicalize().map_err(refused)?;
        open(&absolute).map_err(refused)?;
        // The loader gives these characters a meaning, and has no quotes.
        let is_listable = !absolute
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|b| b" :$".contains(b));
        if !is_listable {
            return Err(Failure::not_started(
                format_args!(
                    "library {} cannot be named in LD_PRELOAD",
                    absolute.display()
                ),
                "Move it to a path without spaces, colons and dollars.",
            ));
        }
        Ok(Library { path: absolute })
    }

    /// Loads the library into a copy of this program that only prints its help. If it does not
    /// greet from there, the cause is not the program to be run.
    pub(crate) fn try_out(&self, page: &Page, place: &str) -> Result<(), Failure> {
        self.try_out_with(&own_executable()?, page, place)
    }

    fn try_out_with(&self, program: &Path, page: &Page, place: &str) -> Result<(), Failure> {
        let mut command = Command::new(program);
        command.arg("--help").env_clear().stdin(Stdio::null());
        self.preload_into(&mut command, place, None);
        let output = command.output().map_err(|error| {
            Failure::not_started(
                format_args!("{} cannot be started: {error}", program.display()),
                "It is started once to try the library out.",
            )
        })?;
        let path = self.path.display();
        match page.greetings() {
            (1.., _) => Ok(()),
            (0, 1..) => Err(Failure::not_started(
                format_args!("library {path} is of no use here"),
                ASIDE,
            )),
            (0, 0) => Err(Failure::not_started(
                format_args!("library {path} was not loaded, or did not greet"),
                remedy(&output.stderr),
            )),
        }
    }

    /// Gives a command the page, and the library before `others`, which it preloads already.
    pub(crate) fn preload_into(&self, command: &mut Command, page: &str, others: Option<OsString>) {
        let mut list = self.path.clone().into_os_string();
        if let Some(others) = others.filter(|others| !others.is_empty()) {
            list.push(":");
            list.push(others);
        }
        command.env("LD_PRELOAD", list).env("HANDOFF_PAGE", page);
    }
}

/// The messages of the loader or the library, or else possible causes.
fn remedy(errors: &[u8]) -> String {
    let errors = String::from_utf8_lossy(errors);
    let lines: Vec<&str> = errors.lines().filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "Either it is another library, or it cannot open /proc/PROCESS/fd/NUMBER:\n\
                look whether /proc is mounted, and for --monitor and --sched hint whether a\n\
                sandbox forbids pidfd_getfd."
            .to_owned();
    }
    format!(
        "{}\nUse the library of the same release as this program.",
        lines.join("\n")
    )
}

pub(crate) fn own_executable() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::not_started(
            format_args!("cannot tell where this program is: {error}"),
            "Look whether /proc is mounted.",
        )
    })
}

#[expect(clippy::disallowed_methods, reason = "this crate stands alone")]
fn open(path: &Path) -> std::io::Result<()> {
    let file = std::fs::File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::fs::FileExt;

    /// Offset of the version in a page.
    const VERSION_AT: u64 = 8;

    fn built() -> Library {
        let test = std::env::current_exe().unwrap();
        Library::find(Some(&test.with_file_name(NAME))).unwrap()
    }

    fn tried(change: impl FnOnce(&OwnedFd)) -> Result<(), Failure> {
        let (page, file) = Page::create(0).unwrap();
        change(&file);
        let place = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        built().try_out_with(&std::env::current_exe().unwrap(), &page, &place)
    }

    #[test]
    fn the_library_of_the_same_release_works() {
        tried(|_| ()).unwrap();
    }

    #[test]
    fn a_page_of_another_version_is_named() {
        let refused = tried(|file| {
            let file = std::fs::File::from(file.try_clone().unwrap());
            file.write_all_at(&7_u32.to_le_bytes(), VERSION_AT).unwrap();
        });
        let said = format!("{:?}", refused.unwrap_err());
        assert!(said.contains("has version 7"), "{said}");
        assert!(said.contains("same release"), "{said}");
    }
}
