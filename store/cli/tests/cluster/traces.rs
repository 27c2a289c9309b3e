//! One put is one trace, from the client through a follower to the leader.

use etcd_api::etcdserverpb::PutRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

use crate::three::{NAMES, Three};

const TRACE: [u8; 16] = [0xab; 16];
const CLIENT_SPAN: [u8; 8] = [0xcd; 8];

/// Keeps each span with the name of the member that sent it.
struct Collector(mpsc::UnboundedSender<(String, Span)>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for spans in request.into_inner().resource_spans {
            let resource = spans.resource.unwrap_or_default();
            let attributes = resource.attributes.into_iter();
            let mut instances = attributes.filter(|it| it.key == "service.instance.id");
            let instance = instances.next().and_then(|it| it.value?.value);
            let Some(Value::StringValue(instance)) = instance else {
                return Err(Status::invalid_argument("spans of no instance"));
            };
            for span in spans.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let _ = self.0.send((instance.clone(), span));
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

async fn collect(listener: TcpListener, service: TraceServiceServer<Collector>) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let server = Builder::new(TokioExecutor::new());
            // A member that ends breaks its connection.
            let _ = server.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

#[tokio::test]
async fn one_put_is_one_trace_of_the_client_the_follower_and_the_leader() {
    let address = harness::ports::free_address().unwrap();
    let (sender, mut spans) = mpsc::unbounded_channel();
    let listener = TcpListener::bind(&address).await.unwrap();
    tokio::spawn(collect(
        listener,
        TraceServiceServer::new(Collector(sender)),
    ));

    let mut three = Three::prepared();
    let address = format!("--distributed-tracing-address={address}");
    for (number, name) in NAMES.iter().enumerate() {
        let instance = format!("--distributed-tracing-instance-id={name}");
        for flag in ["--enable-distributed-tracing", &address, &instance] {
            three.add_flag(number, flag);
        }
        three.launch(number);
    }
    three.put(0, "k", "not recorded").await;
    let leader = three.leader(0).await;
    let follower = (leader + 1) % 3;
    let mut put = Request::new(PutRequest {
        key: "k".into(),
        ..PutRequest::default()
    });
    let parent = format!("00-{}-{}-01", "ab".repeat(16), "cd".repeat(8));
    put.metadata_mut()
        .insert("traceparent", parent.parse().unwrap());
    three.kv(follower).put(put).await.unwrap();

    let (mut of_follower, mut of_leader) = (None, None);
    while of_follower.is_none() || of_leader.is_none() {
        let (member, span) = spans.recv().await.unwrap();
        assert_eq!(span.trace_id, TRACE, "nothing else is recorded: {span:?}");
        match &*span.name {
            "etcdserverpb.KV/Put" => of_follower = Some((member, span)),
            "propose" => of_leader = Some((member, span)),
            other => panic!("an unknown span {other}"),
        }
    }
    let (member, of_follower) = of_follower.unwrap();
    assert_eq!(member, NAMES[follower]);
    assert_eq!(of_follower.parent_span_id, CLIENT_SPAN);
    let (member, of_leader) = of_leader.unwrap();
    assert_eq!(member, NAMES[leader]);
    assert_eq!(of_leader.parent_span_id, of_follower.span_id);
    assert!(of_leader.start_time_unix_nano <= of_leader.end_time_unix_nano);
}
