//! The connection to a server, and the errors if there is none.

use std::cell::RefCell;
use std::error::Error;
use std::future::Future;
use std::io;
use std::time::Duration;

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::AuthenticateRequest;
use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use super::login::{Login, UserArguments};
use super::tls::{Secure, TlsArguments};
use crate::failure::Failure;

/// Where a server listens by default.
const DEFAULT_ENDPOINT: &str = "127.0.0.1:2379";
const HTTPS: &str = "https://";
/// Time between questions whether the server is there, while a call waits for it.
const PING_EVERY: Duration = Duration::from_secs(20);
/// The remedy where no server answers.
const NO_SERVER: &str = "Start a server:    inkstone serve\n\
     or name another:   --endpoint URL (or INKSTONE_ENDPOINT)";
/// How often one call asks for a new token before its refusal counts.
const RENEWALS_MAX: u32 = 2;

/// Flags that select the server.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectionArguments {
    /// The server's client URL, or several separated by commas: if one does not answer, the
    /// next is tried; ETCDCTL_ENDPOINTS means the same [default: 127.0.0.1:2379]
    #[arg(
        long,
        global = true,
        alias = "endpoints",
        env = "INKSTONE_ENDPOINT",
        hide_env_values = true,
        value_name = "URLS",
        help_heading = "Connection"
    )]
    endpoint: Option<String>,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    user: UserArguments,
    /// Seconds to wait for the connection and for an answer
    #[arg(
        long,
        global = true,
        default_value_t = 5,
        value_parser = seconds,
        value_name = "SECONDS",
        help_heading = "Connection"
    )]
    timeout: u64,
}

/// A connection to a server, in the name of a user if the flags name one.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Channel,
    endpoint: String,
    timeout: Duration,
    login: Option<Login>,
    /// Sent with each call. `None` without a user, and while the server does not check users.
    token: RefCell<Option<MetadataValue<Ascii>>>,
}

impl Connection {
    /// Connects to the first endpoint that answers, and proves the user once.
    pub(crate) async fn open(mut arguments: ConnectionArguments) -> Result<Connection, Failure> {
        let login = std::mem::take(&mut arguments.user).login()?;
        let mut connection = Connection::anonymous(arguments).await?;
        connection.login = login;
        connection.prove_user().await?;
        Ok(connection)
    }

    async fn anonymous(arguments: ConnectionArguments) -> Result<Connection, Failure> {
        let timeout = Duration::from_secs(arguments.timeout);
        // All are parsed first: a mistake in the last is an error even if the first answers.
        let list = arguments.endpoint.clone();
        let list = list.or_else(|| std::env::var("ETCDCTL_ENDPOINTS").ok());
        let list = list.as_deref().unwrap_or(DEFAULT_ENDPOINT);
        let endpoints = endpoints_of(list, arguments.tls.scheme())?;
        let mut uses = endpoints.iter().map(|(url, _)| url.starts_with(HTTPS));
        let secure = uses.any(|uses| uses).then(|| Secure::new(&arguments.tls));
        let secure = secure.transpose()?;
        let (mut refusals, mut remedies) = (Vec::new(), Vec::new());
        for (url, endpoint) in endpoints {
            let endpoint = endpoint
                .connect_timeout(timeout)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(PING_EVERY);
            let connected = match secure.as_ref().filter(|_| url.starts_with(HTTPS)) {
                None => endpoint.connect().await,
                Some(secure) => secure.connect(endpoint).await,
            };
            match connected {
                Ok(channel) => {
                    return Ok(Connection {
                        channel,
                        endpoint: url,
                        timeout,
                        login: None,
                        token: RefCell::new(None),
                    });
                }
                Err(error) => {
                    remedies.extend(tls_remedy(&error));
                    refusals.push(format!("{url}: {}", cause(&error)));
                }
            }
        }
        if remedies.is_empty() {
            remedies.push(NO_SERVER.to_owned());
        }
        Err(Failure::failed(
            format_args!("cannot reach {}", refusals.join("; ")),
            remedies.join("\n"),
        ))
    }

    /// The service KV, without a limit on the size of answers.
    pub(crate) fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    pub(crate) fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// The service of users and roles.
    pub(crate) fn auth(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// A message, or a stream of messages, with the user's token.
    pub(crate) fn request<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(token) = self.token.borrow().clone() {
            request.metadata_mut().insert("token", token);
        }
        request
    }

