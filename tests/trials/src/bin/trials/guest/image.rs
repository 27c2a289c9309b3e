//! The guest's only file system: an archive in the form that kernels unpack ("newc").

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::process::{Outcome, capture};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
/// The name that ends an archive.
const END: &str = "TRAILER!!!";

/// An archive that is being built.
#[derive(Default)]
pub struct Image {
    archive: Vec<u8>,
    names: BTreeSet<String>,
}

impl Image {
    /// Adds a folder and those above it.
    pub fn folder(&mut self, name: &str) {
        for (end, _) in name.match_indices('/').chain([(name.len(), "")]) {
            if self.names.insert(name[..end].to_owned()) {
                self.entry(&name[..end], DIRECTORY, &[]);
            }
        }
    }

    /// Adds an executable file.
    pub fn file(&mut self, name: &str, bytes: &[u8]) {
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.folder(folder);
        }
        if self.names.insert(name.to_owned()) {
            self.entry(name, PROGRAM, bytes);
        }
    }

    /// Adds a program or a library, and the libraries that it needs, which stay where
    /// they are on this machine.
    pub fn program(&mut self, name: &str, from: &Path, library_path: &str) -> Outcome {
        let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        self.file(name, &bytes);
        for library in libraries(from, library_path)? {
            let bytes = fs::read(&library)?;
            self.file(&in_guest(&library), &bytes);
        }
        Ok(())
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(END, 0, &[]);
        self.archive
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        let number = self.names.len();
        let (length, name_length) = (bytes.len(), name.len() + 1);
        // Number, mode, owner, group, links, time, length, four numbers of devices, length
        // of the name, and a sum that the kernel does not check.
        let mode = mode as usize;
        let fields = [number, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0];
        let fields = fields.map(|field| format!("{field:08x}")).concat();
        self.archive
            .extend(format!("070701{fields}{name}\0").bytes());
        self.pad();
        self.archive.extend(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        while !self.archive.len().is_multiple_of(4) {
            self.archive.push(0);
        }
    }
}

/// Libraries of unpacked packages go where the guest's loader looks.
fn in_guest(library: &Path) -> String {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    match name.starts_with("ld-linux") {
        true => library.to_string_lossy().trim_start_matches('/').to_owned(),
        false => format!("lib/{name}"),
    }
}

/// What the loader would load.
fn libraries(program: &Path, library_path: &str) -> Outcome<Vec<PathBuf>> {
    let mut command = Command::new("ldd");
    command.arg(program).env("LD_LIBRARY_PATH", library_path);
    let listed = capture(&mut command)?;
    if let Some(line) = listed.lines().find(|line| line.contains("not found")) {
        return Err(format!("{} needs {}", program.display(), line.trim()).into());
    }
    Ok(paths(&listed).map(PathBuf::from).collect())
}

fn paths(listed: &str) -> impl Iterator<Item = &str> {
    let words = |line| str::split_whitespace(line).find(|word| word.starts_with('/'));
    listed.lines().filter_map(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_each_folder_once_and_is_padded() {
        let mut image = Image::default();
        image.file("a/b/one", b"12345");
        image.file("a/b/two", b"");
        let archive = image.finish();
        assert!(archive.len().is_multiple_of(4));
        let text = String::from_utf8_lossy(&archive);
        assert_eq!(
            text.matches("070701").count(),
            5,
            "a, a/b, one, two, the end"
        );
        assert!(text.contains("a/b/one\0"));
    }

    #[test]
    fn libraries_are_read_from_what_the_loader_lists() {
        let listed = "\tlinux-vdso.so.1 (0x7f)\n\tlibz.so.1 => /lib/libz.so.1 (0x7f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let all: Vec<&str> = paths(listed).collect();
        assert_eq!(all, ["/lib/libz.so.1", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
