//! The endpoints of the flags, and connections to one of them or to each.

use std::rc::Rc;
use std::time::Duration;

use etcd_api::etcdserverpb::MemberListRequest;
use tonic::transport::Endpoint;

use super::connection::{Connection, tls_remedy, why};
use super::duration;
use super::login::{Login, UserArguments};
use super::loss::Loss;
use super::page;
use super::tls::{Secure, TlsArguments};
use crate::failure::Failure;

/// Time between questions whether the server is there, while a call waits for it.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Where a server listens by default.
const DEFAULT_ENDPOINT: &str = "127.0.0.1:2379";
const HTTPS: &str = "https://";
/// The remedy where no server answers.
const NO_SERVER: &str = "Start a server:    inkstone serve\n\
     or name another:   --endpoint URL (or INKSTONE_ENDPOINT)";

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
    endpoint: Vec<String>,
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
    /// Time to wait for an answer, such as 10s or 1m30s; replaces --timeout
    #[arg(
        long,
        global = true,
        value_parser = duration::parse,
        value_name = "TIME",
        help_heading = "Connection"
    )]
    command_timeout: Option<Duration>,
    /// Time to wait for the connection, such as 2s; replaces --timeout
    #[arg(
        long,
        global = true,
        value_parser = duration::parse,
        value_name = "TIME",
        help_heading = "Connection"
    )]
    dial_timeout: Option<Duration>,
}

impl ConnectionArguments {
    /// Arguments for another cluster, with the time limits of these.
    pub(crate) fn for_other(
        &self,
        endpoint: String,
        tls: TlsArguments,
        user: UserArguments,
    ) -> ConnectionArguments {
        ConnectionArguments {
            endpoint: vec![endpoint],
            tls,
            user,
            timeout: self.timeout,
            command_timeout: self.command_timeout,
            dial_timeout: self.dial_timeout,
        }
    }
}

/// An endpoint as the caller or a member wrote it, and as a URL.
#[derive(Clone, Debug)]
pub(crate) struct NamedEndpoint {
    pub(crate) name: String,
    pub(super) url: String,
    endpoint: Endpoint,
}

impl NamedEndpoint {
    fn new(name: &str, scheme: &str) -> Result<NamedEndpoint, Failure> {
        let name = name.trim();
        let url = url_of(name, scheme)?;
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|_| unusable(name))?;
        Ok(NamedEndpoint {
            name: name.to_owned(),
            url,
            endpoint,
        })
    }

    fn is_secure(&self) -> bool {
        self.url.starts_with(HTTPS)
    }
}

/// The endpoints of the flags, or of the cluster's members.
#[derive(Debug)]
pub(crate) struct Endpoints {
    list: Vec<NamedEndpoint>,
    tls: TlsArguments,
    /// Present if one of the endpoints is an https one.
    secure: Option<Secure>,
    login: Option<Rc<Login>>,
    answer_time_max: Duration,
    dial_time_max: Duration,
}

impl Endpoints {
    /// Reads the flags; asks for the password if it is missing.
    pub(crate) fn new(arguments: ConnectionArguments) -> Result<Endpoints, Failure> {
        let ConnectionArguments {
            endpoint,
            tls,
            user,
            timeout,
            command_timeout,
            dial_timeout,
        } = arguments;
        let login = user.login()?.map(Rc::new);
        // All are parsed first: a mistake in the last is an error even if the first answers.
        let list = match endpoint.is_empty() {
            true => std::env::var("ETCDCTL_ENDPOINTS").unwrap_or(DEFAULT_ENDPOINT.to_owned()),
            false => endpoint.join(","),
        };
        let list = list
            .split(',')
            .map(|name| NamedEndpoint::new(name, tls.scheme()));
        let timeout = Duration::from_secs(timeout);
        let mut endpoints = Endpoints {
            list: list.collect::<Result<_, _>>()?,
            tls,
            secure: None,
            login,
            answer_time_max: command_timeout.unwrap_or(timeout),
            dial_time_max: dial_timeout.unwrap_or(timeout),
        };
        endpoints.read_certificates()?;
        Ok(endpoints)
    }

