//! Combines command line, environment and configuration file to one text per flag.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::flags::{Flag, Support};
use super::{arguments, file};

/// Sources of a configuration besides the command line.
pub struct Surroundings<'a> {
    /// The environment's variables.
    pub variables: &'a [(String, String)],
    /// Reads a whole file; the error is the reason as text.
    pub read_file: &'a dyn Fn(&Path) -> Result<String, String>,
}

impl Surroundings<'_> {
    /// Whether the variable with which Go's programs are debugged asks for the frames of HTTP/2.
    pub(super) fn debugs_http2(&self) -> bool {
        let mut variables = self.variables.iter().filter(|(name, _)| name == "GODEBUG");
        variables.any(|(_, text)| text.split(',').any(|part| part == "http2debug=2"))
    }
}

/// One text per flag, with warnings about where it came from.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Flags that a source sets; every other flag has its default.
    given: BTreeMap<&'static str, String>,
    /// Warnings to be logged once logging is set up.
    pub(super) warnings: Vec<String>,
    /// The configuration file; if there is one, it is the only source.
    file: Option<PathBuf>,
    /// Flags that were set by their variable.
    variables: BTreeSet<&'static str>,
}

/// Combines the sources.
pub(super) fn gather(
    arguments: arguments::Arguments,
    surroundings: &Surroundings<'_>,
) -> Result<Gathered, Error> {
    let mut gathered = Gathered::default();
    for name in &arguments.experimental {
        let plain = name.trim_start_matches("experimental-");
        gathered.warn(format!("--{name} is called --{plain} since etcd 3.6"));
    }
    gathered.take_variables(surroundings.variables);
    for (name, text) in arguments.given {
        gathered.variables.remove(name);
        gathered.given.insert(name, text);
    }
    if let Some(path) = gathered
        .given
        .get("config-file")
        .filter(|path| !path.is_empty())
    {
        let path = Path::new(path).to_owned();
        gathered = from_file(&path, surroundings)?;
    }
    Ok(gathered)
}

fn from_file(path: &Path, surroundings: &Surroundings<'_>) -> Result<Gathered, Error> {
    let text = (surroundings.read_file)(path).map_err(|message| Error::File {
        path: path.to_owned(),
        message,
    })?;
    let contents = file::parse(path, &text)?;
    let mut gathered = Gathered {
        given: contents.given.into_iter().collect(),
        file: Some(path.to_owned()),
        ..Gathered::default()
    };
    gathered.warn(format!(
        "all settings are read from {}; flags and variables are ignored",
        path.display()
    ));
    for key in contents.unknown {
        gathered.warn(format!(
            "{}: {key} is not the name of a setting and is ignored",
            path.display()
        ));
    }
    Ok(gathered)
}

impl Gathered {
    /// Adds to an error about a flag where the flag was set, if not on the command line.
    pub(super) fn name(&self, error: Error) -> Error {
        let place = match (&self.file, error.flag()) {
            (Some(path), _) => format!("configuration file {}", path.display()),
            (None, Some(flag)) if self.variables.contains(flag) => {
                let flag = Flag::named(flag).expect("errors name flags of the table");
                format!("variable {}", flag.variable())
            }
            _ => return error,
        };
        Error::Within {
            place,
            error: Box::new(error),
        }
    }

    /// The text of a flag.
    pub(super) fn text(&self, name: &'static str) -> &str {
        match self.given.get(name) {
            Some(text) => text,
            None => {
                Flag::named(name)
                    .expect("settings ask for flags of the table")
                    .default
            }
        }
    }

    /// Whether any source sets the flag.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Whether a source sets the flag to another value than its default.
    pub(super) fn is_changed(&self, name: &'static str) -> Result<bool, Error> {
        let flag = Flag::named(name).expect("settings ask for flags of the table");
        Ok(self.is_given(name) && !flag.is_default(self.text(name))?)
    }

    /// Adds a warning to be logged later.
    pub(super) fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    fn take_variables(&mut self, variables: &[(String, String)]) {
        for (variable, text) in variables
            .iter()
            .filter(|(name, _)| name.starts_with("ETCD_"))
        {
            match Flag::all().iter().find(|flag| flag.variable() == *variable) {
                Some(flag) if flag.name == "version" => {}
                // An empty variable counts as unset, as in etcd.
                Some(_) if text.is_empty() => {}
                Some(flag) => {
                    self.variables.insert(flag.name);
                    self.given.insert(flag.name, text.clone());
                }
                None => self.warn(format!(
                    "unrecognized environment variable {variable}={text}"
                )),
            }
        }
    }

    /// Refuses flags of missing features, and warns of flags without effect.
    pub(super) fn judge(&mut self) -> Result<(), Error> {
        let mut idle = Vec::new();
        for (name, text) in &self.given {
            let flag = Flag::named(name).expect("only flags of the table are gathered");
            idle.extend(deprecation(name).map(str::to_owned));
            if flag.is_default(text)? {
                continue;
            }
            match flag.support {
                Support::Served => {}
                Support::Idle => idle.push(without_effect(flag, text)),
                Support::Later => {
                    return Err(Error::NotYet {
                        flag: flag.name,
                        text: text.clone(),
                        what: flag.about,
                    });
                }
            }
        }
        self.warnings.append(&mut idle);
        Ok(())
    }
}

/// The warning about a flag that changes nothing here.
fn without_effect(flag: &Flag, text: &str) -> String {
    let (name, why) = (flag.name, flag.about);
    match name {
        // etcd's words for a start on which it does not defragment.
        "bootstrap-defrag-threshold-megabytes" => {
            format!("Skipping defragmentation: --{name}={text} has no effect: {why}")
        }
        _ => format!("--{name}={text} has no effect: {why}"),
    }
}

/// etcd's warning about a flag that it will drop, whatever its value.
fn deprecation(name: &str) -> Option<&'static str> {
    match name {
        "max-snapshots" => {
            Some("--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8.")
        }
        "v2-deprecation" => Some(
            "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value \
             is enforced, ignoring user input.",
        ),
        _ => None,
    }
}
