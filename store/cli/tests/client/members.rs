//! Verbs about members and endpoints.

use crate::server::{Server, text};
use harness::{Cluster, Program};
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");

fn output(endpoints: &[String], words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .args(words)
        .env("INKSTONE_ENDPOINT", endpoints.join(","));
    command.stdin(Stdio::null()).output().unwrap()
}

fn run(endpoints: &[String], words: &[&str]) -> String {
    let output = output(endpoints, words);
    assert!(
        output.status.success(),
        "{words:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn an_endpoint_that_is_down_fails_health_and_status_and_the_others_are_printed() {
    let server = Server::start();
    let endpoints = [server.address(), "127.0.0.1:1".to_owned()];
    for verb in ["health", "status", "hashkv"] {
        let output = output(&endpoints, &["endpoint", verb]);
        assert_eq!(output.status.code(), Some(1), "{verb}");
        assert!(
            text(&output.stdout).starts_with(&server.address()),
            "{verb}"
        );
        assert!(text(&output.stderr).contains("127.0.0.1:1"), "{verb}");
    }
    let json = text(&output(&endpoints, &["endpoint", "health", "-w", "json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["health"], true);
    assert_eq!(json[1]["health"], false);
    assert_eq!(json[1]["endpoint"], "127.0.0.1:1");
    assert!(
        json[1]["error"]
            .as_str()
            .unwrap()
            .contains("connection refused")
    );
}

#[test]
fn tables_have_the_columns_of_etcdctl() {
    let server = Server::start();
    let table = server.run(&["member", "list", "-w", "table"]);
    let names: Vec<&str> = table.lines().next().unwrap().split("  ").collect();
    let names: Vec<&str> = names
        .into_iter()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    let expected = [
        "ID",
        "STATUS",
        "NAME",
        "PEER ADDRS",
        "CLIENT ADDRS",
        "IS LEARNER",
    ];
    assert_eq!(names, expected);
    for words in [
        &["put", "k", "v", "-w", "table"][..],
        &["lease", "grant", "10", "-w", "table"],
        &["alarm", "list", "-w", "table"],
    ] {
        let output = server.output(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains("has no table"), "{words:?}");
    }
    assert_eq!(
        server.run(&["get", "k"]),
        "",
        "a refused form writes nothing"
    );
    let refused = server.output(&["member", "list", "-w", "protobuf"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn history_is_compacted_and_space_released() {
    let server = Server::start();
    for value in ["1", "2", "3"] {
        server.run(&["put", "k", value]);
    }
    assert_eq!(
        server.run(&["compaction", "3", "--physical"]),
        "compacted revision 3\n"
    );
    let past = server.output(&["get", "k", "--rev", "2"]);
    assert!(
        text(&past.stderr).contains("has been compacted"),
        "{past:?}"
    );
    let printed = server.run(&["defrag"]);
    let begin = format!(
        "Finished defragmenting etcd member[{}]. took ",
        server.address()
    );
    assert!(printed.starts_with(&begin), "{printed}");
    assert_eq!(server.run(&["get", "k"]), "k\n3\n");
}

#[test]
fn a_cluster_is_led_changed_and_asked_as_a_whole() {
    let place = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(&Program::new(PROGRAM), place.path(), 3).unwrap();
    let all = cluster.client_urls();
    let one = &all[..1];
    let healthy = run(one, &["endpoint", "health", "--cluster"]);
    assert_eq!(healthy.lines().count(), 3, "{healthy}");
    assert_eq!(run(one, &["defrag", "--cluster"]).lines().count(), 3);
    let hashes = run(one, &["endpoint", "hashkv", "--cluster", "-w", "json"]);
    let hashes: serde_json::Value = serde_json::from_str(&hashes).unwrap();
    let hash = |at: usize| &hashes[at]["HashKV"]["hash"];
    assert!(hash(0).is_number() && hash(0) == hash(1) && hash(1) == hash(2));

    let status = run(&all, &["endpoint", "status"]);
    let follower = status
        .lines()
        .find(|line| line.contains(", false, false, "))
        .unwrap();
    let target = follower.split(", ").nth(1).unwrap();
    let moved = run(&all, &["move-leader", target]);
    assert!(moved.ends_with(&format!(" to {target}\n")), "{moved}");
    let endpoint = follower.split(", ").next().unwrap().to_owned();
    let led = run(&[endpoint], &["endpoint", "status"]);
    assert!(led.contains(", true, false, "), "{led}");

    let words = [
        "member",
        "add",
        "d",
        "--peer-urls=http://127.0.0.1:1",
        "--learner",
    ];
    // A new leader refuses changes until it has heard from the others for a while.
    let added = loop {
        let output = output(one, &words);
        match output.status.success() {
            true => break text(&output.stdout),
            false => assert!(
                text(&output.stderr).contains("unhealthy cluster"),
                "{output:?}"
            ),
        }
    };
    assert!(added.contains("\nETCD_NAME=\"d\"\n"), "{added}");
    // Members are listed by their ids.
    assert!(added.contains("d=http://127.0.0.1:1"), "{added}");
    let listed = run(one, &["member", "list"]);
    let new = listed
        .lines()
        .find(|line| line.contains("unstarted"))
        .unwrap();
    let id = new.split(", ").next().unwrap();
    let promoted = output(one, &["member", "promote", id]);
    assert!(
        text(&promoted.stderr).contains("in sync with leader"),
        "{promoted:?}"
    );
    let updated = run(
        one,
        &["member", "update", id, "--peer-urls=http://127.0.0.1:2"],
    );
    assert!(
        updated.contains(&format!("{id:>16} updated in cluster ")),
        "{updated}"
    );
    assert!(run(one, &["member", "list"]).contains("http://127.0.0.1:2"));
    let removed = run(one, &["member", "remove", id]);
    assert!(
        removed.contains(&format!("{id:>16} removed from cluster ")),
        "{removed}"
    );
    assert_eq!(run(one, &["member", "list"]).lines().count(), 3);
}

#[test]
fn an_alarm_makes_an_endpoint_unhealthy_until_it_is_disarmed() {
    let server = Server::start_with(&["--quota-backend-bytes=65536"]);
    let value = "x".repeat(32 << 10);
    let mut refused = server.output(&["put", "k", &value]);
    for number in 0..8 {
        refused = server.output(&["put", &format!("k{number}"), &value]);
    }
    assert!(
        text(&refused.stderr).contains("database space exceeded"),
        "{refused:?}"
    );
    let alarms = server.run(&["alarm", "list"]);
    assert!(
        alarms.starts_with("memberID:") && alarms.ends_with(" alarm:NOSPACE\n"),
        "{alarms}"
    );
    let health = server.output(&["endpoint", "health"]);
    assert_eq!(health.status.code(), Some(1));
    assert!(
        text(&health.stderr).contains("Active Alarm(s): NOSPACE"),
        "{health:?}"
    );
    assert_eq!(server.run(&["alarm", "disarm"]), alarms);
    assert_eq!(server.run(&["alarm", "list"]), "");
}
