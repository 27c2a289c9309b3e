//! Names of targets on the command line.
//!
//! ```text
//!   engine                     embedded, in the lab's own worker
//!   engine@old/inkstone-lab    embedded, in the worker of another build
//!   leveldb@bin/handoff        embedded, in the lab's own worker under handoff's
//!                              locks; handoff by its file's name
//!   server:PATH                a server binary, started fresh; etcd by its file's name
//!   server:PATH,members=3      a cluster of three
//!   server:PATH,members=3,ask=leader   clients send requests to the leader only
//!   server:PATH,flag=--x=1     with an extra flag
//!   server:PATH,tls,users      with TLS for clients and members, and checks of users
//!   endpoints:HOST:PORT,...    servers that run already
//!   NAME=any of these          with a name for reports
//! ```

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const MEMBERS_MAX: u32 = 5;
/// File name of the program that starts a worker with other locks.
pub const HANDOFF: &str = "handoff";
/// Suffix of the version of a target that ran under `handoff`.
pub const UNDER_HANDOFF: &str = " under handoff";

/// A target as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSpec {
    /// The text on the command line.
    pub text: String,
    /// Name in reports.
    pub name: String,
    #[serde(rename = "place")]
    pub kind: TargetKind,
}

/// Kind and location of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TargetKind {
    /// A target in the worker's own process.
    Embedded {
        /// Name of the offer.
        target: String,
        /// Worker program of another build; `None` for the lab's own.
        worker: Option<PathBuf>,
        /// The program `handoff` that starts the worker, if any.
        handoff: Option<PathBuf>,
    },
    /// A server program that the lab starts.
    Server {
        binary: PathBuf,
        /// Number of members of the cluster.
        members: u32,
        /// Flags in addition to those that the lab always sets.
        flags: Vec<String>,
        /// Clients send requests to the leader only, not to all members.
        ask_leader: bool,
        /// Whether clients and members use TLS.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        with_tls: bool,
        /// Whether each request is checked against the permissions of a user.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        with_users: bool,
    },
    /// Servers that run already.
    Endpoints(Vec<String>),
}

impl FromStr for TargetSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<TargetSpec, String> {
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if is_name(name) => (Some(name.to_owned()), rest),
            _ => (None, text),
        };
        let kind = kind(rest).map_err(|what| format!("target `{text}`: {what}"))?;
        Ok(TargetSpec {
            text: text.to_owned(),
            name: name.unwrap_or_else(|| kind.default_name()),
            kind,
        })
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}

fn kind(text: &str) -> Result<TargetKind, String> {
    if let Some(rest) = text.strip_prefix("server:") {
        return server(rest);
    }
    if let Some(rest) = text.strip_prefix("endpoints:") {
        let endpoints = rest.split(',').map(endpoint).collect::<Result<_, _>>();
        return endpoints.map(TargetKind::Endpoints);
    }
    let (target, program) = match text.split_once('@') {
        Some((target, program)) => (target, Some(PathBuf::from(program))),
        None => (text, None),
    };
    let is_handoff = |program: &PathBuf| file_name(program) == HANDOFF;
    match is_name(target) {
        true => Ok(TargetKind::Embedded {
            target: target.to_owned(),
            worker: program.clone().filter(|program| !is_handoff(program)),
            handoff: program.filter(is_handoff),
        }),
        false => Err(
            "write `engine`, `server:PATH`, `server:PATH,members=3` or `endpoints:HOST:PORT`"
                .into(),
        ),
    }
}

fn server(text: &str) -> Result<TargetKind, String> {
    let mut words = text.split(',');
    let binary = PathBuf::from(words.next().unwrap_or_default());
    if binary.as_os_str().is_empty() {
        return Err("a server needs the path of its program".into());
    }
    let (mut members, mut flags, mut ask_leader) = (1, Vec::new(), false);
    let (mut with_tls, mut with_users) = (false, false);
    for word in words {
        match word.split_once('=') {
            None if word == "tls" => with_tls = true,
            None if word == "users" => with_users = true,
            Some(("members", count)) => {
                members = count
                    .parse()
                    .ok()
                    .filter(|count| (1..=MEMBERS_MAX).contains(count))
                    .ok_or_else(|| format!("members={count}: from 1 to {MEMBERS_MAX}"))?;
            }
            Some(("flag", flag)) => flags.push(flag.to_owned()),
            Some(("ask", "leader")) => ask_leader = true,
            Some(("ask", "all")) => ask_leader = false,
            _ => {
                return Err(format!(
                    "`{word}`: write `members=3`, `ask=leader`, `tls`, `users` or `flag=--name=value`"
                ));
            }
        }
    }
    Ok(TargetKind::Server {
        binary,
        members,
        flags,
        ask_leader,
        with_tls,
        with_users,
    })
}

