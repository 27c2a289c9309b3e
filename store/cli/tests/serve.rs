//! `inkstone serve` as people and process supervisors see it: what it
//! prints, how it ends, by which names it can be called.
#![expect(clippy::unwrap_used, reason = "a test stops where something fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests prepare directories and take ports by themselves"
)]

use std::path::Path;
use std::process::{Command, ExitStatus, Output};

use harness::{MemberConfig, Program, ServerProcess, Signal};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");
const READY: &str = "ready to serve client requests";

/// Starts `program` with a directory in `place` and these words, and waits for its ready line.
fn ready(program: &Path, place: &TempDir, words: &[&str]) -> ServerProcess {
    let mut command = Command::new(program);
    command
        .args(words)
        .arg(data_flag(place))
        .args(["--segment-bytes=8388608", "--listen-client-urls"])
        .arg(socket_url(place))
        .arg("--advertise-client-urls=http://127.0.0.1:2379");
    let log = place.path().join("log");
    let mut served = ServerProcess::spawn(command, &log).unwrap();
    served.wait_for_line(READY).unwrap();
    served
}

fn data_flag(place: &TempDir) -> String {
    format!("--data-dir={}", place.path().join("data").display())
}

/// Stops the server with a signal; returns its exit status and its log.
fn end(mut served: ServerProcess, signal: Signal) -> (ExitStatus, Vec<String>) {
    served.signal(signal).unwrap();
    let status = served.wait_for_end().unwrap();
    let log = served.log();
    (status, log.lines().map(str::to_owned).collect())
}

fn socket_url(place: &TempDir) -> String {
    format!("unix://{}/s.sock", place.path().display())
}

fn serve(words: &[&str]) -> Output {
    Command::new(PROGRAM)
        .arg("serve")
        .args(words)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn both_signals_end_the_server_in_order_while_a_client_is_connected() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = tempfile::tempdir().unwrap();
        let served = ready(Path::new(PROGRAM), &place, &["serve"]);
        let path = place.path().join("s.sock");
        let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let (status, log) = end(served, signal);
        assert!(status.success(), "{status}: {log:?}");
        assert!(log.last().unwrap().contains("stopped"), "{log:?}");
        assert!(!path.exists());
    }
}

#[test]
fn every_log_line_is_one_json_object_with_etcd_s_four_keys() {
    let place = tempfile::tempdir().unwrap();
    let (_, log) = end(ready(Path::new(PROGRAM), &place, &["serve"]), Signal::TERM);
    for line in log {
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        for key in ["level", "ts", "caller", "msg"] {
            assert!(object[key].is_string(), "{key} in {line}");
        }
        assert_ne!(object["level"], "error", "{line}");
    }
}

#[test]
fn the_log_can_be_columns_in_a_file() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("server.log");
    let outputs = format!("--log-outputs=stderr,{}", file.display());
    let served = ready(
        Path::new(PROGRAM),
        &place,
        &["serve", "--log-format=console", &outputs],
    );
    let (_, log) = end(served, Signal::TERM);
    assert_eq!(log[0].split('\t').nth(1), Some("info"), "{}", log[0]);
    assert!(
        std::fs::read_to_string(file)
            .unwrap()
            .starts_with(log[0].trim_end())
    );
}

#[test]
fn the_name_etcd_and_a_leading_flag_start_the_server() {
    let place = tempfile::tempdir().unwrap();
    let etcd = place.path().join("etcd");
    std::os::unix::fs::symlink(PROGRAM, &etcd).unwrap();
    for (program, words) in [
        (&*etcd, &["--name=n1"][..]),
        (Path::new(PROGRAM), &["--name", "n1"]),
    ] {
        let served = ready(program, &place, words);
        assert!(end(served, Signal::TERM).0.success());
    }
}

#[test]
fn versions_begin_with_etcd_s_line() {
    for words in [&["--version"][..], &["serve", "--version"], &["-version"]] {
        let output = Command::new(PROGRAM).args(words).output().unwrap();
        assert!(output.status.success());
        let text = text(&output.stdout);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("etcd Version: 3.7.3"));
        assert!(lines.next().unwrap().starts_with("Inkstone Version: "));
    }
}

