//! Folders that a verb makes for itself: told apart from those that were there, so
//! that a measurement which never began leaves nothing behind.

use std::path::{Path, PathBuf};

/// What a record is called in its folder.
pub const RECORD: &str = "run.json";

/// A folder, and those above it that were not there before.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// The folder, made if need be; `option` is what names another.
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

    /// A folder for a new record: one that has a record already is left as it is.
    pub fn for_record(path: &Path) -> Result<Folder, String> {
        let record = path.join(RECORD);
        if record.exists() {
            return Err(format!(
                "{} is there already and stays as it is: name another folder with --out, or \
                 remove it",
                record.display()
            ));
        }
        Folder::make(path, "--out")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The record in it.
    pub fn record(&self) -> PathBuf {
        self.path.join(RECORD)
    }

    /// Takes back what was made of it. What others have put into it stays.
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
    fn what_was_made_is_removed_and_what_was_there_stays() {
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
        std::fs::write(root.path().join(RECORD), "mine").unwrap();
        let error = Folder::for_record(root.path()).unwrap_err();
        assert!(error.contains(RECORD) && error.contains("--out"), "{error}");
    }

    #[test]
    fn a_file_is_no_folder() {
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
