//! The files that the house rules check.

use std::path::{Path, PathBuf};

use crate::process::Outcome;

/// One text file of the repository.
pub struct Source {
    /// Relative to the root, with `/` between the parts.
    pub path: String,
    pub text: String,
}

const KINDS: [&str; 6] = ["rs", "proto", "toml", "md", "txt", "sh"];
const SKIPPED: [&str; 5] = ["target", ".git", "corpus", "artifacts", "lab-results"];

/// Every text file of ours, in the order of the paths.
pub fn read(root: &Path) -> Outcome<Vec<Source>> {
    let mut paths = Vec::new();
    collect(root, &mut paths)?;
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let path = path.strip_prefix(root)?.to_string_lossy().into_owned();
            Ok(Source { path, text })
        })
        .collect()
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> Outcome {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if !SKIPPED.iter().any(|skipped| name == **skipped) {
                collect(&path, paths)?;
            }
        } else if KINDS
            .iter()
            .any(|kind| path.extension().is_some_and(|extension| extension == *kind))
        {
            paths.push(path);
        }
    }
    Ok(())
}
