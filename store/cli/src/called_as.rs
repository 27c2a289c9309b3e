//! The names of etcd's programs: called by one of them, the binary takes that program's command line.
//!
//! ```text
//!   etcd FLAGS                      inkstone serve FLAGS
//!   etcd gateway start FLAGS        inkstone gateway start FLAGS
//!   etcdctl FLAGS VERB WORDS        inkstone VERB FLAGS WORDS
//!   etcdctl completion SHELL        inkstone completions SHELL, for the name etcdctl
//!   etcdutl FLAGS snapshot X WORDS  inkstone snapshot X FLAGS WORDS
//!   etcdutl FLAGS hashkv WORDS      inkstone snapshot hashkv FLAGS WORDS
//! ```
//!
//! etcdctl and etcdutl take flags before the verb. Here a verb has its own flags, so they are moved
//! behind it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Command;

use crate::failure::Failure;
use crate::{leading_flags, serve};

/// Verbs of Inkstone that none of etcd's programs has.
const OWN_VERBS: [&str; 6] = [
    "serve",
    "gateway",
    "inspect",
    "repair",
    "completions",
    "manual",
];
/// etcdctl's and etcdutl's flags that take no value from the next word.
const SWITCHES: [&str; 7] = [
    "-h",
    "--help",
    "--debug",
    "--hex",
    "--insecure-discovery",
    "--insecure-skip-tls-verify",
    "--insecure-transport",
];

/// A command line, understood by the name of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A command line of `inkstone`, program name included.
    Line(Vec<OsString>),
    /// A text to print.
    Text(String),
}

/// A program of etcd with verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Name {
    Inkstone,
    Etcdctl,
    Etcdutl,
}

impl Name {
    /// The name of the file.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Name::Inkstone => "inkstone",
            Name::Etcdctl => "etcdctl",
            Name::Etcdutl => "etcdutl",
        }
    }

    fn has_verb(self, verb: &str) -> bool {
        match self {
            Name::Inkstone => true,
            Name::Etcdctl => !OWN_VERBS.contains(&verb),
            Name::Etcdutl => verb == "snapshot",
        }
    }

    /// The verbs of `all` that the binary has under this name.
    pub(crate) fn command(self, all: Command) -> Command {
        if self == Name::Inkstone {
            return all;
        }
        let verbs = all.get_subcommands().cloned();
        Command::new(self.text())
            .about(format!("{} of Inkstone", self.text()))
            .disable_help_subcommand(true)
            .after_help(format!(
                "`{} VERB --help` shows the flags of a verb.",
                self.text()
            ))
            .subcommands(verbs.filter(|verb| self.has_verb(verb.get_name())))
    }
}

/// Reads a command line, program name included. `all` has the verbs of `inkstone`.
pub(crate) fn understand(words: Vec<OsString>, all: Command) -> Result<Call, Failure> {
    let program = words.first().map(Path::new).and_then(Path::file_name);
    match program.and_then(OsStr::to_str) {
        Some("etcd") if words.get(1).is_some_and(|word| word == "grpc-proxy") => Err(no_proxy()),
        Some("etcdctl") => etcdctl(Spoken::split(words), Name::Etcdctl.command(all)),
        Some("etcdutl") => etcdutl(Spoken::split(words), Name::Etcdutl.command(all)),
        Some("etcd") => Ok(Call::Line(serve::name_the_verb(words))),
        _ => {
            let words = leading_flags::moved_behind_the_verb(words);
            Ok(Call::Line(serve::name_the_verb(words)))
        }
    }
}

fn etcdctl(line: Spoken, command: Command) -> Result<Call, Failure> {
    match line.verb() {
        None => Ok(without_verb(command)),
        Some("version") => Ok(versions(Name::Etcdctl)),
        Some("help") => Ok(line.help(command)),
        Some("completion") => Ok(line.completions(Name::Etcdctl)),
        Some(_) => line.with_verb(&command),
    }
}

