//! Properties of every call: metadata, health, unknown services.

use etcd_api::Error;
use etcd_api::etcdserverpb::StatusRequest;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_prost::ProstCodec;

use crate::serving::{get, put, serving};

#[tokio::test]
async fn health_check_answers_serving() {
    let serving = serving(&[]);
    let mut health = HealthClient::new(serving.channel().await);
    let request = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = health.check(request("")).await.unwrap().into_inner();
    assert_eq!(answer.status, 1, "SERVING");
    assert_eq!(
        health.check(request("missing")).await.unwrap_err().code(),
        Code::NotFound
    );
    let mut statuses = health.watch(request("")).await.unwrap().into_inner();
    let status = statuses.message().await.unwrap().unwrap().status;
    assert_eq!(status, 1, "SERVING");
    let mut missing = health.watch(request("missing")).await.unwrap().into_inner();
    assert_eq!(missing.message().await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_client_may_require_a_leader_and_say_its_version() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    let mut request = Request::new(get("a"));
    request
        .metadata_mut()
        .insert("hasleader", MetadataValue::from_static("true"));
    request
        .metadata_mut()
        .insert("client-api-version", MetadataValue::from_static("3.7"));
    kv.range(request).await.unwrap();
    let page = crate::http::get(&serving, "/metrics").await.body;
    let line = r#"etcd_server_client_requests_total{client_api_version="3.7",type="unary"} 1"#;
    assert!(page.contains(line));
}

#[tokio::test]
async fn a_client_version_that_is_no_text_is_refused() {
    let serving = serving(&[]);
    let mut maintenance = MaintenanceClient::new(serving.channel().await);
    let mut request = Request::new(StatusRequest {});
    let version = MetadataValue::try_from(&[0xff, 0xfe][..]).unwrap();
    request.metadata_mut().insert("client-api-version", version);
    let refused = maintenance.status(request).await.unwrap_err();
    assert_eq!(refused.message(), Error::InvalidClientApiVersion.message());
}

#[tokio::test]
async fn calls_are_counted_by_method_and_code() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    kv.put(put("a", "1")).await.unwrap();
    kv.put(put("", "1")).await.unwrap_err();
    let page = crate::http::get(&serving, "/metrics").await.body;
    let handled = |code| {
        format!(
            "grpc_server_handled_total{{grpc_code=\"{code}\",grpc_method=\"Put\",\
             grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}} 1\n"
        )
    };
    assert!(page.contains(&handled("OK")));
    assert!(page.contains(&handled("InvalidArgument")));
    assert!(page.contains("\netcd_mvcc_put_total 1\n"));
}

/// Prometheus' `rate()` sees no increase where a row appears with its first count.
#[tokio::test]
async fn every_method_and_code_has_a_row_of_zero_before_the_first_call() {
    let serving = serving(&[]);
    let page = crate::http::get(&serving, "/metrics").await.body;
    let rows = |family: &str| page.lines().filter(|line| line.starts_with(family)).count();
    assert_eq!(rows("grpc_server_handled_total{"), 45 * 17);
    for family in ["started", "msg_received", "msg_sent"] {
        assert_eq!(rows(&format!("grpc_server_{family}_total{{")), 45);
    }
    for row in [
        r#"handled_total{grpc_code="Unavailable",grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"} 0"#,
        r#"handled_total{grpc_code="DataLoss",grpc_method="Watch",grpc_service="grpc.health.v1.Health",grpc_type="server_stream"} 0"#,
        r#"started_total{grpc_method="List",grpc_service="grpc.health.v1.Health",grpc_type="unary"} 0"#,
    ] {
        assert!(page.contains(&format!("\ngrpc_server_{row}\n")), "{row}");
    }
}

#[tokio::test]
async fn health_checks_are_counted() {
    let serving = serving(&[]);
    let mut health = HealthClient::new(serving.channel().await);
    let request = || HealthCheckRequest::default();
    health.check(request()).await.unwrap();
    let mut notices = health.watch(request()).await.unwrap().into_inner();
    assert_eq!(notices.message().await.unwrap().unwrap().status, 1);
    let page = crate::http::get(&serving, "/metrics").await.body;
    let service = r#"grpc_service="grpc.health.v1.Health""#;
    for row in [
        format!(
            r#"handled_total{{grpc_code="OK",grpc_method="Check",{service},grpc_type="unary"}} 1"#
        ),
        format!(r#"started_total{{grpc_method="Watch",{service},grpc_type="server_stream"}} 1"#),
        format!(r#"msg_sent_total{{grpc_method="Watch",{service},grpc_type="server_stream"}} 1"#),
    ] {
        assert!(page.contains(&format!("\ngrpc_server_{row}\n")), "{row}");
    }
}

/// The refusal must name what is missing and what to use instead.
#[tokio::test]
async fn missing_services_name_themselves_and_a_replacement() {
    let serving = serving(&[]);
    let mut calls = Grpc::new(serving.channel().await);
    calls.ready().await.unwrap();
    // The library has no such call.
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/List");
    let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let request = Request::new(HealthCheckRequest::default());
    let refused = calls.unary(request, path, codec).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    for part in ["not supported yet", "Health/List", "Check"] {
        assert!(refused.message().contains(part), "{}", refused.message());
    }
    let page = crate::http::get(&serving, "/metrics").await.body;
    let row = "grpc_server_handled_total{grpc_code=\"Unimplemented\",grpc_method=\"List\",\
               grpc_service=\"grpc.health.v1.Health\",grpc_type=\"unary\"} 1\n";
    assert!(page.contains(row), "{page}");
    assert!(
        !page.contains(r#"grpc_method="Resign""#),
        "it was not called"
    );
}