    /// Makes a call and waits for its answer.
    pub(crate) async fn call<Q: Clone, A>(
        &self,
        message: Q,
        send: impl AsyncFn(Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Failure> {
        let answer = self.attempt(message, send).await?;
        answer.map_err(|status| self.refused(&status))
    }

    /// [`Connection::call`], with a refusal by the server as a value. A call that is refused
    /// because its token has ended was not carried out: it is made again with a new token.
    pub(crate) async fn attempt<Q: Clone, A>(
        &self,
        message: Q,
        send: impl AsyncFn(Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<Result<A, Status>, Failure> {
        let mut renewals = 0;
        loop {
            let answer = self.in_time(send(self.request(message.clone()))).await?;
            match answer {
                Err(status) if renewals < RENEWALS_MAX && self.needs_token(&status) => {
                    renewals += 1;
                    self.prove_user().await?;
                }
                answer => return Ok(answer.map(Response::into_inner)),
            }
        }
    }

    /// Whether a refusal is one that a new token may change.
    fn needs_token(&self, status: &Status) -> bool {
        let old = [
            Refusal::InvalidAuthToken,
            Refusal::AuthOldRevision,
            // Users are checked since this connection was made.
            Refusal::UserEmpty,
        ];
        let is_old = old.iter().any(|old| old.message() == status.message());
        is_old && matches!(self.login, Some(Login::User { .. }))
    }

    /// Gets a token for the user. If the server does not check users there is none, as in etcdctl.
    async fn prove_user(&self) -> Result<(), Failure> {
        let token = match &self.login {
            None => None,
            Some(Login::Token(token)) => Some(token.text().to_owned()),
            Some(Login::User { name, password }) => {
                let request = AuthenticateRequest {
                    name: name.clone(),
                    password: password.text().to_owned(),
                };
                match self.in_time(self.auth().authenticate(request)).await? {
                    Ok(answer) => Some(answer.into_inner().token),
                    Err(status) if status.message() == Refusal::AuthNotEnabled.message() => None,
                    Err(status) => return Err(self.refused(&status)),
                }
            }
        };
        let token = token.map(|token| {
            let mut token = MetadataValue::try_from(token).map_err(|_| unusable_token())?;
            token.set_sensitive(true);
            Ok::<_, Failure>(token)
        });
        *self.token.borrow_mut() = token.transpose()?;
        Ok(())
    }

    /// Waits for one answer, at most for the timeout of `--timeout`.
    pub(crate) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        let answer = self.in_time(call).await?;
        let answer = answer.map_err(|status| self.refused(&status))?;
        Ok(answer.into_inner())
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<Result<T, Status>, Failure> {
        let answer = tokio::time::timeout(self.timeout, call).await;
        answer.map_err(|_| {
            Failure::failed(
                format_args!(
                    "no answer from {} within {} s",
                    self.endpoint,
                    self.timeout.as_secs()
                ),
                "A write may nevertheless have been made; read before you repeat it.\n\
                 Wait longer with --timeout SECONDS.",
            )
        })
    }

    /// The failure for a refusal by the server or a lost connection.
    pub(crate) fn refused(&self, status: &Status) -> Failure {
        match status.code() {
            // Statuses that the server sent have no source.
            _ if status.source().is_some() => {
                let (endpoint, cause) = (&self.endpoint, cause(status));
                let remedy = lost_remedy(endpoint, &cause);
                Failure::failed(
                    format_args!("lost the connection to {endpoint}: {cause}"),
                    remedy,
                )
            }
            Code::Unimplemented => Failure::failed(
                format_args!("{} does not speak etcd's v3 API", self.endpoint),
                status.message(),
            ),
            _ if status.message() == Refusal::UserEmpty.message() && self.login.is_none() => {
                Failure::failed(
                    status.message(),
                    "The server checks users: name yours with --user NAME[:PASSWORD] (or \
                     ETCDCTL_USER).",
                )
            }
            _ => Failure::failed(status.message(), ""),
        }
    }
}

fn unusable_token() -> Failure {
    Failure::wrong_use(
        "the token has letters that cannot be sent",
        "Name the token of --auth-jwt-token as the server issued it.",
    )
}

/// Runs a client command on this thread.
pub(crate) fn run_to_end(
    command: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("cannot start: {error}"), ""))?;
    let result = runtime.block_on(command);
    // A blocked read of stdin must not hold the exit.
    runtime.shutdown_background();
    result
}

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(seconds),
        _ => Err("write whole seconds, from 1 to 86400".into()),
    }
}

