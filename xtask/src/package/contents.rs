//! The files of a package, by path.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    path::Path,
};

use super::{Format, archive, binary::Binary};
use crate::process::{Outcome, root};

/// Where the names of etcd's programs lie. They are not in `usr/bin`, where etcd's own package has
/// them.
const NAMES: &str = "usr/lib/inkstone/bin";
const DOCUMENTS: &str = "usr/share/doc/inkstone";
/// Settings of the service; an upgrade keeps changes to them.
pub const SETTINGS: &str = "etc/default/inkstone";

/// A file or a link.
pub struct Entry {
    pub mode: u32,
    pub kind: Kind,
}

/// Kind of an entry, with its bytes or target.
pub enum Kind {
    File(Vec<u8>),
    /// A symbolic link to this target.
    Link(String),
}

/// Files and links by their paths from the root, without a slash in front.
#[derive(Default)]
pub struct Contents(BTreeMap<String, Entry>);

impl Contents {
    /// The files of a package of this format.
    pub fn gather(format: Format, binary: &Binary) -> Outcome<Contents> {
        let mut contents = Contents::default();
        contents.push("usr/bin/inkstone", 0o755, binary.bytes.clone());
        contents.push_names();
        contents.push_completions(format, binary)?;
        contents.push_pages(binary)?;
        contents.push_documents()?;
        if format == Format::Tar {
            contents.push_folder("deploy", "deploy")?;
        } else {
            contents.push_service()?;
        }
        Ok(contents)
    }

    fn push_names(&mut self) {
        for name in ["etcd", "etcdctl", "etcdutl"] {
            self.push_link(&format!("{NAMES}/{name}"), "../../../bin/inkstone");
        }
    }

    /// Scripts where each shell of the distribution looks for them.
    fn push_completions(&mut self, format: Format, binary: &Binary) -> Outcome {
        let zsh = match format {
            Format::Deb => "zsh/vendor-completions/_inkstone",
            Format::Rpm | Format::Tar => "zsh/site-functions/_inkstone",
        };
        for (shell, path) in [
            ("bash", "bash-completion/completions/inkstone"),
            ("zsh", zsh),
            ("fish", "fish/vendor_completions.d/inkstone.fish"),
        ] {
            let script = binary.printed(&["completions", shell])?;
            self.push(&format!("usr/share/{path}"), 0o644, script);
        }
        Ok(())
    }

    fn push_pages(&mut self, binary: &Binary) -> Outcome {
        let place = tempfile::tempdir()?;
        let directory = place.path().to_str().ok_or("TMPDIR is no text")?;
        binary.printed(&["manual", directory])?;
        for (name, page) in files(place.path())? {
            let path = format!("usr/share/man/man1/{name}.gz");
            self.push(&path, 0o644, archive::gz(&page)?);
        }
        Ok(())
    }

    fn push_documents(&mut self) -> Outcome {
        self.push_folder("docs/use", DOCUMENTS)?;
        for (from, to) in [
            ("LICENSE", "copyright"),
            ("README.md", "README.md"),
            ("CHANGELOG.md", "CHANGELOG.md"),
        ] {
            self.push_copy(from, &format!("{DOCUMENTS}/{to}"))?;
        }
        Ok(())
    }

    fn push_service(&mut self) -> Outcome {
        for (from, to) in [
            (
                "inkstone.service",
                "usr/lib/systemd/system/inkstone.service",
            ),
            ("inkstone.sysusers", "usr/lib/sysusers.d/inkstone.conf"),
            ("inkstone.default", SETTINGS),
        ] {
            self.push_copy(&format!("deploy/systemd/{from}"), to)?;
        }
        Ok(())
    }

    /// A folder of the repository with all below it.
    fn push_folder(&mut self, from: &str, to: &str) -> Outcome {
        for entry in fs::read_dir(root().join(from)).map_err(|error| format!("{from}: {error}"))? {
            let entry = entry?;
            let name = name(&entry.file_name())?;
            let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
            match entry.file_type()?.is_dir() {
                true => self.push_folder(&from, &to)?,
                false => self.push_copy(&from, &to)?,
            }
        }
        Ok(())
    }

    /// A file of the repository.
    fn push_copy(&mut self, from: &str, to: &str) -> Outcome {
        let bytes = fs::read(root().join(from)).map_err(|error| format!("{from}: {error}"))?;
        self.push(to, 0o644, bytes);
        Ok(())
    }

    /// Adds a file.
    pub fn push(&mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) {
        let kind = Kind::File(bytes.into());
        self.0.insert(path.to_owned(), Entry { mode, kind });
    }

    /// Adds a symbolic link.
    pub fn push_link(&mut self, path: &str, target: &str) {
        let (mode, kind) = (0o777, Kind::Link(target.to_owned()));
        self.0.insert(path.to_owned(), Entry { mode, kind });
    }

    /// All entries in the order of their paths.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// All directories above the entries, each before those below it.
    pub fn directories(&self) -> BTreeSet<&str> {
        let mut directories = BTreeSet::new();
        for path in self.0.keys() {
            let slashes = path.match_indices('/');
            directories.extend(slashes.map(|(end, _)| &path[..end]));
        }
        directories
    }

    /// The entries below `usr/` at their paths from there, and those outside of it as they are.
    pub fn without_usr(self) -> Contents {
        let shorter = |(path, entry): (String, Entry)| {
            let short = path.strip_prefix("usr/").map(str::to_owned);
            (short.unwrap_or(path), entry)
        };
        Contents(self.0.into_iter().map(shorter).collect())
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let sizes = self.0.values().map(|entry| match &entry.kind {
            Kind::File(bytes) => bytes.len() as u64,
            Kind::Link(_) => 0,
        });
        sizes.sum()
    }
}

/// The files of a directory, with their names.
fn files(directory: &Path) -> Outcome<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files.push((name(&entry.file_name())?, fs::read(entry.path())?));
    }
    Ok(files)
}

fn name(name: &OsStr) -> Outcome<String> {
    let text = name.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("the name of a file is no text: {}", name.display()).into())
}
