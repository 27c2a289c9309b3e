//! Folders that a verb creates. The lab remembers which of them it created, so that a
//! measurement that never began can remove them again.

use std::path::{Path, PathBuf};

use crate::record::{FILE, FILE_PLAIN};

/// A folder, and which of it and its ancestors this process created.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Created folders, the innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Creates the folder where it is missing. Errors name `option` as the way to choose
    /// another folder.
    pub fn make(path: &Path, option: &str) -> Result<Folder, String> {
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let missing = path.ancestors().filter(is_missing);
        let folder = Folder {
            path: path.to_owned(),
            made: missing.map(Path::to_owned).collect(),
        };
        let shown = path.display();
        if path.exists() && !path.is_dir() {
            return Err(format!("{shown} is no folder: name one with {option}"));
        }
        if let Err(error) = std::fs::create_dir_all(path) {
            folder.remove();
            return Err(format!(
                "cannot make the folder {shown}: {error}; name another with {option}"
            ));
        }
        Ok(folder)
    }

    /// Creates the folder of a new record; refuses a folder that holds a record already.
    pub fn for_record(path: &Path) -> Result<Folder, String> {
        let records = [FILE, FILE_PLAIN].map(|name| path.join(name));
        if let Some(record) = records.iter().find(|record| record.exists()) {
            return Err(format!(
                "{} is there already and stays as it is: name another folder with --out, or \
                 remove it",
                record.display()
            ));
        }
        Folder::make(path, "--out")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the record in this folder.
    pub fn record(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// Removes the folders that this process created. A folder that is not empty stays.
    pub fn remove(&self) {
        for folder in &self.made {
            if std::fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_folders_are_removed_and_existing_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        let mine = root.path().join("mine");
        std::fs::create_dir(&mine).unwrap();
        Folder::make(&mine.join("a/b"), "--out").unwrap().remove();
        assert!(mine.exists() && !mine.join("a").exists());
        Folder::make(&mine, "--out").unwrap().remove();
        assert!(mine.exists());
        let used = Folder::make(&mine.join("c/d"), "--out").unwrap();
        std::fs::write(mine.join("c/theirs"), "").unwrap();
        used.remove();
        assert!(mine.join("c/theirs").exists() && !mine.join("c/d").exists());
    }

    #[test]
    fn a_record_is_not_written_over() {
        let root = tempfile::tempdir().unwrap();
        for name in [FILE, FILE_PLAIN] {
            let folder = root.path().join(name.len().to_string());
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(name), "mine").unwrap();
            let error = Folder::for_record(&folder).unwrap_err();
            assert!(error.contains(name) && error.contains("--out"), "{error}");
        }
    }

    #[test]
    fn a_file_in_place_of_a_folder_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Folder::make(file.path(), "--directory").unwrap_err();
        assert!(
            error.contains("is no folder") && error.contains("--directory"),
            "{error}"
        );
        let error = Folder::make(&file.path().join("below"), "--out").unwrap_err();
        assert!(error.contains("cannot make"), "{error}");
    }
}
