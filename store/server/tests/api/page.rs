//! The page at `/ui`: its files over HTTP/1, and pages of other origins.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::gateway::address;
use crate::gateway::client::{ask, post};
use crate::serving::{Serving, serving};

/// An answer with a body of any bytes.
struct Page {
    status: u16,
    /// All header lines, in lower case.
    head: String,
    body: Vec<u8>,
}

impl Page {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find_map(|(found, value)| (found == name).then_some(value))
    }
}

async fn request(serving: &Serving, method: &str, path: &str, lines: &str) -> Page {
    let mut socket = TcpStream::connect(address(serving)).await.unwrap();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).await.unwrap();
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    Page {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_lowercase(),
        body: bytes[end + 4..].to_vec(),
    }
}

async fn get(serving: &Serving, path: &str) -> Page {
    request(serving, "GET", path, "").await
}

const PROTECTION: [(&str, &str); 6] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "deny"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-cache"),
];

fn assert_protected(page: &Page) {
    for (name, value) in PROTECTION {
        assert_eq!(page.header(name), Some(value), "{name}: {}", page.head);
    }
    let policy = page.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn each_file_is_served_as_it_is_with_its_kind_and_under_protection() {
    let serving = serving(&[]);
    for file in ui::files() {
        let path = format!("/ui/{}", file.path);
        let page = get(&serving, &path).await;
        assert_eq!((page.status, page.body.len()), (200, file.bytes), "{path}");
        assert_eq!(page.body, file.plain());
        assert_eq!(page.header("content-type"), Some(file.kind));
        assert_eq!(page.header("vary"), Some("accept-encoding"));
        assert_protected(&page);
    }
    let index = get(&serving, "/ui/").await;
    assert_eq!(index.body, ui::find(ui::INDEX).unwrap().plain());
    let moved = get(&serving, "/ui").await;
    assert_eq!((moved.status, moved.header("location")), (308, Some("ui/")));
    assert_protected(&moved);
}

#[tokio::test]
async fn a_client_with_gzip_gets_the_compressed_bytes() {
    let serving = serving(&[]);
    let page = request(&serving, "GET", "/ui/", "Accept-Encoding: gzip, br\r\n").await;
    assert_eq!(page.header("content-encoding"), Some("gzip"));
    let mut plain = Vec::new();
    let mut reader = GzDecoder::new(&page.body[..]);
    reader.read_to_end(&mut plain).unwrap();
    assert_eq!(plain, ui::find(ui::INDEX).unwrap().plain());
    let refused = request(&serving, "GET", "/ui/", "Accept-Encoding: gzip;q=0\r\n").await;
    assert_eq!(
        (refused.header("content-encoding"), &refused.body),
        (None, &plain)
    );
}

#[tokio::test]
async fn a_known_file_is_not_sent_again() {
    let serving = serving(&[]);
    let tag = ui::find(ui::INDEX).unwrap().tag;
    let first = get(&serving, "/ui/").await;
    assert_eq!(first.header("etag"), Some(tag.to_lowercase()).as_deref());
    for known in [tag, "*"] {
        let page = request(
            &serving,
            "GET",
            "/ui/",
            &format!("If-None-Match: {known}\r\n"),
        )
        .await;
        assert_eq!((page.status, page.body.len()), (304, 0), "{known}");
        assert_eq!(page.header("etag"), Some(tag.to_lowercase()).as_deref());
        assert_protected(&page);
    }
    let other = request(&serving, "GET", "/ui/", "If-None-Match: \"x\"\r\n").await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn a_head_has_the_length_of_the_body_and_no_body() {
    let serving = serving(&[]);
    let page = request(&serving, "HEAD", "/ui/", "").await;
    let bytes = ui::find(ui::INDEX).unwrap().bytes.to_string();
    assert_eq!(
        (page.status, page.header("content-length")),
        (200, Some(&bytes[..]))
    );
    assert!(page.body.is_empty());
}

#[tokio::test]
async fn other_names_and_methods_are_refused_under_protection() {
    let serving = serving(&[]);
    for path in [
        "/ui/nothing.js",
        "/ui/../metrics",
        "/ui//",
        "/ui/%2e%2e/x",
        "/ui/a/",
    ] {
        let page = get(&serving, path).await;
        assert_eq!(page.status, 404, "{path}");
        assert_protected(&page);
    }
    assert_eq!(get(&serving, "/uix").await.status, 404);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let page = request(&serving, method, "/ui/", "Content-Length: 0\r\n").await;
        assert_eq!(
            (page.status, page.header("allow")),
            (405, Some("get, head")),
            "{method}"
        );
        assert_protected(&page);
    }
}

#[tokio::test]
async fn a_switched_off_page_is_not_found_and_one_without_the_gateway_says_why() {
    let off = serving(&["--enable-ui=false"]);
    let page = get(&off, "/ui/").await;
    assert_eq!(
        (page.status, &page.body[..]),
        (404, &b"404 page not found\n"[..])
    );
    let (status, _) = post(address(&off), "/v3/inkstone/children", "{}").await;
    assert_eq!(status, 200, "the calls are the gateway's");
    let no_gateway = serving(&["--enable-grpc-gateway=false"]);
    let page = get(&no_gateway, "/ui/").await;
    let text = String::from_utf8(page.body).unwrap();
    assert_eq!(page.status, 404);
    assert!(text.contains("--enable-grpc-gateway"), "{text}");
}

#[tokio::test]
async fn a_port_for_metrics_has_no_page() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("metrics");
    let url = format!("--listen-metrics-urls=unix://{}", socket.display());
    let _serving = serving(&[&url]);
    let mut socket = tokio::net::UnixStream::connect(socket).await.unwrap();
    let request = "GET /ui/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 404"), "{text}");
}