fn etcdutl(mut line: Spoken, command: Command) -> Result<Call, Failure> {
    match line.verb() {
        None => Ok(without_verb(command)),
        Some("version") => Ok(versions(Name::Etcdutl)),
        Some("help") => Ok(line.help(command)),
        Some("completion") => Ok(line.completions(Name::Etcdutl)),
        Some("defrag") => Err(Failure::wrong_use(
            "`etcdutl defrag` does not exist here: a data directory is not a database file of etcd's",
            "The running server gives space back: `etcdctl defrag`.",
        )),
        Some("migrate") => Err(Failure::wrong_use(
            "`etcdutl migrate` does not exist here: a data directory has no storage version of etcd's",
            "A newer Inkstone reads the directory of an older one as it is.",
        )),
        Some("hashkv") => {
            line.rest.insert(0, "snapshot".into());
            line.with_verb(&command)
        }
        Some(_) => line.with_verb(&command),
    }
}

fn no_proxy() -> Failure {
    Failure::wrong_use(
        "`etcd grpc-proxy` does not exist here",
        "etcd's own proxy works in front of this server; `etcd gateway start` passes connections on.",
    )
}

/// The text of `version` in the shape that scripts read.
fn versions(name: Name) -> Call {
    let version = etcd_api::ETCD_VERSION;
    let api = version.rsplit_once('.').map_or(version, |(api, _)| api);
    let (name, own) = (name.text(), env!("CARGO_PKG_VERSION"));
    Call::Text(format!(
        "{name} version: {version}\nAPI version: {api}\nInkstone version: {own}\n"
    ))
}

/// A command line of etcdctl or etcdutl.
#[derive(Debug)]
struct Spoken {
    program: OsString,
    /// Flags before the verb, with their values.
    flags: Vec<OsString>,
    /// The verb and all after it.
    rest: Vec<OsString>,
}

impl Spoken {
    fn split(words: Vec<OsString>) -> Spoken {
        let mut words = words.into_iter().peekable();
        let program = words.next().unwrap_or_default();
        let mut flags = Vec::new();
        while let Some(word) = words.next_if(|word| word.as_encoded_bytes().starts_with(b"-")) {
            let text = word.to_string_lossy();
            // `-wjson` has its value in the same word.
            let is_whole = text.contains('=')
                || SWITCHES.contains(&&*text)
                || (text.len() > 2 && !text.starts_with("--"));
            flags.push(word);
            if !is_whole {
                flags.extend(words.next());
            }
        }
        Spoken {
            program,
            flags,
            rest: words.collect(),
        }
    }

    fn verb(&self) -> Option<&str> {
        self.rest.first().map(|verb| verb.to_str().unwrap_or("?"))
    }

    /// The flags move behind the verb.
    fn with_verb(self, command: &Command) -> Result<Call, Failure> {
        let verb = self.verb().unwrap_or_default();
        if command.find_subcommand(verb).is_none() {
            return Err(unknown(command.get_name(), verb));
        }
        let verb = leading_flags::words_of_verb(&self.rest);
        let mut words = vec![self.program];
        words.extend(self.rest[..verb].iter().cloned());
        words.extend(self.flags);
        words.extend(self.rest[verb..].iter().cloned());
        Ok(Call::Line(words))
    }

    /// `help VERB` is `VERB --help`.
    fn help(mut self, command: Command) -> Call {
        if self.rest.len() == 1 {
            return without_verb(command);
        }
        self.rest[0] = self.program;
        self.rest.push("--help".into());
        Call::Line(self.rest)
    }

    fn completions(mut self, name: Name) -> Call {
        self.rest[0] = "completions".into();
        self.rest.insert(0, self.program);
        self.rest.push(format!("--name={}", name.text()).into());
        Call::Line(self.rest)
    }
}

/// Without a verb etcd's programs print their help.
fn without_verb(mut command: Command) -> Call {
    Call::Text(command.render_help().to_string())
}

