//! `inkstone serve`: the server.
//!
//! Its flags are etcd's, in Go's syntax, which clap does not parse: clap passes
//! the words on as they are. A program that starts `etcd --name x ...` gets
//! the same server under that name, and with `inkstone --name x ...`.

use std::error::Error as _;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use server::config::{Request, Surroundings, resolve};

use crate::failure::Failure;

/// Serve etcd's API from a durable store
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Arguments {
    /// etcd's flags; `inkstone serve --help` lists them
    #[arg(
        value_name = "FLAGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
}

/// Inserts the verb `serve` if it was left out: in a call under the name `etcd` that has no verb of
/// etcd's, and in a call that begins with one of etcd's flags.
pub(crate) fn name_the_verb(mut words: Vec<OsString>) -> Vec<OsString> {
    let program = words.first().map(Path::new).and_then(Path::file_name);
    let called_etcd = program.is_some_and(|name| name == "etcd");
    let first = words.get(1).map(|word| word.to_string_lossy());
    let begins_with_a_flag = first.as_ref().is_some_and(|word| {
        word.starts_with('-') && !matches!(word.as_ref(), "-h" | "--help" | "-help")
    });
    let is_verb = first.is_some_and(|word| word == "gateway");
    if (called_etcd && !is_verb) || begins_with_a_flag {
        words.insert(1, "serve".into());
    }
    words
}

/// Serves until a signal, or the member's removal from its cluster, ends the server.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    // Answers and values are large and short-lived: their memory goes back to the system.
    environment::real::return_large_pieces();
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
        .collect();
    let read_file = |path: &Path| server::read_text(path).map_err(|error| why_unread(&error));
    let surroundings = Surroundings {
        variables: &variables,
        read_file: &read_file,
    };
    match resolve(&arguments.words, &surroundings) {
        Ok(Request::Serve(config)) => server::run(*config).map_err(|error| match error {
            server::Error::Config(error) => Failure::wrong_use(error, ""),
            error => Failure::failed(error, ""),
        }),
        Ok(Request::Help(text)) => print(&text),
        Ok(Request::Version) => print(&server::versions()),
        Err(error) => Err(Failure::wrong_use(error, "")),
    }
}

/// The reason without the path: the message about the file begins with it.
fn why_unread(error: &io::Error) -> String {
    let reason = error
        .source()
        .map_or(error.to_string(), ToString::to_string);
    format!("cannot be read: {reason}; see --config-file")
}

fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &[&str]) -> Vec<String> {
        let words = words.iter().map(OsString::from).collect();
        name_the_verb(words)
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn etcd_s_command_lines_mean_serve() {
        assert_eq!(named(&["/opt/bin/etcd"]), ["/opt/bin/etcd", "serve"]);
        assert_eq!(
            named(&["etcd", "--name", "x"]),
            ["etcd", "serve", "--name", "x"]
        );
        assert_eq!(
            named(&["inkstone", "-name=x"]),
            ["inkstone", "serve", "-name=x"]
        );
        assert_eq!(
            named(&["inkstone", "--version"]),
            ["inkstone", "serve", "--version"]
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("nope.yml");
        let words = vec![format!("--config-file={}", path.display())];
        let failure = run(Arguments { words }).unwrap_err();
        let message = format!("{failure:?}");
        assert_eq!(message.matches("nope.yml").count(), 1, "{message}");
        assert!(message.contains("--config-file"), "{message}");
    }

    #[test]
    fn other_verbs_and_help_stay_as_they_are() {
        for words in [
            &["inkstone"][..],
            &["inkstone", "--help"],
            &["inkstone", "get", "-x"],
            &["etcd", "gateway", "start"],
        ] {
            assert_eq!(named(words), words);
        }
    }
}