#[tokio::test]
async fn a_host_that_is_not_listed_gets_no_page() {
    let serving = serving(&["--host-whitelist=db.example"]);
    assert_eq!(get(&serving, "/ui/").await.status, 421);
}

const PUT: &str = r#"{"key":"YQ==","value":"MQ=="}"#;

async fn status_of(serving: &Serving, path: &str, lines: &str, body: &str) -> u16 {
    ask(address(serving), "POST", path, lines, body)
        .await
        .status
}

/// A page of any origin can send a simple request with its visitor's browser, though it may not
/// read the answer.
#[tokio::test]
async fn pages_of_other_origins_change_nothing() {
    let serving = serving(&[]);
    for lines in [
        "Sec-Fetch-Site: cross-site\r\nOrigin: http://evil.example\r\n",
        "Sec-Fetch-Site: same-site\r\nOrigin: http://localhost:3000\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\nContent-Type: text/plain\r\n",
    ] {
        for (path, body) in [
            ("/v3/kv/put", PUT),
            ("/v3beta/kv/put", PUT),
            ("/v3/kv/txn", "{}"),
            ("/v3/kv/deleterange", r#"{"key":"YQ=="}"#),
            ("/v3/lease/grant", r#"{"TTL":"60"}"#),
            ("/v3/auth/user/add", r#"{"name":"x"}"#),
            ("/v3/auth/authenticate", "{}"),
            ("/v3/maintenance/alarm", "{}"),
            ("/v3/lock/lock", r#"{"name":"YQ=="}"#),
        ] {
            assert_eq!(
                status_of(&serving, path, lines, body).await,
                403,
                "{path} {lines}"
            );
        }
        let range = r#"{"key":"YQ=="}"#;
        assert_eq!(status_of(&serving, "/v3/kv/range", lines, range).await, 200);
        assert_eq!(
            status_of(&serving, "/v3/inkstone/children", lines, "{}").await,
            200
        );
    }
    let (_, children) = post(address(&serving), "/v3/inkstone/children", "{}").await;
    let children: Value = serde_json::from_str(&children).unwrap();
    assert_eq!(children.get("total_count"), None, "nothing was put");
}

#[tokio::test]
async fn the_page_itself_listed_origins_and_other_clients_may_change() {
    let listed = serving(&["--cors=http://a.example"]);
    for lines in [
        "",
        "Sec-Fetch-Site: same-origin\r\nOrigin: https://localhost\r\n",
        "Sec-Fetch-Site: none\r\n",
        "Origin: http://localhost\r\n",
        "Sec-Fetch-Site: cross-site\r\nOrigin: http://a.example\r\n",
    ] {
        assert_eq!(
            status_of(&listed, "/v3/kv/put", lines, PUT).await,
            200,
            "{lines}"
        );
    }
    let other = "Origin: http://b.example\r\n";
    assert_eq!(status_of(&listed, "/v3/kv/put", other, PUT).await, 403);
}

/// With the default of `--cors`, a page may send gRPC's content type, too.
#[tokio::test]
async fn a_page_of_another_origin_changes_nothing_over_grpc() {
    let serving = serving(&[]);
    let lines = "Origin: http://evil.example\r\nContent-Type: application/grpc\r\n";
    let path = "/etcdserverpb.KV/Put";
    let refused = ask(address(&serving), "POST", path, lines, "").await;
    assert!(refused.head.contains("grpc-status: 7"), "{}", refused.head);
    let own = "Origin: http://localhost\r\nContent-Type: application/grpc\r\n";
    let empty = ask(address(&serving), "POST", path, own, "").await;
    assert!(!empty.head.contains("grpc-status: 7"), "{}", empty.head);
}

#[tokio::test]
async fn a_refusal_names_the_flag_that_allows_the_origin() {
    let serving = serving(&[]);
    let lines = "Origin: http://tool.example\r\n";
    let mut refused = ask(address(&serving), "POST", "/v3/kv/put", lines, PUT).await;
    let body: Value = serde_json::from_str(&refused.rest().await).unwrap();
    assert_eq!(body["code"], json!(7));
    let text = body["message"].as_str().unwrap();
    assert!(text.contains("--cors=http://tool.example"), "{text}");
}