fn unknown(name: &str, verb: &str) -> Failure {
    let remedy = if OWN_VERBS.contains(&verb) {
        format!("It is a verb of the same binary under its own name: `inkstone {verb}`.")
    } else {
        format!("`{name} --help` lists the verbs. etcd's own {name} has all of them.")
    };
    Failure::wrong_use(format_args!("{name} has no verb `{verb}` here"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[&str]) -> Result<Call, Failure> {
        let words = words.iter().map(OsString::from).collect();
        let verbs = ["serve", "get", "put", "user", "snapshot", "repair"].map(Command::new);
        understand(words, Command::new("inkstone").subcommands(verbs))
    }

    fn line(words: &[&str]) -> Vec<String> {
        match call(words).unwrap() {
            Call::Line(words) => words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            Call::Text(text) => panic!("a text: {text}"),
        }
    }

    fn text(words: &[&str]) -> String {
        match call(words).unwrap() {
            Call::Text(text) => text,
            Call::Line(words) => panic!("a line: {words:?}"),
        }
    }

    fn refusal(words: &[&str]) -> String {
        format!("{:?}", call(words).unwrap_err())
    }

    #[test]
    fn flags_before_the_verb_move_behind_it() {
        assert_eq!(
            line(&[
                "/usr/bin/etcdctl",
                "--endpoints",
                "a:1",
                "--hex",
                "-wjson",
                "get",
                "k"
            ]),
            [
                "/usr/bin/etcdctl",
                "get",
                "--endpoints",
                "a:1",
                "--hex",
                "-wjson",
                "k"
            ]
        );
        assert_eq!(
            line(&[
                "etcdctl",
                "--user=root:x",
                "-w",
                "json",
                "user",
                "get",
                "--",
                "-x"
            ]),
            [
                "etcdctl",
                "user",
                "--user=root:x",
                "-w",
                "json",
                "get",
                "--",
                "-x"
            ]
        );
        assert_eq!(
            line(&["etcdctl", "put", "k", "-v"]),
            ["etcdctl", "put", "k", "-v"]
        );
    }

    #[test]
    fn words_of_etcdutl_are_those_of_snapshot() {
        assert_eq!(
            line(&["etcdutl", "-w", "json", "hashkv", "db", "--rev=5"]),
            [
                "etcdutl", "snapshot", "hashkv", "-w", "json", "db", "--rev=5"
            ]
        );
        assert_eq!(
            line(&["etcdutl", "snapshot", "status", "db"]),
            ["etcdutl", "snapshot", "status", "db"]
        );
    }

    #[test]
    fn versions_have_the_shape_of_etcd_s() {
        let of_etcdctl = text(&["etcdctl", "--endpoints=a:1", "version"]);
        let mut lines = of_etcdctl.lines();
        assert_eq!(lines.next(), Some("etcdctl version: 3.7.3"));
        assert_eq!(lines.next(), Some("API version: 3.7"));
        assert!(text(&["etcdutl", "version"]).starts_with("etcdutl version: 3.7.3\n"));
    }

    #[test]
    fn help_lists_only_the_verbs_of_the_name() {
        let help = text(&["etcdctl", "--help"]);
        assert!(
            help.contains("\n  get") && help.contains("Usage: etcdctl"),
            "{help}"
        );
        assert!(
            !help.contains("\n  serve") && !help.contains("\n  repair"),
            "{help}"
        );
        assert_eq!(text(&["etcdctl"]), help);
        assert_eq!(text(&["etcdctl", "help"]), help);
        assert_eq!(
            line(&["etcdctl", "help", "get"]),
            ["etcdctl", "get", "--help"]
        );
        let help = text(&["etcdutl", "-h"]);
        assert!(
            help.contains("\n  snapshot") && !help.contains("\n  get"),
            "{help}"
        );
    }

    #[test]
    fn completions_are_for_the_name() {
        assert_eq!(
            line(&["etcdctl", "completion", "bash"]),
            ["etcdctl", "completions", "bash", "--name=etcdctl"]
        );
    }

    #[test]
    fn verbs_that_do_not_exist_are_refused_with_a_remedy() {
        for (words, expected) in [
            (&["etcdutl", "defrag", "--data-dir=x"][..], "etcdctl defrag"),
            (&["etcdutl", "migrate"], "storage version"),
            (&["etcdutl", "get", "k"], "etcdutl has no verb `get`"),
            (&["etcdctl", "serve"], "`inkstone serve`"),
            (&["etcdctl", "gett"], "etcdctl --help"),
            (&["etcd", "grpc-proxy", "start"], "etcd gateway start"),
        ] {
            let refusal = refusal(words);
            assert!(refusal.contains(expected), "{words:?}: {refusal}");
        }
    }

    #[test]
    fn other_names_have_inkstone_s_verbs() {
        assert_eq!(line(&["inkstone", "get", "k"]), ["inkstone", "get", "k"]);
        assert_eq!(
            line(&["/x/etcd", "--name=a"]),
            ["/x/etcd", "serve", "--name=a"]
        );
        assert_eq!(
            line(&["etcd", "gateway", "start"]),
            ["etcd", "gateway", "start"]
        );
    }
}
