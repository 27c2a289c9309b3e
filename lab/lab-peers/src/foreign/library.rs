//! A shared library of the system, opened when a run needs it.

use std::path::{Path, PathBuf};

use lab::targets::Failure;

/// A library that a target needs, and where to find it.
#[derive(Debug)]
pub struct Wanted {
    /// Prefix of all its functions, and name of its file after `lib`.
    pub name: &'static str,
    /// File names; the first that can be opened is used.
    pub files: &'static [&'static str],
    /// Name of the package in Debian and Ubuntu.
    pub package: &'static str,
    /// Environment variable with the path of another build of the library.
    pub variable: &'static str,
}

/// An open library. It is never closed, because the exit of the process may still run its
/// code.
#[derive(Debug)]
pub struct Library {
    wanted: &'static Wanted,
    library: &'static libloading::Library,
}

impl Library {
    /// Opens the library. The error names the package to install.
    pub fn open(wanted: &'static Wanted) -> Result<Library, Failure> {
        let named = std::env::var_os(wanted.variable).map(PathBuf::from);
        let files = match &named {
            Some(path) => vec![path.as_path()],
            None => wanted.files.iter().map(Path::new).collect(),
        };
        let mut complaints = Vec::new();
        for file in files {
            // SAFETY: initialisers of LevelDB and RocksDB only register themselves; a
            // user that names another file is responsible for it.
            match unsafe { libloading::Library::new(file) } {
                Ok(library) => {
                    let library = Box::leak(Box::new(library));
                    return Ok(Library { wanted, library });
                }
                Err(error) => complaints.push(complaint(file, &error)),
            }
        }
        Err(format!(
            "target {}: its library is not on this machine ({}). Install the package {} \
             (Debian, Ubuntu), or name a file: {}=/path/lib{}.so",
            wanted.name,
            complaints.join("; "),
            wanted.package,
            wanted.variable,
            wanted.name
        )
        .into())
    }

    /// Looks up the function with this name behind the prefix.
    ///
    /// # Safety
    ///
    /// `Function` must be a pointer to a function with the signature that the
    /// library's header gives it.
    pub unsafe fn function<Function: Copy>(&self, name: &str) -> Result<Function, Failure> {
        let name = format!("{}_{name}", self.wanted.name);
        // SAFETY: the caller guarantees the signature.
        match unsafe { self.library.get::<Function>(&name) } {
            Ok(function) => Ok(*function),
            Err(error) => {
                let target = self.wanted.name;
                Err(format!("target {target}: its library has no {name}: {error}").into())
            }
        }
    }

    /// The version, from the part of the file's name behind `.so.`; the C interfaces do not
    /// report the whole version.
    pub fn version(&self) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        version_in(&maps, self.wanted.name)
    }
}

/// The message of the system's loader, which is the source of `error`, with the file's name.
fn complaint(file: &Path, error: &libloading::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let cause = cause.unwrap_or_else(|| error.to_string());
    match cause.contains(&*file.to_string_lossy()) {
        true => cause,
        false => format!("{}: {cause}", file.display()),
    }
}

fn version_in(maps: &str, name: &str) -> Option<String> {
    let beginning = format!("lib{name}.so.");
    let mut files = maps.lines().filter_map(|line| line.rsplit('/').next());
    files.find_map(|file| file.strip_prefix(&beginning).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_name_of_the_mapped_file() {
        let maps = "7f00-7f01 r-xp 0 fd:00 1 /lib/libc.so.6\n\
                    7f02-7f03 r-xp 0 fd:00 2 /lib/libleveldb.so.1.23.0\n";
        assert_eq!(version_in(maps, "leveldb").as_deref(), Some("1.23.0"));
        assert_eq!(version_in(maps, "rocksdb"), None);
    }

    #[test]
    fn a_missing_library_names_its_package() {
        static NOWHERE: Wanted = Wanted {
            name: "nowhere",
            files: &["libnowhere.so.1"],
            package: "libnowhere1",
            variable: "LAB_NOWHERE",
        };
        let what = Library::open(&NOWHERE).unwrap_err().to_string();
        for word in ["libnowhere.so.1", "libnowhere1", "LAB_NOWHERE"] {
            assert!(what.contains(word), "{what}");
        }
    }
}
