//! TLS of the client verbs: etcdctl's flags and variables.

use std::cell::OnceCell;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ::tls::{Connector, DialFlags, NamedFile, Pair, SecureStream, Settings};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint, Error};
use tower::service_fn;

use super::loss::{Loss, Recorded};
use crate::failure::Failure;

/// Names of the flags of a connection, for remedies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagNames {
    pub(crate) tls: DialFlags,
    /// How the user is named.
    pub(crate) user: &'static str,
}

const FLAGS: FlagNames = FlagNames {
    tls: DialFlags {
        trusted: "--cacert",
        certificate: "--cert",
        key: "--key",
    },
    user: "--user NAME[:PASSWORD] (or ETCDCTL_USER)",
};

/// Flags about TLS.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TlsArguments {
    /// File with the authorities that sign the server's certificate, as PEM; default: those of
    /// the system
    #[arg(
        long,
        global = true,
        env = "ETCDCTL_CACERT",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Connection"
    )]
    cacert: Option<PathBuf>,
    /// File with the certificate to show to the server, as PEM
    #[arg(
        long,
        global = true,
        env = "ETCDCTL_CERT",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Connection"
    )]
    cert: Option<PathBuf>,
    /// File with the private key of --cert, as PEM
    // The verbs have an argument of this name.
    #[arg(
        id = "private_key",
        long = "key",
        global = true,
        env = "ETCDCTL_KEY",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Connection"
    )]
    key: Option<PathBuf>,
    /// Accept every certificate of the server; for tests only
    #[arg(
        long,
        global = true,
        env = "ETCDCTL_INSECURE_SKIP_TLS_VERIFY",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false",
        action = clap::ArgAction::Set,
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Connection"
    )]
    insecure_skip_tls_verify: bool,
    /// With =false, an endpoint without a scheme is an https one
    #[arg(
        long,
        global = true,
        env = "ETCDCTL_INSECURE_TRANSPORT",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "true",
        action = clap::ArgAction::Set,
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Connection"
    )]
    insecure_transport: bool,
    #[arg(skip = FLAGS)]
    flags: FlagNames,
}

impl TlsArguments {
    /// Arguments from other flags of a verb, with these names and the same meaning.
    pub(crate) fn of(
        cacert: Option<PathBuf>,
        cert: Option<PathBuf>,
        key: Option<PathBuf>,
        insecure_transport: bool,
        flags: FlagNames,
    ) -> TlsArguments {
        TlsArguments {
            cacert,
            cert,
            key,
            insecure_skip_tls_verify: false,
            insecure_transport,
            flags,
        }
    }

    pub(super) fn flags(&self) -> FlagNames {
        self.flags
    }

    /// Scheme of an endpoint that is written without one, as in etcdctl.
    pub(crate) fn scheme(&self) -> &'static str {
        let names_a_file = self.cacert.is_some() || self.cert.is_some() || self.key.is_some();
        match names_a_file || self.insecure_skip_tls_verify || !self.insecure_transport {
            true => "https",
            false => "http",
        }
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let DialFlags {
            trusted,
            certificate,
            key,
        } = self.flags.tls;
        let file = |flag: &'static str, path: &Option<PathBuf>| {
            let (option, path) = (flag.trim_start_matches('-'), path.clone());
            path.map(|path| NamedFile { option, path })
        };
        let pair = match (file(certificate, &self.cert), file(key, &self.key)) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Pair { certificate, key }),
            _ => {
                return Err(Failure::wrong_use(
                    format_args!(
                        "{certificate} and {key} belong together, and one of them is missing"
                    ),
                    "Name the certificate and its private key, or neither.",
                ));
            }
        };
        Ok(Settings {
            pair,
            trusted: file(trusted, &self.cacert),
            verifies_nothing: self.insecure_skip_tls_verify,
            ..Settings::default()
        })
    }
}

/// Opens connections to https endpoints.
pub(crate) struct Secure {
    calls: Arc<Connector>,
    /// For pages over plain HTTP; made when the first is asked for.
    pages: OnceCell<Connector>,
    arguments: TlsArguments,
}

impl fmt::Debug for Secure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secure")
    }
}

impl Secure {
    /// Reads the files of the flags.
    pub(crate) fn new(arguments: &TlsArguments) -> Result<Secure, Failure> {
        let connector = Connector::new(arguments.settings()?, &["h2"]);
        let connector = connector.map_err(|error| Failure::wrong_use(error, ""))?;
        Ok(Secure {
            calls: Arc::new(connector),
            pages: OnceCell::new(),
            arguments: arguments.clone(),
        })
    }

    /// Shakes hands on a new connection over which a page is to be read.
    pub(crate) async fn greet(&self, host: &str, socket: TcpStream) -> io::Result<SecureStream> {
        if self.pages.get().is_none() {
            let settings = self.arguments.settings();
            let settings = settings.map_err(|_| io::Error::other("unusable TLS files"))?;
            let connector = Connector::new(settings, &["http/1.1"]).map_err(io::Error::other)?;
            let _ = self.pages.set(connector);
        }
        let connector = self.pages.get().expect("it was made above");
        connector.connect(host, socket).await
    }

    /// Connects, with the reason of a later end of the connection.
    pub(crate) async fn connect(&self, endpoint: Endpoint) -> Result<(Channel, Loss), Error> {
        let connector = Arc::clone(&self.calls);
        let loss = Loss::default();
        let of_calls = loss.clone();
        let connect = move |uri: Uri| dial(Arc::clone(&connector), uri, of_calls.clone());
        let channel = endpoint.connect_with_connector(service_fn(connect)).await?;
        Ok((channel, loss))
    }
}

/// The remedy if TLS is the reason why there is no connection.
pub(crate) fn remedy(error: &io::Error, flags: &FlagNames) -> Option<String> {
    ::tls::dial_remedy(error, &flags.tls)
}

async fn dial(connector: Arc<Connector>, uri: Uri, loss: Loss) -> io::Result<TokioIo<Recorded>> {
    const HTTPS_PORT: u16 = 443;
    loss.forget();
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(HTTPS_PORT);
    let socket = TcpStream::connect((host, port)).await?;
    socket.set_nodelay(true)?;
    let stream = connector.connect(host, socket).await?;
    Ok(TokioIo::new(Recorded::new(stream, loss)))
}
