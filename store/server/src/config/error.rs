//! Errors of a configuration: each message says what to write instead.

use std::path::PathBuf;

/// A configuration that cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A flag that does not exist.
    #[error(
        "unknown flag --{name}{}; `inkstone serve --help` lists them",
        hint(suggestion)
    )]
    UnknownFlag {
        /// The flag as written, without dashes.
        name: String,
        /// The nearest flag there is.
        suggestion: Option<&'static str>,
    },
    /// A word that is not a flag.
    #[error("\"{word}\" is not a valid flag; a boolean takes its value as --flag=false")]
    NotAFlag {
        /// The word.
        word: String,
    },
    /// The command line ended where the value of a flag was expected.
    #[error("flag --{flag} needs a value: --{flag}=VALUE")]
    MissingValue {
        /// The flag.
        flag: &'static str,
    },
    /// A value that cannot be parsed or used.
    #[error("--{flag}={text}: {remedy}")]
    BadValue {
        /// The flag.
        flag: &'static str,
        /// Its value.
        text: String,
        /// What to write instead.
        remedy: String,
    },
    /// A feature of etcd that Inkstone does not have yet.
    #[error("--{flag}={text} asks for {what}, which is not supported yet; leave the flag out")]
    NotYet {
        /// The flag.
        flag: &'static str,
        /// Its value.
        text: String,
        /// What is missing.
        what: &'static str,
    },
    /// The configuration file cannot be read.
    #[error("configuration file {}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// An error about a flag that a variable or the configuration file set.
    #[error("{place}: {error}")]
    Within {
        /// Where the flag was set.
        place: String,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// Two flags contradict each other, or one misses its companion.
    #[error("{0}")]
    Conflict(String),
}

impl Error {
    /// The flag that the error is about, if it is one flag.
    pub(super) fn flag(&self) -> Option<&'static str> {
        match self {
            Error::MissingValue { flag }
            | Error::BadValue { flag, .. }
            | Error::NotYet { flag, .. } => Some(flag),
            _ => None,
        }
    }

    /// Makes an [`Error::BadValue`].
    pub(crate) fn bad(flag: &'static str, text: &str, remedy: impl Into<String>) -> Error {
        Error::BadValue {
            flag,
            text: text.to_owned(),
            remedy: remedy.into(),
        }
    }
}

fn hint(suggestion: &Option<&'static str>) -> String {
    match suggestion {
        Some(name) => format!(", did you mean --{name}?"),
        None => String::new(),
    }
}
