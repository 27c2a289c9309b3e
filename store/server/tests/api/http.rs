//! Pages over HTTP/1.

use etcd_api::etcdserverpb::CompactionRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::serving::{Serving, get as get_key, put, serving};

/// An answer.
pub struct Page {
    /// Status code.
    pub status: u16,
    /// All header lines.
    pub head: String,
    /// Body.
    pub body: String,
}

/// Asks for a page on the clients' port.
pub async fn get(serving: &Serving, path: &str) -> Page {
    ask(serving.endpoint.trim_start_matches("http://"), "GET", path).await
}

/// Asks for a page.
async fn ask(address: &str, method: &str, path: &str) -> Page {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Page {
        status,
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

#[tokio::test]
async fn health_is_etcd_s_to_the_byte() {
    let serving = serving(&[]);
    for path in ["/health", "/health?serializable=true"] {
        let page = get(&serving, path).await;
        assert_eq!(
            (page.status, page.body.as_str()),
            (200, r#"{"health":"true","reason":""}"#)
        );
        assert!(
            page.head.contains("access-control-allow-origin: *"),
            "{}",
            page.head
        );
    }
    let address = serving.endpoint.trim_start_matches("http://");
    let page = ask(address, "POST", "/health").await;
    assert_eq!(
        (page.status, page.body.as_str()),
        (405, "Method Not Allowed\n")
    );
    assert!(page.head.contains("allow: get"));
}

#[tokio::test]
async fn checks_are_named_and_can_be_left_out() {
    let serving = serving(&[]);
    assert_eq!(get(&serving, "/livez").await.body, "ok\n");
    let page = get(&serving, "/readyz?verbose&exclude=non_learner").await;
    assert_eq!(
        page.body,
        "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\nok\n"
    );
    assert_eq!(
        get(&serving, "/readyz/linearizable_read").await.body,
        "ok\n"
    );
    assert_eq!(get(&serving, "/livez/linearizable_read").await.status, 404);
}

#[tokio::test]
async fn versions_and_unknown_pages() {
    let serving = serving(&[]);
    let page = get(&serving, "/version").await;
    assert_eq!(
        page.body,
        r#"{"etcdserver":"3.7.3","etcdcluster":"3.7.0","storage":"3.7.0"}"#
    );
    assert!(page.head.contains("content-type: application/json"));
    let page = get(&serving, "/nope").await;
    assert_eq!(
        (page.status, page.body.as_str()),
        (404, "404 page not found\n")
    );
}

#[tokio::test]
async fn metrics_have_etcd_s_names_and_no_name_twice() {
    let serving = serving(&[]);
    serving.kv().await.put(put("a", "1")).await.unwrap();
    let page = get(&serving, "/metrics").await.body;
    for name in [
        "etcd_server_has_leader 1",
        "etcd_server_proposals_committed_total",
        "etcd_disk_wal_fsync_duration_seconds_count",
        "etcd_disk_backend_commit_duration_seconds_count",
        "etcd_mvcc_db_total_size_in_bytes",
        "etcd_debugging_mvcc_keys_total 1",
        "etcd_network_client_grpc_received_bytes_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "inkstone_log_flushes_total",
    ] {
        assert!(page.contains(&format!("\n{name}")), "{name} is missing");
    }
    assert!(!page.contains("\nprocess_open_fds 0\n"));
    let mut families: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), all);
}

/// The sample with this name and these labels.
fn sample<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = page.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

#[tokio::test]
async fn what_commands_and_ranges_take_is_measured() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    kv.put(put("a", "1")).await.unwrap();
    kv.put(put("a", "2")).await.unwrap();
    kv.range(get_key("a")).await.unwrap();
    let compact = CompactionRequest {
        revision: 3,
        physical: true,
    };
    kv.compact(compact).await.unwrap();
    let page = get(&serving, "/metrics").await.body;
    let evaluated =
        r#"etcd_server_apply_duration_seconds_count{op="Put",success="true",version="v3"}"#;
    for (name, value) in [
        (evaluated, "2"),
        (
            r#"etcd_server_range_duration_seconds_count{success="true"}"#,
            "1",
        ),
        ("etcd_debugging_mvcc_db_compaction_keys_total", "1"),
        (
            "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds_count",
            "1",
        ),
        ("etcd_debugging_mvcc_slow_watcher_total", "0"),
        ("promhttp_metric_handler_requests_in_flight", "1"),
    ] {
        assert_eq!(sample(&page, name), Some(value), "{name}");
    }
    assert_ne!(
        sample(&page, "etcd_debugging_mvcc_db_compaction_last"),
        Some("0")
    );
    assert!(!page.contains("grpc_server_handling_seconds"));
}

#[tokio::test]
async fn extensive_metrics_time_every_call() {
    let serving = serving(&["--metrics=extensive"]);
    serving.kv().await.put(put("a", "1")).await.unwrap();
    let page = get(&serving, "/metrics").await.body;
    let labels = r#"{grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"}"#;
    let name = format!("grpc_server_handling_seconds_count{labels}");
    assert_eq!(sample(&page, &name), Some("1"));
}

#[tokio::test]
async fn http_can_have_a_port_of_its_own_and_metrics_too() {
    let directory = tempfile::tempdir().unwrap();
    let socket = |name: &str| format!("unix://{}/{name}", directory.path().display());
    let http = format!("--listen-client-http-urls={}", socket("http"));
    let metrics = format!("--listen-metrics-urls={}", socket("metrics"));
    let serving = serving(&[&http, &metrics]);
    serving.kv().await.put(put("a", "1")).await.unwrap();
    for (name, path, status) in [
        ("http", "/version", 200),
        ("metrics", "/metrics", 200),
        ("metrics", "/health", 200),
        ("metrics", "/version", 404),
    ] {
        let mut socket = tokio::net::UnixStream::connect(directory.path().join(name))
            .await
            .unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status}")),
            "{name}{path}: {text}"
        );
    }
    let page = get(&serving, "/health").await;
    assert_ne!(
        page.body, r#"{"health":"true","reason":""}"#,
        "pages have left this port"
    );
}