    fn read_certificates(&mut self) -> Result<(), Failure> {
        if self.secure.is_none() && self.list.iter().any(NamedEndpoint::is_secure) {
            self.secure = Some(Secure::new(&self.tls)?);
        }
        Ok(())
    }

    /// The endpoints, in the order of the flag.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, NamedEndpoint> {
        self.list.iter()
    }

    /// Replaces the endpoints by those of all members of the cluster.
    pub(crate) async fn of_cluster(mut self) -> Result<Endpoints, Failure> {
        let connection = self.any().await?;
        let message = MemberListRequest { linearizable: true };
        let send = async |request| connection.cluster().member_list(request).await;
        let members = connection.call(message, send).await?.members;
        let urls = members.iter().flat_map(|member| &member.client_ur_ls);
        let list = urls.map(|url| NamedEndpoint::new(url, self.tls.scheme()));
        self.list = list.collect::<Result<_, _>>()?;
        self.read_certificates()?;
        Ok(self)
    }

    /// Connects to the first endpoint that answers, and proves the user once.
    pub(crate) async fn any(&self) -> Result<Connection, Failure> {
        let (mut refusals, mut remedies) = (Vec::new(), Vec::new());
        for endpoint in &self.list {
            match self.dial(endpoint).await {
                Ok(connection) => {
                    connection.prove_user().await?;
                    return Ok(connection);
                }
                Err(error) => {
                    remedies.extend(tls_remedy(&error, &self.tls.flags()));
                    refusals.push(format!("{}: {}", endpoint.url, why(&error)));
                }
            }
        }
        Err(unreachable(&refusals, remedies))
    }

    /// Connects to this endpoint, and proves the user.
    pub(crate) async fn connect(&self, endpoint: &NamedEndpoint) -> Result<Connection, Failure> {
        let connected = self.dial(endpoint).await;
        let connection = connected.map_err(|error| {
            let refusal = format!("{}: {}", endpoint.url, why(&error));
            let remedy = tls_remedy(&error, &self.tls.flags());
            unreachable(&[refusal], remedy.into_iter().collect())
        })?;
        connection.prove_user().await?;
        Ok(connection)
    }

    async fn dial(&self, to: &NamedEndpoint) -> Result<Connection, tonic::transport::Error> {
        let endpoint = to.endpoint.clone();
        let endpoint = endpoint
            .connect_timeout(self.dial_time_max)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY);
        let (channel, loss) = match self.secure.as_ref().filter(|_| to.is_secure()) {
            None => (endpoint.connect().await?, Loss::default()),
            Some(secure) => secure.connect(endpoint).await?,
        };
        let (url, login) = (to.url.clone(), self.login.clone());
        Ok(Connection::new(
            channel,
            loss,
            url,
            self.answer_time_max,
            login,
            self.tls.flags(),
        ))
    }

    /// The page `path` that this endpoint shows over plain HTTP.
    pub(crate) async fn page(&self, of: &NamedEndpoint, path: &str) -> Result<String, String> {
        let secure = self.secure.as_ref().filter(|_| of.is_secure());
        let page = page::get(&of.url, path, secure);
        match tokio::time::timeout(self.answer_time_max, page).await {
            Ok(page) => page,
            Err(_) => Err("no answer in time".to_owned()),
        }
    }
}

fn unreachable(refusals: &[String], mut remedies: Vec<String>) -> Failure {
    if remedies.is_empty() {
        remedies.push(NO_SERVER.to_owned());
    }
    Failure::failed(
        format_args!("cannot reach {}", refusals.join("; ")),
        remedies.join("\n"),
    )
}

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(seconds),
        _ => Err("write whole seconds, from 1 to 86400".into()),
    }
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
    fn a_name_stays_beside_its_url() {
        let named = NamedEndpoint::new(" b:2 ", "http").unwrap();
        assert_eq!((&*named.name, &*named.url), ("b:2", "http://b:2"));
    }

    #[test]
    fn gaps_and_foreign_schemes_are_wrong_use() {
        for endpoint in ["", " ", "ftp://a", "https://"] {
            assert!(NamedEndpoint::new(endpoint, "http").is_err(), "{endpoint}");
        }
    }
}
