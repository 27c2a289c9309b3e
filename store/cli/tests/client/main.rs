//! The client verbs against a server of the test, as people type them.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts processes, waits for them and looks for a port"
)]

mod checks;
mod damage;
mod etcdctl;
mod leases;
mod locks;
mod members;
mod mirrors;
mod server;
mod stub;
mod terminal;
mod top;
mod transactions;
mod users;

use server::{Server, text};

#[test]
fn a_key_is_put_read_and_deleted() {
    let server = Server::start();
    assert_eq!(server.run(&["put", "ink", "stone"]), "OK\n");
    assert_eq!(server.run(&["get", "ink"]), "ink\nstone\n");
    assert_eq!(
        server.run(&["put", "ink", "wash", "--prev-kv"]),
        "OK\nink\nstone\n"
    );
    assert_eq!(server.run(&["del", "ink", "--prev-kv"]), "1\nink\nwash\n");
    assert_eq!(server.run(&["get", "ink"]), "");
    assert_eq!(server.run(&["del", "ink"]), "0\n");
}

#[test]
fn an_endpoint_that_does_not_answer_is_skipped() {
    let server = Server::start();
    // Nothing listens at port 1.
    let endpoints = format!("127.0.0.1:1,{}", server.address());
    assert_eq!(
        server.run(&["put", "ink", "stone", "--endpoint", &endpoints]),
        "OK\n"
    );
    assert_eq!(
        server.run(&["get", "ink", "--endpoint", &endpoints]),
        "ink\nstone\n"
    );
}

#[test]
fn a_value_comes_from_stdin_to_the_byte() {
    let server = Server::start();
    let value = b"line\nline\0\xff";
    assert_eq!(server.feed(&["put", "absent"], value), "OK\n");
    assert_eq!(server.feed(&["put", "dash", "-"], value), "OK\n");
    for key in ["absent", "dash"] {
        let expected = [key.as_bytes(), b"\n", value, b"\n"].concat();
        assert_eq!(server.output(&["get", key]).stdout, expected);
    }
    assert_eq!(
        server.run(&["get", "dash", "--hex"]).lines().last(),
        Some("\\x6c\\x69\\x6e\\x65\\x0a\\x6c\\x69\\x6e\\x65\\x00\\xff")
    );
}

#[test]
fn ranges_limits_orders_and_counts() {
    let server = Server::start();
    for key in ["a", "b", "b/1", "b/2", "c"] {
        server.run(&["put", key, "v"]);
    }
    let keys = |words: &[&str]| {
        let words = [&["get", "--keys-only"], words].concat();
        server
            .run(&words)
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&["b", "--prefix"]), ["b", "b/1", "b/2"]);
    assert_eq!(keys(&["b", "c"]), ["b", "b/1", "b/2"]);
    assert_eq!(keys(&["b/2", "--from-key"]), ["b/2", "c"]);
    assert_eq!(keys(&["", "--prefix", "--limit", "2"]), ["a", "b"]);
    assert_eq!(
        keys(&["", "--from-key", "--reverse", "--limit", "2"]),
        ["c", "b/2"]
    );
    assert_eq!(server.run(&["get", "", "--prefix", "--count-only"]), "5\n");
    assert_eq!(server.run(&["del", "b/", "--prefix"]), "2\n");
    assert_eq!(
        keys(&["", "--prefix", "--rev", "6"]),
        ["a", "b", "b/1", "b/2", "c"]
    );
}

#[test]
fn json_has_etcd_s_names_and_base64() {
    let server = Server::start();
    server.run(&["put", "ink", "stone"]);
    let answer: serde_json::Value =
        serde_json::from_str(&server.run(&["get", "ink", "-w", "json"])).unwrap();
    assert_eq!(answer["count"], 1);
    assert_eq!(answer["header"]["revision"], 2);
    assert_eq!(answer["kvs"][0]["key"], "aW5r");
    assert_eq!(answer["kvs"][0]["value"], "c3RvbmU=");
    assert_eq!(answer["kvs"][0]["mod_revision"], 2);
}

#[test]
fn a_refusal_is_printed_in_the_server_s_words() {
    let server = Server::start();
    let cases: [(&[&str], &str); 2] = [
        (&["get", "k", "--rev", "99"], "future revision"),
        (
            &["put", "k", "v", "--lease", "12ab"],
            "requested lease not found",
        ),
    ];
    for (words, expected) in cases {
        let output = server.output(words);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains(expected),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_watch_shows_the_past_and_what_happens_until_it_is_interrupted() {
    let server = Server::start();
    server.run(&["put", "w/1", "before"]);
    let mut watch = server.begin(&["watch", "w/", "--prefix", "--rev", "1", "--prev-kv"]);
    assert_eq!(watch.lines(3), ["PUT", "w/1", "before"]);
    server.run(&["put", "w/1", "after"]);
    assert_eq!(watch.lines(5), ["PUT", "w/1", "before", "w/1", "after"]);
    server.run(&["put", "other", "x"]);
    server.run(&["del", "w/1"]);
    assert_eq!(watch.lines(5), ["DELETE", "w/1", "after", "w/1", ""]);
    let (status, complaint) = watch.interrupt();
    assert!(status.success(), "{complaint}");
    assert_eq!(complaint, "");
}

#[test]
fn a_watch_in_json_is_one_object_a_line() {
    let server = Server::start();
    server.run(&["put", "k", "v"]);
    let mut watch = server.begin(&["watch", "k", "--rev", "1", "-w", "json"]);
    let object: serde_json::Value = serde_json::from_str(&watch.lines(1)[0]).unwrap();
    assert_eq!(object["events"][0]["type"], "PUT");
    assert_eq!(object["events"][0]["kv"]["key"], "aw==");
}

#[test]
fn a_watch_names_the_next_revision_when_its_server_ends() {
    let mut server = Server::start();
    server.run(&["put", "k", "v"]);
    let mut watch = server.begin(&["watch", "k", "--rev", "1"]);
    watch.lines(3);
    server.stop();
    let (status, complaint) = watch.end();
    assert_eq!(status.code(), Some(1));
    assert!(complaint.contains("--rev 3"), "{complaint}");
}

#[test]
fn a_directory_is_inspected_and_checked_while_it_is_served() {
    let mut server = Server::start();
    for number in 0..20 {
        server.run(&["put", &format!("k{number}"), "v"]);
    }
    let directory = server.directory();
    let path = directory.to_str().unwrap();
    for words in [&["check", path][..], &["inspect", path]] {
        let output = server.output(words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report = text(&output.stdout);
        assert!(report.contains("in use by process"), "{report}");
        assert!(report.contains("21"), "{report}");
    }
    server.stop();
    let report = text(&server.output(&["check", path]).stdout);
    assert!(
        report.contains("last revision 21") && !report.contains("in use"),
        "{report}"
    );
}
