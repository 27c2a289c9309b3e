//! What holds for every call: metadata, health, unknown services.

use etcd_api::Error;
use etcd_api::etcdserverpb::StatusRequest;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::serving::{get, put, serving};

#[tokio::test]
async fn the_server_says_that_it_serves() {
    let serving = serving(&[]);
    let mut health = HealthClient::new(serving.channel().await);
    let request = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = health.check(request("")).await.unwrap().into_inner();
    assert_eq!(answer.status, 1, "SERVING");
    assert_eq!(
        health.check(request("nobody")).await.unwrap_err().code(),
        Code::NotFound
    );
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
async fn a_version_that_is_no_text_is_refused() {
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
