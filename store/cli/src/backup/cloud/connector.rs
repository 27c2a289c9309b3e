//! HTTP to object stores: hyper over the TLS that the rest of the program has.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tls::{Connector, Settings};
use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;
use tower::Service;

use super::allows_plain;
use crate::client::why;

/// Makes clients of object stores.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    tls: Arc<Connector>,
}

impl Connections {
    /// Trusts the authorities of the system.
    pub(super) fn new() -> Result<Connections, ::tls::Error> {
        let tls = Connector::new(Settings::default(), &["http/1.1"])?;
        let tls = Arc::new(tls);
        Ok(Connections { tls })
    }
}

impl HttpConnector for Connections {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let dialer = Dialer {
            tls: Arc::clone(&self.tls),
            allows_plain: allows_plain(options),
        };
        let client = Client::builder(TokioExecutor::new()).build(dialer);
        Ok(HttpClient::new(StoreClient { client }))
    }
}

/// A client that keeps connections for the next requests.
struct StoreClient {
    client: Client<Dialer, HttpRequestBody>,
}

impl fmt::Debug for StoreClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StoreClient")
    }
}

#[async_trait]
impl HttpService for StoreClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.client.request(request).await;
        let (parts, body) = answer.map_err(unsent)?.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

fn unsent(error: hyper_util::client::legacy::Error) -> HttpError {
    let kind = match error.is_connect() {
        true => HttpErrorKind::Connect,
        false => HttpErrorKind::Request,
    };
    // Its own text does not say why.
    HttpError::new(kind, io::Error::other(why(&error)))
}

/// Opens connections.
#[derive(Clone)]
struct Dialer {
    tls: Arc<Connector>,
    allows_plain: bool,
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<Wire>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Wire>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(dial(self.clone(), uri))
    }
}

async fn dial(dialer: Dialer, uri: Uri) -> io::Result<TokioIo<Wire>> {
    let is_secure = uri.scheme_str() == Some("https");
    if !is_secure && !dialer.allows_plain {
        return Err(io::Error::other(
            "the store's URL is http://, which sends everything in the clear; set AWS_ALLOW_HTTP=true \
             (GOOGLE_ALLOW_HTTP, AZURE_ALLOW_HTTP) if that is meant",
        ));
    }
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let socket = TcpStream::connect((host, port)).await?;
    socket.set_nodelay(true)?;
    let stream: Box<dyn Duplex> = match is_secure {
        false => Box::new(socket),
        true => Box::new(dialer.tls.connect(host, socket).await?),
    };
    Ok(TokioIo::new(Wire(stream)))
}

/// Bytes in both directions.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection with or without TLS.
struct Wire(Box<dyn Duplex>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
