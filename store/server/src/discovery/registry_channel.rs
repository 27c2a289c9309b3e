//! Connections to the cluster that knows the members of a new one.

use std::error::Error;
use std::io;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tls::{Connector, SecureStream};
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::config::Registry;

const HTTPS: &str = "https://";
const HTTPS_PORT: u16 = 443;

/// Opens connections by the flags.
pub(crate) struct Dialer {
    registry: Registry,
    /// `None` if no endpoint takes TLS.
    connector: Option<Arc<Connector>>,
}

impl Dialer {
    /// Reads the files of TLS, if an endpoint takes it.
    pub(crate) fn new(registry: &Registry) -> Result<Dialer, String> {
        let mut endpoints = registry.endpoints.iter();
        let is_secure = endpoints.any(|endpoint| endpoint.starts_with(HTTPS));
        let connector = is_secure.then(|| Connector::new(registry.tls.clone(), &["h2"]));
        let connector = connector.transpose().map_err(|error| error.to_string())?;
        Ok(Dialer {
            registry: registry.clone(),
            connector: connector.map(Arc::new),
        })
    }

    pub(crate) async fn connect(&self, url: &str) -> Result<Channel, String> {
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| error.to_string())?;
        let endpoint = endpoint
            .connect_timeout(self.registry.dial_timeout)
            .http2_keep_alive_interval(self.registry.keepalive_interval)
            .keep_alive_timeout(self.registry.keepalive_timeout);
        let connecting = async {
            match self.connector.as_ref().filter(|_| url.starts_with(HTTPS)) {
                None => endpoint.connect().await,
                Some(connector) => {
                    let connector = Arc::clone(connector);
                    let connect = move |uri: Uri| dial(Arc::clone(&connector), uri);
                    endpoint.connect_with_connector(service_fn(connect)).await
                }
            }
        };
        let connected = tokio::time::timeout(self.registry.dial_timeout, connecting).await;
        let connected = connected.map_err(|_| "no connection in time".to_owned())?;
        connected.map_err(|error| cause(&error))
    }
}

async fn dial(connector: Arc<Connector>, uri: Uri) -> io::Result<TokioIo<SecureStream>> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(HTTPS_PORT);
    let socket = TcpStream::connect((host, port)).await?;
    Ok(TokioIo::new(connector.connect(host, socket).await?))
}

/// The innermost reason: transports wrap it several times.
fn cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
