//! Flags of the client verbs that stand before the verb, as etcdctl's users write them.
//!
//! ```text
//!   inkstone --endpoints a:1 -w json member list
//!   inkstone member --endpoints a:1 -w json list
//! ```
//!
//! None of these flags is one of the server's: a command line that begins with another flag
//! starts a server.

use std::ffi::OsString;

/// Flags with a value.
const VALUED: [&str; 13] = [
    "--endpoint",
    "--endpoints",
    "--cacert",
    "--cert",
    "--key",
    "--user",
    "--password",
    "--auth-jwt-token",
    "--timeout",
    "--command-timeout",
    "--dial-timeout",
    "--write-out",
    "-w",
];
/// Flags that stand alone, or have a value behind `=`.
const BARE: [&str; 3] = [
    "--hex",
    "--insecure-transport",
    "--insecure-skip-tls-verify",
];

/// Forms of `-w` without a space; `-wal-dir` is a flag of the server.
const JOINED: [&str; 4] = ["-wsimple", "-wjson", "-wfields", "-wtable"];

/// Verbs of which each action has flags of its own.
const WITH_ACTIONS: [&str; 2] = ["snapshot", "backup"];

/// Number of words that flags go behind, in a line that begins with the verb.
pub(crate) fn words_of_verb(line: &[OsString]) -> usize {
    let has_actions = |verb: &OsString| WITH_ACTIONS.iter().any(|it| verb == it);
    match line {
        [verb, action, ..] if has_actions(verb) => {
            1 + usize::from(!action.as_encoded_bytes().starts_with(b"-"))
        }
        _ => 1,
    }
}

/// Moves such flags behind the verb.
pub(crate) fn moved_behind_the_verb(mut words: Vec<OsString>) -> Vec<OsString> {
    let mut verb = 1;
    while let Some(taken) = words.get(verb).and_then(words_of) {
        verb += taken;
    }
    if verb > 1 && verb < words.len() {
        let end = verb + words_of_verb(&words[verb..]);
        words[1..end].rotate_left(verb - 1);
    }
    words
}

/// Number of words that a flag takes, itself included; `None` if it is no flag of a client.
fn words_of(word: &OsString) -> Option<usize> {
    let text = word.to_str()?;
    let (name, value) = match text.split_once('=') {
        Some((name, _)) => (name, true),
        None => (text, false),
    };
    match (VALUED.contains(&name), BARE.contains(&name)) {
        (true, _) if !value => Some(2),
        (true, _) | (_, true) => Some(1),
        _ if JOINED.contains(&text) => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = moved_behind_the_verb(words).into_iter();
        let words: Vec<String> = words.map(|it| it.into_string().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn flags_of_a_client_go_behind_the_verb() {
        for (line, expected) in [
            (
                "i --endpoints a:1 member list",
                "i member --endpoints a:1 list",
            ),
            (
                "i --endpoints=a:1 -wjson get k",
                "i get --endpoints=a:1 -wjson k",
            ),
            ("i --hex -w json get -- -k", "i get --hex -w json -- -k"),
            (
                "i --endpoints=a:1 --cacert=c snapshot save f",
                "i snapshot save --endpoints=a:1 --cacert=c f",
            ),
            (
                "i --endpoints a:1 backup run --to b",
                "i backup run --endpoints a:1 --to b",
            ),
            ("i -w json snapshot --help", "i snapshot -w json --help"),
        ] {
            assert_eq!(moved(line), expected);
        }
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in [
            "i",
            "i get k",
            "i --name x --data-dir y",
            "i -wal-dir x get",
            "i --endpoints",
            "i -w json",
        ] {
            assert_eq!(moved(line), line);
        }
    }
}
