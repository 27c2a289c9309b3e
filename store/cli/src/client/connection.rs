//! The connection to a server, and the errors if there is none.

use std::cell::RefCell;
use std::error::Error;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use ::tls::DialFlags;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::AuthenticateRequest;
use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::inkstonepb::follow_client::FollowClient;
use etcd_api::inkstonepb::snapshots_client::SnapshotsClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use super::endpoints::{ConnectionArguments, Endpoints};
use super::login::Login;
use super::loss::{ALERT, Loss};
use super::tls::FlagNames;
use crate::failure::Failure;

const HTTPS: &str = "https://";
/// How often one call asks for a new token before its refusal counts.
const RENEWALS_MAX: u32 = 2;

/// A connection to a server, in the name of a user if the flags name one.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Channel,
    loss: Loss,
    endpoint: String,
    timeout: Duration,
    login: Option<Rc<Login>>,
    flags: FlagNames,
    /// Sent with each call. `None` without a user, and while the server does not check users.
    token: RefCell<Option<MetadataValue<Ascii>>>,
}

impl Connection {
    /// Connects to the first endpoint of the flags that answers, and proves the user once.
    pub(crate) async fn open(arguments: ConnectionArguments) -> Result<Connection, Failure> {
        Endpoints::new(arguments)?.any().await
    }

    /// A connection that has not proved its user yet.
    pub(super) fn new(
        channel: Channel,
        loss: Loss,
        endpoint: String,
        timeout: Duration,
        login: Option<Rc<Login>>,
        flags: FlagNames,
    ) -> Connection {
        Connection {
            channel,
            loss,
            endpoint,
            timeout,
            login,
            flags,
            token: RefCell::new(None),
        }
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

    pub(crate) fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// The service of members.
    pub(crate) fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    pub(crate) fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// The service by which a store follows another cluster.
    pub(crate) fn follow(&self) -> FollowClient<Channel> {
        FollowClient::new(self.channel.clone())
    }

    /// The service of compressed snapshots.
    pub(crate) fn snapshots(&self) -> SnapshotsClient<Channel> {
        SnapshotsClient::new(self.channel.clone())
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
        self.attempt_within(self.timeout, message, send).await
    }

    /// [`Connection::attempt`] with another time limit than that of the flags.
    pub(crate) async fn attempt_within<Q: Clone, A>(
        &self,
        limit: Duration,
        message: Q,
        send: impl AsyncFn(Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<Result<A, Status>, Failure> {
        let mut renewals = 0;
        loop {
            let call = send(self.request(message.clone()));
            let answer = self.within(limit, call).await?;
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
        is_old && matches!(self.login.as_deref(), Some(Login::User { .. }))
    }

    /// Gets a token for the user. If the server does not check users there is none, as in etcdctl.
    pub(super) async fn prove_user(&self) -> Result<(), Failure> {
        let token = match self.login.as_deref() {
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
        self.within(self.timeout, call).await
    }

    async fn within<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<Result<T, Status>, Failure> {
        let answer = tokio::time::timeout(limit, call).await;
        answer.map_err(|_| {
            Failure::failed(
                format_args!(
                    "no answer from {} within {} s",
                    self.endpoint,
                    limit.as_secs()
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
                let endpoint = &self.endpoint;
                let cause = self.loss.alert().unwrap_or_else(|| why(status));
                let remedy = lost_remedy(endpoint, &cause, &self.flags);
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
                    format_args!(
                        "The server checks users: name yours with {}.",
                        self.flags.user
                    ),
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

/// The innermost reason as text: transports wrap it several times.
pub(crate) fn why(error: &(dyn Error + 'static)) -> String {
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
fn lost_remedy(endpoint: &str, cause: &str, flags: &FlagNames) -> String {
    let DialFlags {
        trusted,
        certificate,
        key,
    } = flags.tls;
    if cause.starts_with(ALERT) {
        format!(
            "The server asks for a certificate that it accepts: name yours with {certificate} \
             and {key}."
        )
    } else if !endpoint.starts_with(HTTPS) {
        format!(
            "If the server speaks TLS, write https:// in its URL and name its authority with \
             {trusted}."
        )
    } else {
        String::new()
    }
}

/// The remedy if TLS is the reason why no connection was made, as a sentence.
pub(super) fn tls_remedy(error: &(dyn Error + 'static), flags: &FlagNames) -> Option<String> {
    let system = error.downcast_ref::<io::Error>();
    let Some(remedy) = system.and_then(|error| super::tls::remedy(error, flags)) else {
        return tls_remedy(error.source()?, flags);
    };
    let mut letters = remedy.chars();
    let first = letters.next()?.to_uppercase();
    Some(format!("{first}{}.", letters.as_str()))
}
