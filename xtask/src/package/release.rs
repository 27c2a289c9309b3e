//! Version and date of the packages.

use std::process::Command;

use crate::process::{Outcome, capture, root};

/// A version of the packages.
pub struct Release {
    /// Version of the program.
    pub version: String,
    /// Number of the package among those of this version.
    pub number: u32,
    /// Date of every file, in seconds since 1970.
    pub date: u32,
}

impl Release {
    /// The release of these sources.
    ///
    /// # Errors
    ///
    /// The sources have no date: no commit, and no `SOURCE_DATE_EPOCH`.
    pub fn of_this_tree(number: u32) -> Outcome<Release> {
        // All crates of the workspace have one version.
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let date = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(date) => parse("SOURCE_DATE_EPOCH", &date)?,
            Err(_) => parse("the date of the last commit", &date_of_commit()?)?,
        };
        Ok(Release {
            version,
            number,
            date,
        })
    }

    /// Version and number, as package managers compare them.
    pub fn full(&self) -> String {
        format!("{}-{}", self.version, self.number)
    }
}

fn date_of_commit() -> Outcome<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(root());
    capture(&mut git).map_err(|error| {
        format!("the packages need a date: set SOURCE_DATE_EPOCH, in seconds ({error})").into()
    })
}

fn parse(what: &str, text: &str) -> Outcome<u32> {
    text.trim()
        .parse()
        .map_err(|error| format!("{what} is no number of seconds: {text:?} ({error})").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_that_is_no_number_is_named_with_its_variable() {
        assert_eq!(parse("X", "12\n").unwrap(), 12);
        let error = parse("SOURCE_DATE_EPOCH", "today").unwrap_err().to_string();
        assert!(error.contains("SOURCE_DATE_EPOCH") && error.contains("today"));
    }
}
