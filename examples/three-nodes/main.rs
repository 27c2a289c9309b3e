//! A replicated store inside a program: three members in one process, or the
//! same program three times. See README.md beside this file.
//!
//! ```text
//! cargo run --release -p inkstone --example three-nodes
//! cargo run --release -p inkstone --example three-nodes -- --member a
//! ```

mod chat;
mod story;

use std::path::PathBuf;
use std::process::ExitCode;

use inkstone::{Node, NodeOptions};

/// Names of the members. All three processes need the same list.
const NAMES: [&str; 3] = ["a", "b", "c"];

const USAGE: &str = "\
three-nodes                       three members in this process, and a story
three-nodes --member a|b|c        one of three processes that chat

  --data DIR         where members keep their directories [target/three-nodes]
  --base-port PORT   members meet at this port and the two above it [7400]";

struct Arguments {
    /// Name of the member to run; without it all three run in this process.
    member: Option<String>,
    data: PathBuf,
    base_port: u16,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            member: None,
            data: "target/three-nodes".into(),
            base_port: 7400,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--member" => arguments.member = Some(member(value()?)?),
                "--data" => arguments.data = value()?.into(),
                "--base-port" => arguments.base_port = port(&value()?)?,
                "--help" | "-h" => return Err(String::new()),
                _ => return Err(format!("there is no option {word:?}")),
            }
        }
        Ok(arguments)
    }

    /// Options of a member, with all three members on this machine.
    fn options(&self, name: &str) -> NodeOptions {
        let options = NodeOptions::new(name, self.data.join(name))
            .cluster_token("three-nodes")
            // Small segments suffice for the little data, and all three share one disk.
            .segment_bytes(1 << 20);
        NAMES
            .iter()
            .zip(self.base_port..)
            .fold(options, |options, (name, port)| {
                options.founder(*name, format!("127.0.0.1:{port}"))
            })
    }
}

fn member(name: String) -> Result<String, String> {
    match NAMES.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(format!("--member {name}: it is one of a, b and c")),
    }
}

fn port(text: &str) -> Result<u16, String> {
    let port: Option<u16> = text.parse().ok();
    port.filter(|port| (1024..=65_000).contains(port))
        .ok_or(format!("--base-port {text}: choose one from 1024 to 65000"))
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(complaint) => {
            eprintln!("{complaint}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let outcome = match &arguments.member {
        Some(name) => chat::run(arguments.options(name)),
        None => story::run(|name| arguments.options(name)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error} ({:?})", error.remedy());
            ExitCode::FAILURE
        }
    }
}

/// The name of a member, or its id until the name is known.
fn name_of(node: &Node, id: u64) -> String {
    let members = node.members();
    let found = members.into_iter().find(|member| member.id == id);
    match found {
        Some(member) if !member.name.is_empty() => member.name,
        _ => format!("{id:x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, String> {
        Arguments::parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn invalid_arguments_are_named() {
        for (words, named) in [
            (&["--member", "d"][..], "--member d"),
            (&["--member"], "--member needs a value"),
            (&["--base-port", "80"], "--base-port 80"),
            (&["--members", "3"], "--members"),
        ] {
            let error = parsed(words).map(drop).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "members get free ports")]
    fn the_story_runs_to_its_end() {
        let place = tempfile::tempdir().unwrap();
        let listeners = NAMES.map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners
            .each_ref()
            .map(|listener| listener.local_addr().unwrap().to_string());
        let options = |name: &str| {
            let number = NAMES.iter().position(|it| *it == name).unwrap();
            let options = NodeOptions::new(name, place.path().join(name))
                .segment_bytes(1 << 20)
                .listener(listeners[number].try_clone().unwrap());
            let founders = NAMES.iter().zip(&addresses);
            founders.fold(options, |options, (name, address)| {
                options.founder(*name, address)
            })
        };
        story::run(options).unwrap();
    }
}
