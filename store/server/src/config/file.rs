//! The configuration file: the flags as keys of a YAML mapping.
//!
//! etcd's files group the TLS settings in two sections and write durations
//! as nanoseconds; both are understood, and a duration may also be written
//! as on the command line. With a file, flags and variables are ignored,
//! as in etcd.

use std::path::Path;

use yaml_rust2::yaml::Hash;
use yaml_rust2::{Yaml, YamlLoader};

use super::error::Error;
use super::flags::Flag;

/// The settings of a configuration file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Pairs of a flag's name and its text.
    pub(super) given: Vec<(&'static str, String)>,
    /// Keys that are the name of no flag.
    pub(super) unknown: Vec<String>,
}

/// Reads the text of a file.
pub(super) fn parse(path: &Path, text: &str) -> Result<Contents, Error> {
    let refuse = |message: String| Error::File {
        path: path.to_owned(),
        message,
    };
    let documents = YamlLoader::load_from_str(text).map_err(|error| refuse(error.to_string()))?;
    let mut contents = Contents::default();
    match documents.first() {
        None | Some(Yaml::Null) => {}
        Some(Yaml::Hash(keys)) => contents.read("", keys).map_err(refuse)?,
        Some(_) => return Err(refuse("expected a mapping of keys to values".into())),
    }
    Ok(contents)
}

impl Contents {
    /// Takes over every key; the flag of a key in a section has the section's prefix.
    fn read(&mut self, prefix: &str, keys: &Hash) -> Result<(), String> {
        for (key, value) in keys {
            let Some(key) = key.as_str() else {
                return Err(format!("{key:?} is not the name of a setting"));
            };
            match value {
                Yaml::Hash(section) => self.read(section_prefix(key)?, section)?,
                value => self.take(&format!("{prefix}{key}"), value)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, key: &str, value: &Yaml) -> Result<(), String> {
        let Some(flag) = Flag::named(flag_name(key)) else {
            self.unknown.push(key.to_owned());
            return Ok(());
        };
        if let Some(text) = scalar(flag, value).map_err(|why| format!("{key}: {why}"))? {
            self.given.push((flag.name, text));
        }
        Ok(())
    }
}

/// Sections of etcd's file and the prefix their keys have as flags.
fn section_prefix(section: &str) -> Result<&'static str, String> {
    Ok(match section {
        "client-transport-security" => "",
        "peer-transport-security" => "peer-",
        "discovery-config" => "discovery-",
        "socket-options" => "socket-",
        _ => return Err(format!("{section} is not a section")),
    })
}

/// The flag that a key sets; some keys have another name than their flag.
fn flag_name(key: &str) -> &str {
    match key {
        "peer-allowed-cn" | "peer-allowed-cns" => "peer-cert-allowed-cn",
        "peer-allowed-hostname" | "peer-allowed-hostnames" => "peer-cert-allowed-hostname",
        "allowed-hostname" | "allowed-hostnames" => "client-cert-allowed-hostname",
        "socket-reuse-port" | "socket-reusePort" => "socket-reuse-port",
        "socket-reuse-address" | "socket-reuseAddress" => "socket-reuse-address",
        key => key,
    }
}

/// The text of a value; `None` for one left empty.
fn scalar(flag: &Flag, value: &Yaml) -> Result<Option<String>, String> {
    Ok(Some(match value {
        Yaml::Null => return Ok(None),
        Yaml::String(text) | Yaml::Real(text) => text.clone(),
        Yaml::Boolean(value) => value.to_string(),
        // Go writes a duration into YAML as nanoseconds.
        Yaml::Integer(number) if flag.is_duration() => format!("{number}ns"),
        Yaml::Integer(number) => number.to_string(),
        Yaml::Array(items) => items
            .iter()
            .map(|item| item.as_str().ok_or("expected a list of texts"))
            .collect::<Result<Vec<_>, _>>()?
            .join(","),
        _ => return Err("expected a text, a number, true or false".into()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Vec<(&'static str, String)> {
        parse(Path::new("f.yaml"), text).unwrap().given
    }

    #[test]
    fn keys_are_flags() {
        let file = "name: n1\nquota-backend-bytes: 53248\npre-vote: true\nlog-outputs: [stderr, a.log]\nwal-dir:\n";
        assert_eq!(
            given(file),
            [
                ("name", "n1".to_owned()),
                ("quota-backend-bytes", "53248".to_owned()),
                ("pre-vote", "true".to_owned()),
                ("log-outputs", "stderr,a.log".to_owned()),
            ]
        );
    }

    #[test]
    fn durations_are_nanoseconds_or_text() {
        let file = "grpc-keepalive-timeout: 20000000000\ngrpc-keepalive-interval: 2h\n";
        assert_eq!(
            given(file),
            [
                ("grpc-keepalive-timeout", "20000000000ns".to_owned()),
                ("grpc-keepalive-interval", "2h".to_owned()),
            ]
        );
    }

    #[test]
    fn sections_are_flags_with_a_prefix() {
        let file = "client-transport-security:\n  cert-file: a\npeer-transport-security:\n  auto-tls: true\n";
        assert_eq!(
            given(file),
            [
                ("cert-file", "a".to_owned()),
                ("peer-auto-tls", "true".to_owned())
            ]
        );
    }

    #[test]
    fn unknown_keys_are_collected_and_broken_files_named() {
        assert_eq!(parse(Path::new("f"), "frob: 1").unwrap().unknown, ["frob"]);
        for text in ["- a", "a: [", "nested:\n  a: 1"] {
            let error = parse(Path::new("broken.yaml"), text)
                .unwrap_err()
                .to_string();
            assert!(error.contains("broken.yaml"), "{error}");
        }
        assert!(given("").is_empty());
    }
}
