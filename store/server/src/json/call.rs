//! One call that the gateway makes for a client.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use gateway::{Route, Shape, forwarded, http_status, in_stream, of_call};
use http_body_util::Full;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::codegen::http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header,
};

use crate::answer_body::AnswerBody;
use crate::client::Client;
use crate::json::answer::JsonAnswer;
use crate::json::body::JsonBody;
use crate::request_body::{RequestBody, Source};

/// Answers a gRPC request of a client, as if it had come over the client's connection.
pub(crate) type Grpc =
    fn(&Arc<Client>, Request<RequestBody>) -> BoxFuture<Response<AnswerBody>, Infallible>;

/// The message of a body without a value.
const EMPTY: &[u8] = b"{}";

/// A failure before any part of an answer was there.
pub(super) struct Failure {
    status: Status,
    /// Whether the answer is a stream that has begun.
    in_stream: bool,
}

impl Failure {
    pub(super) fn json(&self) -> String {
        match self.in_stream {
            true => in_stream(&self.status),
            false => of_call(&self.status),
        }
    }

    pub(super) fn response(&self) -> Response<Body> {
        let mut response = refusal(&self.status);
        *response.body_mut() = Body::new(Full::from(self.json()));
        response
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure {
            status,
            in_stream: false,
        }
    }
}

/// Makes the call of a route, and waits for the beginning of its answer.
pub(super) async fn call(
    grpc: Grpc,
    client: &Arc<Client>,
    route: &'static Route,
    headers: &HeaderMap,
    mut body: JsonBody,
) -> Result<JsonAnswer<AnswerBody>, Failure> {
    let metadata = forwarded(headers);
    let metadata = metadata.map_err(|error| Status::invalid_argument(error.to_string()))?;
    let response = if route.takes_stream {
        let body = RequestBody::new(Source::Json(Box::new(body)), Arc::clone(client));
        grpc(client, request(route, metadata, body)).await
    } else {
        let message = poll_fn(|context| body.poll_message(context)).await?;
        let message = message.map_or_else(|| route.request(EMPTY), Ok)?;
        let first = RequestBody::new(Source::Message(Some(message)), Arc::clone(client));
        tokio::select! {
            biased;
            response = grpc(client, request(route, metadata, first)) => response,
            // As in etcd, what follows the first value is not looked at. It is read, so that the
            // end of the connection is seen and ends the call.
            gone = poll_fn(|context| body.poll_broken(context)) => return Err(gone.into()),
        }
    };
    let Ok(response) = response;
    let answer = JsonAnswer::begin(response, route.transcoder(), route.shape()).await;
    answer.map_err(|status| Failure {
        status,
        in_stream: route.shape() == Shape::Lines,
    })
}

fn request(route: &Route, mut metadata: HeaderMap, body: RequestBody) -> Request<RequestBody> {
    let kind = HeaderValue::from_static("application/grpc");
    metadata.insert(header::CONTENT_TYPE, kind);
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = route.call().parse().expect("a call's name is a path");
    *request.headers_mut() = metadata;
    request
}

/// The answer of a call that failed.
pub(super) fn refusal(status: &Status) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(of_call(status)))));
    *response.status_mut() = http_status(status.code());
    is_json(response.headers_mut());
    if response.status() == StatusCode::UNAUTHORIZED
        && let Ok(why) = HeaderValue::from_str(status.message())
    {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, why);
    }
    response
}

pub(super) fn is_json(headers: &mut HeaderMap) {
    let kind = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, kind);
}