/// The servers of a list, in its order.
fn endpoints_of(list: &str, scheme: &str) -> Result<Vec<(String, Endpoint)>, Failure> {
    let one = |text: &str| {
        let url = url_of(text.trim(), scheme)?;
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|_| unusable(text))?;
        Ok((url, endpoint))
    };
    list.split(',').map(one).collect()
}

/// Completes `host:port` to a URL with this scheme.
fn url_of(endpoint: &str, scheme: &str) -> Result<String, Failure> {
    match endpoint.split_once("://") {
        None if endpoint.is_empty() => Err(unusable(endpoint)),
        None => Ok(format!("{scheme}://{endpoint}")),
        Some(("http" | "https", rest)) if !rest.is_empty() => Ok(endpoint.to_owned()),
        Some(_) => Err(unusable(endpoint)),
    }
}

fn unusable(endpoint: &str) -> Failure {
    Failure::wrong_use(
        format_args!("'{endpoint}' is not an endpoint"),
        "Write URLs such as http://127.0.0.1:2379, separated by commas, in --endpoint or \
         INKSTONE_ENDPOINT.",
    )
}

/// The innermost reason as text: transports wrap it several times.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    loop {
        if let Some(system) = deepest.downcast_ref::<io::Error>() {
            match system.kind() {
                io::ErrorKind::ConnectionRefused => return "connection refused".into(),
                io::ErrorKind::TimedOut => return "no answer in time".into(),
                _ => {}
            }
        }
        match deepest.source() {
            Some(source) => deepest = source,
            None => return deepest.to_string(),
        }
    }
}

/// The remedy for a connection that broke; may be empty. In TLS 1.3 a server refuses a certificate, or
/// that there is none, after the connection was made.
fn lost_remedy(endpoint: &str, cause: &str) -> &'static str {
    if cause.starts_with("remote error: tls: ") {
        "The server asks for a certificate that it accepts: name yours with --cert and --key."
    } else if !endpoint.starts_with(HTTPS) {
        "If the server speaks TLS, write https:// in its URL and name its authority with --cacert."
    } else {
        ""
    }
}

/// The remedy if TLS is the reason why no connection was made, as a sentence.
fn tls_remedy(error: &(dyn Error + 'static)) -> Option<String> {
    let system = error.downcast_ref::<io::Error>();
    let Some(remedy) = system.and_then(super::tls::remedy) else {
        return tls_remedy(error.source()?);
    };
    let mut letters = remedy.chars();
    let first = letters.next()?.to_uppercase();
    Some(format!("{first}{}.", letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_address_becomes_a_url() {
        let of = |endpoint| url_of(endpoint, "https").unwrap();
        assert_eq!(of("localhost:2379"), "https://localhost:2379");
        assert_eq!(of("http://[::1]:1"), "http://[::1]:1");
        assert_eq!(of("https://a"), "https://a");
    }

    #[test]
    fn a_timeout_is_a_number_of_seconds() {
        assert_eq!(seconds("86400"), Ok(86_400));
        for text in ["x", "0", "5s", "-1", "86401", ""] {
            assert!(seconds(text).unwrap_err().contains("whole seconds"));
        }
    }

    #[test]
    fn a_list_keeps_its_order() {
        let urls = endpoints_of("a:1, http://b:2", "http").unwrap().into_iter();
        let urls: Vec<String> = urls.map(|(url, _)| url).collect();
        assert_eq!(urls, ["http://a:1", "http://b:2"]);
    }

    #[test]
    fn gaps_and_foreign_schemes_are_wrong_use() {
        for endpoints in ["", "a:1,", "a:1,,b:2", "ftp://a", "a:1,https://"] {
            assert!(endpoints_of(endpoints, "http").is_err(), "{endpoints}");
        }
    }
}
