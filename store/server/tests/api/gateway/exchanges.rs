//! Requests and answers of each route, as etcd 3.7.3 gives them.
//!
//! The files in `exchanges` are the golden ones:
//!
//! ```text
//!   post /v3/kv/put {"key":"YQ=="}       a request; `get` as well
//!   200 {"header":{"revision":"2"}}      its status and its body
//!
//!   stream 2 /v3/watch {…}               a request; two lines of its answer are read
//!   200 {"result":…}
//!   {"result":…}
//! ```
//!
//! In bodies, fields are sorted, and what differs between two servers is `*`: ids, terms,
//! sizes. `INKSTONE_RECORD=1 cargo test -p server exchanges` writes the files with the answers of a
//! real etcd. Without that, etcd's answers are compared with them if there is an etcd.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::address;
use super::client::ask;
use crate::serving::serving;

/// A request, and the answer that is expected.
struct Exchange {
    /// The line of the request.
    request: String,
    /// Status and body.
    answer: String,
}

macro_rules! files {
    ($($name:literal)*) => {
        /// All files: their names and their texts.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("exchanges/", $name)))),*];
    };
}

files! {
    "auth.txt" "cluster.txt" "election.txt" "kv.txt" "lease.txt" "lock.txt" "maintenance.txt"
    "watch.txt"
}

/// The exchanges of a file, and the comment before each.
fn parse(text: &str) -> Vec<(String, Exchange)> {
    let mut exchanges: Vec<(String, Exchange)> = Vec::new();
    let mut comment = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            comment += line;
            comment.push('\n');
        } else if ["post ", "get ", "stream "]
            .iter()
            .any(|verb| line.starts_with(verb))
        {
            let exchange = Exchange {
                request: line.to_owned(),
                answer: String::new(),
            };
            exchanges.push((std::mem::take(&mut comment), exchange));
        } else {
            let (_, exchange) = exchanges.last_mut().expect("a request comes first");
            exchange.answer += line;
            exchange.answer.push('\n');
        }
    }
    exchanges
}

/// The answer to the line of a request.
async fn answer(address: &str, line: &str) -> String {
    let (verb, rest) = line.split_once(' ').unwrap();
    let (lines, rest) = match verb {
        "stream" => rest.split_once(' ').unwrap(),
        _ => ("0", rest),
    };
    let lines: usize = lines.parse().unwrap();
    let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
    let method = if verb == "get" { "GET" } else { "POST" };
    let mut answer = ask(address, method, path, "", body).await;
    let mut text = format!("{} ", answer.status);
    match lines {
        0 => text += &normal(&answer.rest().await),
        lines => {
            let mut read = Vec::new();
            for _ in 0..lines {
                read.push(normal(&answer.line().await.unwrap_or_default()));
            }
            text += &read.join("\n");
        }
    }
    text.push('\n');
    text
}

/// A body with sorted fields, without what differs between servers.
fn normal(body: &str) -> String {
    let values = serde_json::Deserializer::from_str(body).into_iter::<Value>();
    let values = values.map(|value| {
        let mut value = value.unwrap_or_else(|error| panic!("{body}: {error}"));
        hide(&mut value);
        value.to_string()
    });
    values.collect::<Vec<_>>().join("\n")
}

fn hide(value: &mut Value) {
    const HIDDEN: [&str; 16] = [
        "blob",
        "clientURLs",
        "cluster_id",
        "dbSize",
        "dbSizeInUse",
        "dbSizeQuota",
        "hash",
        "leader",
        "member_id",
        "name",
        "peerURLs",
        "raftAppliedIndex",
        "raftIndex",
        "raftTerm",
        "raft_term",
        "token",
    ];
    match value {
        Value::Object(fields) => {
            let is_member = fields.contains_key("peerURLs");
            // A file that fits into one message has no rest, and another one has.
            fields.remove("remaining_bytes");
            for (name, value) in fields {
                let is_id = is_member && name == "ID";
                // The leader of an election is no id.
                let is_hidden = HIDDEN.contains(&name.as_str()) && !value.is_object();
                match is_hidden || is_id {
                    true => *value = Value::from("*"),
                    false => hide(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(hide),
        _ => {}
    }
}

/// A member that listens for others: one that does not refuses calls of the service Cluster.
const WORDS: [&str; 3] = [
    "--listen-peer-urls=http://127.0.0.1:0",
    "--initial-advertise-peer-urls=http://127.0.0.1:0",
    "--initial-cluster=default=http://127.0.0.1:0",
];

/// Waits until the member list shows what the member has published of itself.
async fn is_published(address: &str) {
    let list = "post /v3/cluster/member/list {}";
    while !answer(address, list).await.contains("clientURLs") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn exchanges_are_etcd_s() {
    for (name, text) in FILES {
        let serving = serving(&WORDS);
        is_published(address(&serving)).await;
        for (_, exchange) in parse(text) {
            let answer = answer(address(&serving), &exchange.request).await;
            assert_eq!(answer, exchange.answer, "{name}: {}", exchange.request);
        }
    }
}

#[test]
fn each_route_of_etcd_has_an_exchange() {
    let is_etcd_s = |path: &&str| !path.starts_with("/v3/inkstone/");
    for path in gateway::routes().map(|(path, _)| path).filter(is_etcd_s) {
        let request = format!(" {path} ");
        assert!(
            FILES.iter().any(|(_, text)| text.contains(&request)),
            "{path}"
        );
    }
}

/// Compares the files with a real etcd, or writes them.
#[tokio::test]
async fn exchanges_with_etcd_are_as_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(binary) = harness::etcd_binary(&root) else {
        eprintln!("SKIPPED: there is no etcd to compare with; `cargo xtask etcd` builds one");
        return;
    };
    let records = std::env::var_os("INKSTONE_RECORD").is_some();
    for (name, text) in FILES {
        let directory = tempfile::tempdir().unwrap();
        let program = harness::Program::new(&binary);
        // etcd's gateway dials the port that the flag names, which so cannot be 0.
        let config = harness::MemberConfig::on_reserved_ports("m", directory.path());
        let mut config = config.unwrap();
        config.initial_cluster = harness::initial_cluster([&config]);
        let mut member = harness::Member::new(program, config);
        member.start_and_wait().unwrap();
        let mut recorded = String::new();
        for (comment, exchange) in parse(text) {
            let answer = answer(member.client_address(), &exchange.request).await;
            if !records {
                assert_eq!(answer, exchange.answer, "{name}: {}", exchange.request);
            }
            recorded += &format!("{comment}{}\n{answer}\n", exchange.request);
        }
        if records {
            record(name, &recorded);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "writes a golden file of this test, when asked to"
)]
fn record(name: &str, text: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/gateway/exchanges");
    std::fs::write(directory.join(name), format!("{}\n", text.trim_end())).unwrap();
}
