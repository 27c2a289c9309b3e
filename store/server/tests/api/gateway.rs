//! The JSON gateway.

pub mod client;
mod exchanges;
mod hostile;
mod websocket;

use etcd_api::etcdserverpb::RangeRequest;
use serde_json::{Value, json};

use crate::serving::{Serving, get as get_key, put, serving};
use client::{Answer, ask, post};

/// Address of the client port.
pub fn address(serving: &Serving) -> &str {
    serving.endpoint.trim_start_matches("http://")
}

/// The answer of a call that succeeds.
pub async fn ok(serving: &Serving, path: &str, body: Value) -> Value {
    let (status, answer) = post(address(serving), path, &body.to_string()).await;
    assert_eq!(status, 200, "{path} {body}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

/// Begins a stream.
async fn stream(serving: &Serving, path: &str, body: Value) -> Answer {
    let answer = ask(address(serving), "POST", path, "", &body.to_string()).await;
    assert_eq!(answer.status, 200);
    answer
}

async fn result(answer: &mut Answer) -> Value {
    let line = answer.line().await.unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    line["result"].clone()
}

#[tokio::test]
async fn json_and_grpc_see_the_same_store() {
    let serving = serving(&[]);
    ok(
        &serving,
        "/v3/kv/put",
        json!({"key": "YQ==", "value": "MQ=="}),
    )
    .await;
    let mut kv = serving.kv().await;
    let found = kv.range(get_key("a")).await.unwrap().into_inner();
    assert_eq!(found.kvs[0].value(), b"1");
    kv.put(put("b", "2")).await.unwrap();
    let found = ok(&serving, "/v3beta/kv/range", json!({"key": "Yg=="})).await;
    assert_eq!(found["kvs"][0]["value"], "Mg==");
    assert_eq!(found["count"], "1");
}

#[tokio::test]
async fn heads_are_etcd_s() {
    let serving = serving(&[]);
    let answer = ask(
        address(&serving),
        "POST",
        "/v3/kv/range",
        "",
        r#"{"key":"YQ=="}"#,
    )
    .await;
    for line in [
        "content-type: application/json",
        "grpc-metadata-content-type: application/grpc",
        "access-control-allow-origin: *",
        "access-control-allow-headers: accept, content-type, authorization",
        "content-length: ",
    ] {
        assert!(answer.head.contains(line), "{line}: {}", answer.head);
    }
    let refused = ask(address(&serving), "POST", "/v3/kv/range", "", "{}").await;
    assert_eq!(refused.status, 400);
    assert!(!refused.head.contains("grpc-metadata"), "{}", refused.head);
    let preflight = ask(address(&serving), "OPTIONS", "/v3/kv/range", "", "").await;
    assert_eq!(preflight.status, 200);
    assert!(
        preflight
            .head
            .contains("access-control-allow-methods: post,")
    );
}

#[tokio::test]
async fn a_switched_off_gateway_has_no_pages() {
    let off = serving(&["--enable-grpc-gateway=false"]);
    let (status, text) = post(address(&off), "/v3/kv/range", "{}").await;
    assert_eq!((status, text.as_str()), (404, "404 page not found"));
}

#[tokio::test]
async fn hosts_and_origins_that_are_not_listed_are_refused() {
    let listed = serving(&["--host-whitelist=db.example", "--cors=http://a"]);
    let (status, _) = post(address(&listed), "/v3/kv/range", r#"{"key":"YQ=="}"#).await;
    assert_eq!(status, 421);
    let listed = serving(&["--cors=http://a"]);
    for (origin, allowed) in [("http://a", true), ("http://b", false)] {
        let lines = format!("Origin: {origin}\r\n");
        let body = r#"{"key":"YQ=="}"#;
        let answer = ask(address(&listed), "POST", "/v3/kv/range", &lines, body).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.head.contains("access-control-allow-origin"), allowed);
    }
}

#[tokio::test]
async fn a_watch_sends_a_line_for_each_message_and_outlives_its_request() {
    let serving = serving(&[]);
    let create = json!({"create_request": {"key": "YQ=="}});
    let mut watch = stream(&serving, "/v3/watch", create).await;
    assert_eq!(result(&mut watch).await["created"], true);
    for value in ["1", "2"] {
        serving.kv().await.put(put("a", value)).await.unwrap();
        let events = result(&mut watch).await;
        assert_eq!(events["events"][0]["kv"]["key"], "YQ==");
        assert!(
            events["events"][0].get("type").is_none(),
            "PUT is the default"
        );
    }
}

#[tokio::test]
async fn several_messages_may_be_in_one_body() {
    let serving = serving(&[]);
    let ids: Vec<i64> = (1..=300).collect();
    let body: String = ids
        .iter()
        .map(|id| format!("{{\"ID\":\"{id}\"}} "))
        .collect();
    let address = address(&serving);
    let mut renewals = ask(address, "POST", "/v3/lease/keepalive", "", &body).await;
    for id in &ids {
        assert_eq!(result(&mut renewals).await["ID"], id.to_string());
    }
    assert_eq!(renewals.line().await, None, "the stream ends with the body");
}

#[tokio::test]
async fn a_large_range_is_the_same_in_json() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    for number in 0..40 {
        let value = "v".repeat(number * 2_000);
        kv.put(put(&format!("k{number:02}"), &value)).await.unwrap();
    }
    let range = json!({"key": "aw==", "range_end": "bA=="});
    let found = ok(&serving, "/v3/kv/range", range).await;
    let all = RangeRequest {
        range_end: "l".into(),
        ..get_key("k")
    };
    let expected = kv.range(all).await.unwrap().into_inner();
    let kvs = found["kvs"].as_array().unwrap();
    assert_eq!((kvs.len(), found["count"].as_str()), (40, Some("40")));
    for (json, kv) in kvs.iter().zip(&expected.kvs) {
        let value = json["value"].as_str().unwrap_or_default();
        assert_eq!(value.len(), kv.value().len().div_ceil(3) * 4);
        assert_eq!(json["mod_revision"], kv.mod_revision().to_string());
    }
}

#[tokio::test]
async fn calls_of_the_gateway_are_counted_as_calls() {
    let serving = serving(&[]);
    ok(&serving, "/v3/kv/put", json!({"key": "YQ=="})).await;
    post(address(&serving), "/v3/kv/put", "{}").await;
    let page = crate::http::get(&serving, "/metrics").await.body;
    for code in ["OK", "InvalidArgument"] {
        let labels = format!(
            r#"{{grpc_code="{code}",grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"}} 1"#
        );
        assert!(
            page.contains(&format!("grpc_server_handled_total{labels}")),
            "{code}"
        );
    }
}

#[tokio::test]
async fn a_stopping_server_ends_streams_with_an_error_line() {
    let mut serving = serving(&[]);
    let create = json!({"create_request": {"key": "YQ=="}});
    let mut watch = stream(&serving, "/v3/watch", create).await;
    result(&mut watch).await;
    tokio::task::spawn_blocking(move || serving.stop());
    let line = watch.line().await.unwrap();
    assert_eq!(
        line,
        r#"{"error":{"code":14,"message":"etcdserver: server stopped"}}"#
    );
}