#[test]
fn impossible_flags_exit_with_2_and_a_remedy() {
    for (words, remedy) in [
        (&["--data-dri=x"][..], "did you mean --data-dir?"),
        (&["--name"], "needs a value"),
        (&["--wal-dir=x"], "not supported yet"),
        (&["put"], "not a valid flag"),
        (&["--config-file=/nowhere.yaml"], "/nowhere.yaml"),
        (&["--metrics=full"], "write basic or extensive"),
    ] {
        let output = serve(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let text = text(&output.stderr);
        assert!(text.contains(remedy), "{words:?}: {text}");
    }
}

#[test]
fn a_directory_in_use_is_refused_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let first = ready(Path::new(PROGRAM), &place, &["serve"]);
    let data = data_flag(&place);
    let second = tempfile::tempdir().unwrap();
    let listen = format!("--listen-client-urls={}", socket_url(&second));
    let output = serve(&[
        &data,
        &listen,
        "--advertise-client-urls=http://127.0.0.1:2379",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.contains(&first.pid().to_string()),
        "names the holder: {message}"
    );
    assert!(end(first, Signal::TERM).0.success());
}

/// The error of a server with this directory, which must exit with 1.
fn refusal_of(data: &Path, listen: &str) -> String {
    let output = serve(&[
        &format!("--data-dir={}", data.display()),
        &format!("--listen-client-urls={listen}"),
        "--advertise-client-urls=http://127.0.0.1:2379",
    ]);
    assert_eq!(output.status.code(), Some(1));
    text(&output.stderr)
}

#[test]
fn a_directory_of_etcd_is_refused_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(place.path().join("member/snap")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let message = refusal_of(place.path(), &socket_url(&elsewhere));
    assert!(message.contains("data directory of etcd"), "{message}");
    assert!(message.contains("--data-dir"), "{message}");
    let left: Vec<_> = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["member"]);
}

#[test]
fn a_foreign_file_with_a_segment_s_name_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("00000001.log");
    std::fs::write(&file, "lines of a web server").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let message = refusal_of(place.path(), &socket_url(&elsewhere));
    assert!(message.contains(&file.display().to_string()), "{message}");
    assert!(message.contains("called like a segment"), "{message}");
    assert!(
        !elsewhere.path().join("s.sock").exists(),
        "no socket is left"
    );
}

#[test]
fn joining_a_cluster_that_does_not_answer_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let address = harness::ports::free_address().unwrap();
    let output = serve(&[
        &data_flag(&place),
        &format!("--listen-client-urls={}", socket_url(&place)),
        "--advertise-client-urls=http://127.0.0.1:2379",
        &format!("--initial-cluster=default=http://localhost:2380,b=http://{address}"),
        "--initial-cluster-state=existing",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.contains("could not retrieve cluster information"),
        "{message}"
    );
    assert!(
        message.contains(&format!("{address}: cannot connect")),
        "{message}"
    );
    assert!(!place.path().join("data").exists(), "nothing has begun");
}

#[test]
fn a_file_in_the_place_of_the_directory_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("data");
    std::fs::write(&file, "not a directory").unwrap();
    let message = refusal_of(&file, &socket_url(&place));
    assert!(message.contains(&file.display().to_string()), "{message}");
    assert_eq!(std::fs::read(&file).unwrap(), b"not a directory");
}

#[test]
fn a_port_in_use_is_reported_with_its_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("http://{}", taken.local_addr().unwrap());
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let message = refusal_of(&data, &listen);
    assert!(
        message.contains(&listen) && message.contains("--listen-client-urls"),
        "{message}"
    );
    assert!(!data.exists(), "nothing is touched on disk");
}

/// Waits until a server is ready or ends; returns whether it is ready, and its log.
fn outcome(served: &mut ServerProcess) -> (bool, String) {
    let is_ready = served.wait_for_line(READY).is_ok();
    (is_ready, served.log())
}

#[test]
fn of_two_servers_started_at_once_at_one_address_one_serves() {
    const PAIRS: usize = 20;
    let address = harness::ports::free_address().unwrap();
    for pair in 0..PAIRS {
        let place = tempfile::tempdir().unwrap();
        let program = Program::new(PROGRAM).with(&["--segment-bytes=1048576"]);
        let mut begun = ["first", "second"].map(|name| {
            let mut config = MemberConfig::alone(name, place.path());
            config.client.clone_from(&address);
            ServerProcess::spawn(program.command(&config), &config.log).unwrap()
        });
        let [first, second] = begun.each_mut().map(outcome);
        assert_ne!(first.0, second.0, "pair {pair}: {} {}", first.1, second.1);
        let message = if first.0 { second.1 } else { first.1 };
        assert!(
            message.contains("another process listens there"),
            "{message}"
        );
        assert!(message.contains(&address), "{message}");
    }
}

#[test]
fn help_lists_the_flags_and_variables_set_them() {
    let output = serve(&["--help"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("--quota-backend-bytes"));
    let output = Command::new(PROGRAM)
        .arg("serve")
        .env("ETCD_HEARTBEAT_INTERVAL", "0")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--heartbeat-interval"));
}