fn endpoint(text: &str) -> Result<String, String> {
    let address = text.split_once("://").map_or(text, |(_, address)| address);
    let is_whole = address
        .trim_end_matches('/')
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    match (is_whole, text.contains("://")) {
        (false, _) => Err(format!("endpoint `{text}`: write HOST:PORT")),
        (true, true) => Ok(text.to_owned()),
        (true, false) => Ok(format!("http://{text}")),
    }
}

impl TargetKind {
    fn default_name(&self) -> String {
        match self {
            TargetKind::Embedded {
                target,
                worker,
                handoff,
            } => match worker.as_ref().or(handoff.as_ref()) {
                Some(program) => format!("{target}@{}", file_name(program)),
                None => target.clone(),
            },
            TargetKind::Server {
                binary,
                members,
                with_tls,
                with_users,
                ..
            } => {
                let count = match members {
                    1 => String::new(),
                    members => format!("{members}x"),
                };
                let tls = if *with_tls { "-tls" } else { "" };
                let users = if *with_users { "-users" } else { "" };
                format!("{count}{}{tls}{users}", file_name(binary))
            }
            TargetKind::Endpoints(endpoints) => match endpoints.len() {
                1 => "endpoint".to_owned(),
                count => format!("{count} endpoints"),
            },
        }
    }
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

impl fmt::Display for TargetSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> TargetSpec {
        text.parse().unwrap()
    }

    #[test]
    fn embedded_targets_have_a_name_and_optionally_a_worker() {
        assert_eq!(spec("engine").name, "engine");
        let other = spec("old=engine@/builds/inkstone-lab");
        assert_eq!(other.name, "old");
        let TargetKind::Embedded { worker, .. } = other.kind else {
            panic!("{other:?}");
        };
        assert_eq!(worker.unwrap(), PathBuf::from("/builds/inkstone-lab"));
    }

    #[test]
    fn handoff_is_no_worker_but_starts_one() {
        let under = spec("leveldb@bin/handoff");
        assert_eq!(under.name, "leveldb@handoff");
        let expected = TargetKind::Embedded {
            target: "leveldb".into(),
            worker: None,
            handoff: Some("bin/handoff".into()),
        };
        assert_eq!(under.kind, expected);
    }

    #[test]
    fn servers_have_members_and_flags() {
        let three = spec("server:bin/etcd,members=3,flag=--snapshot-count=9");
        assert_eq!(three.name, "3xetcd");
        let expected = TargetKind::Server {
            binary: "bin/etcd".into(),
            members: 3,
            flags: vec!["--snapshot-count=9".into()],
            ask_leader: false,
            with_tls: false,
            with_users: false,
        };
        assert_eq!(three.kind, expected);
        let secure = spec("server:bin/etcd,tls,users");
        assert_eq!(secure.name, "etcd-tls-users");
        let TargetKind::Server {
            with_tls,
            with_users,
            ..
        } = secure.kind
        else {
            panic!("no server");
        };
        assert!(with_tls && with_users);
    }

    #[test]
    fn endpoints_are_urls() {
        let TargetKind::Endpoints(urls) = spec("endpoints:localhost:2379,https://b:1").kind else {
            panic!("no endpoints");
        };
        assert_eq!(urls, ["http://localhost:2379", "https://b:1"]);
    }

    #[test]
    fn an_invalid_target_is_refused_by_name() {
        for text in [
            "",
            "server:",
            "server:a,members=9",
            "server:a,fast",
            "endpoints:",
            "endpoints:localhost",
            "endpoints:localhost:2379,",
            "en gine",
        ] {
            let error = text.parse::<TargetSpec>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
