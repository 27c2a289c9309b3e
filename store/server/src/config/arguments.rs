//! Go's flag syntax, which every etcd manifest is written in.
//!
//! ```text
//!   -name x    --name x    -name=x    --name=x      all the same
//!   --pre-vote             true; a boolean never takes the next word
//!   --pre-vote=false       the only way to set it to false
//!   --                     ends the flags
//! ```
//!
//! A flag given twice has its last value: etcd's own test harness relies on
//! that. The parser does not know what a flag means, only whether it
//! exists and whether it is a boolean.

use super::error::Error;
use super::flags::Flag;
use super::suggest;

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    /// Pairs of a flag's name and its text; the last one of a name wins.
    pub(super) given: Vec<(&'static str, String)>,
    /// Names that were written with the prefix of etcd 3.5.
    pub(super) experimental: Vec<String>,
    /// Whether `-h` or `--help` was given.
    pub(super) help: bool,
    /// Whether `--version` was given without `=false`.
    pub(super) version: bool,
}

/// Reads `words`, without the program's name and verb.
pub(super) fn parse(words: &[String]) -> Result<Arguments, Error> {
    let mut arguments = Arguments::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(body) = flag_body(word)? else {
            return match words.next() {
                None => Ok(arguments),
                Some(rest) => Err(Error::NotAFlag { word: rest.clone() }),
            };
        };
        let (name, inline) = match body.split_once('=') {
            Some((name, text)) => (name, Some(text.to_owned())),
            None => (body, None),
        };
        if matches!(name, "h" | "help") {
            arguments.help = true;
            continue;
        }
        let flag = find(name)?;
        if flag.name != name {
            arguments.experimental.push(name.to_owned());
        }
        let text = match inline {
            Some(text) => text,
            None if flag.is_boolean() => "true".to_owned(),
            None => words
                .next()
                .ok_or(Error::MissingValue { flag: flag.name })?
                .clone(),
        };
        if flag.name == "version" {
            arguments.version = super::values::boolean("version", &text)?;
            continue;
        }
        arguments.given.push((flag.name, text));
    }
    Ok(arguments)
}

/// The text after the dashes; `None` for the `--` that ends the flags.
fn flag_body(word: &str) -> Result<Option<&str>, Error> {
    if word == "--" {
        return Ok(None);
    }
    let body = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
    match body {
        Some(body) if !body.is_empty() && !body.starts_with(['-', '=']) => Ok(Some(body)),
        _ => Err(Error::NotAFlag {
            word: word.to_owned(),
        }),
    }
}

/// The flag called `name`, with or without the prefix `experimental-`.
fn find(name: &str) -> Result<&'static Flag, Error> {
    let plain = name.strip_prefix("experimental-").unwrap_or(name);
    Flag::named(plain).ok_or_else(|| Error::UnknownFlag {
        name: name.to_owned(),
        suggestion: suggest::nearest(plain, Flag::all().iter().map(|flag| flag.name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, Error> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words)
    }

    fn given(words: &[&str]) -> Vec<(&'static str, String)> {
        parsed(words).unwrap().given
    }

    #[test]
    fn all_four_spellings_mean_the_same() {
        let expected = vec![("name", "a=b".to_owned())];
        for words in [
            &["-name", "a=b"][..],
            &["--name", "a=b"],
            &["-name=a=b"],
            &["--name=a=b"],
        ] {
            assert_eq!(given(words), expected, "{words:?}");
        }
    }

    #[test]
    fn a_boolean_never_takes_the_next_word() {
        assert_eq!(given(&["--pre-vote"]), [("pre-vote", "true".to_owned())]);
        assert_eq!(
            given(&["--pre-vote=false"]),
            [("pre-vote", "false".to_owned())]
        );
        assert!(matches!(
            parsed(&["--pre-vote", "false"]),
            Err(Error::NotAFlag { .. })
        ));
    }

    #[test]
    fn a_value_may_look_like_a_flag() {
        assert_eq!(given(&["--name", "--x"]), [("name", "--x".to_owned())]);
    }

    #[test]
    fn a_flag_without_its_value_is_named() {
        assert!(matches!(
            parsed(&["--name"]),
            Err(Error::MissingValue { flag: "name" })
        ));
    }

    #[test]
    fn an_unknown_flag_brings_the_nearest_known_one() {
        let error = parsed(&["--listen-client-url=x"]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("listen-client-url"), "{text}");
        assert!(text.contains("did you mean --listen-client-urls"), "{text}");
    }

    #[test]
    fn an_experimental_prefix_is_an_older_name() {
        let arguments = parsed(&["--experimental-watch-progress-notify-interval=1s"]).unwrap();
        assert_eq!(arguments.given[0].0, "watch-progress-notify-interval");
        assert_eq!(arguments.experimental.len(), 1);
    }

    #[test]
    fn stray_words_and_lone_dashes_are_refused() {
        for words in [
            &["put"][..],
            &["-"],
            &["---name=x"],
            &["--=x"],
            &["--", "x"],
        ] {
            assert!(
                matches!(parsed(words), Err(Error::NotAFlag { .. })),
                "{words:?}"
            );
        }
    }

    #[test]
    fn help_and_version_are_noticed_anywhere() {
        let arguments = parsed(&["--name=x", "-h", "--version"]).unwrap();
        assert!(arguments.help && arguments.version);
        assert!(!parsed(&["--version=false"]).unwrap().version);
    }
}
