//! `inkstone gateway start`: passes connections on to the endpoints of a cluster, as `etcd gateway`
//! does.
//!
//! ```text
//!   client ──TCP──► gateway ──TCP──► the next endpoint in turn that accepts
//!                                    one that does not is left out until it accepts again
//! ```
//!
//! It reads nothing of what it passes on: TLS is between the client and the endpoint.

use std::cell::Cell;
use std::fmt;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use crate::client::duration;
use crate::failure::Failure;

/// Time limit for connecting to an endpoint.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Pause after a failed accept, which a lack of descriptors causes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Pass TCP connections on to the endpoints of a cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  inkstone gateway start --endpoints=10.0.0.1:2379,10.0.0.2:2379 --listen-addr=127.0.0.1:23790")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    /// Client addresses of the members, comma-separated: host:port, or URLs
    #[arg(
        long,
        global = true,
        value_delimiter = ',',
        default_value = "127.0.0.1:2379"
    )]
    endpoints: Vec<String>,
    /// Where clients connect
    #[arg(
        long = "listen-addr",
        global = true,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:23790"
    )]
    listen_address: String,
    /// Time after which an endpoint that did not accept is tried again: 90s, 1m, 1m30s
    #[arg(long, global = true, value_name = "TIME", default_value = "1m", value_parser = duration::parse)]
    retry_delay: Duration,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Run until a signal ends it
    Start,
}

/// Passes connections on until a signal ends the process.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments {
        verb: Verb::Start,
        endpoints,
        listen_address,
        retry_delay,
    } = arguments;
    let listener = TcpListener::bind(&listen_address).await;
    let listener = listener.map_err(|error| {
        let what = format_args!("cannot listen at {listen_address}: {error}");
        Failure::failed(what, "choose another address with --listen-addr")
    })?;
    let gateway = Gateway::new(endpoints.iter().map(|it| address_of(it)).collect());
    let addresses: Vec<&str> = gateway.endpoints().collect();
    log(format_args!(
        "ready to proxy client requests at {listen_address}: {}",
        addresses.join(", ")
    ));
    let work = gateway.serve(listener, retry_delay);
    LocalSet::new().run_until(work).await;
    Ok(())
}

/// `host:port` of an endpoint that may have a scheme.
fn address_of(endpoint: &str) -> String {
    let plain = endpoint.trim();
    let plain = plain.split_once("://").map_or(plain, |(_, rest)| rest);
    plain.trim_end_matches('/').to_owned()
}

/// Writes a line to stderr. If that fails the line is lost.
fn log(text: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// The endpoints of a gateway.
#[derive(Clone)]
struct Gateway(Rc<Endpoints>);

struct Endpoints {
    all: Vec<Endpoint>,
    /// The number of the next turn; it grows without end.
    next: Cell<usize>,
}

struct Endpoint {
    address: String,
    /// Whether the last attempt to connect failed.
    is_down: Cell<bool>,
}

impl Gateway {
    fn new(addresses: Vec<String>) -> Gateway {
        let endpoint = |address| Endpoint {
            address,
            is_down: Cell::new(false),
        };
        Gateway(Rc::new(Endpoints {
            all: addresses.into_iter().map(endpoint).collect(),
            next: Cell::new(0),
        }))
    }

    fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.0.all.iter().map(|it| it.address.as_str())
    }

    /// Accepts connections and passes them on, without end.
    async fn serve(&self, listener: TcpListener, retry_delay: Duration) {
        let gateway = self.clone();
        spawn_local(async move { gateway.retry(retry_delay).await });
        loop {
            match listener.accept().await {
                Ok((client, _)) => {
                    let gateway = self.clone();
                    spawn_local(async move { gateway.pass_on(client).await });
                }
                Err(error) => {
                    log(format_args!("cannot accept a connection: {error}"));
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Passes on one connection; closes it if no endpoint accepts.
    async fn pass_on(&self, mut client: TcpStream) {
        let Some(mut server) = self.connect().await else {
            return;
        };
        // A connection that breaks is closed on both sides, which is all that can be done.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }

    async fn connect(&self) -> Option<TcpStream> {
        while let Some(endpoint) = self.pick() {
            match endpoint.connect().await {
                Ok(server) => return Some(server),
                Err(reason) => {
                    let address = &endpoint.address;
                    log(format_args!("{address} is left out for now: {reason}"));
                    endpoint.is_down.set(true);
                }
            }
        }
        log(format_args!("no endpoint accepts connections"));
        None
    }

    /// The next endpoint in turn of those that are up.
    fn pick(&self) -> Option<&Endpoint> {
        let up: Vec<&Endpoint> = self.0.all.iter().filter(|it| !it.is_down.get()).collect();
        let turn = self.0.next.get();
        self.0.next.set(turn.wrapping_add(1));
        up.get(turn.checked_rem(up.len())?).copied()
    }

    /// Tries endpoints that are down again and again.
    async fn retry(&self, delay: Duration) {
        loop {
            sleep(delay).await;
            for endpoint in self.0.all.iter().filter(|it| it.is_down.get()) {
                if endpoint.connect().await.is_ok() {
                    log(format_args!("{} accepts again", endpoint.address));
                    endpoint.is_down.set(false);
                }
            }
        }
    }
}

impl Endpoint {
    async fn connect(&self) -> Result<TcpStream, String> {
        match timeout(CONNECT_TIME, TcpStream::connect(&self.address)).await {
            Ok(connected) => connected.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer in {} s", CONNECT_TIME.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Writes its name to each client, and then what the client sends.
    async fn greeter(listener: TcpListener, name: &'static str) {
        while let Ok((mut client, _)) = listener.accept().await {
            client.write_all(name.as_bytes()).await.unwrap();
            let (mut from, mut to) = client.split();
            let _ = tokio::io::copy(&mut from, &mut to).await;
        }
    }

    async fn bind() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, address)
    }

    /// A gateway in front of these endpoints; its address.
    async fn start(endpoints: Vec<String>, retry_delay: Duration) -> String {
        let (listener, address) = bind().await;
        let gateway = Gateway::new(endpoints);
        spawn_local(async move { gateway.serve(listener, retry_delay).await });
        address
    }

    /// The endpoint to which the gateway passes a connection; empty for none.
    async fn greeting(gateway: &str) -> String {
        let mut client = TcpStream::connect(gateway).await.unwrap();
        client.write_all(b"!").await.unwrap();
        client.shutdown().await.unwrap();
        let mut text = String::new();
        // A connection that the gateway closes may be reset.
        let _ = client.read_to_string(&mut text).await;
        text
    }

    #[tokio::test]
    async fn connections_go_to_the_endpoints_in_turn_and_both_ways() {
        let work = async {
            let (one, first) = bind().await;
            let (other, second) = bind().await;
            spawn_local(greeter(one, "one"));
            spawn_local(greeter(other, "other"));
            let gateway = start(vec![first, second], Duration::from_secs(60)).await;
            let mut seen = Vec::new();
            for _ in 0..4 {
                seen.push(greeting(&gateway).await);
            }
            assert_eq!(seen, ["one!", "other!", "one!", "other!"]);
        };
        LocalSet::new().run_until(work).await;
    }

    #[tokio::test]
    async fn an_endpoint_that_does_not_accept_is_passed_over_until_it_does() {
        let work = async {
            let (gone, first) = bind().await;
            drop(gone);
            let (other, second) = bind().await;
            spawn_local(greeter(other, "other"));
            let endpoints = vec![first.clone(), second];
            let gateway = start(endpoints, Duration::from_millis(20)).await;
            for _ in 0..3 {
                assert_eq!(greeting(&gateway).await, "other!");
            }
            let back = TcpListener::bind(&first).await.unwrap();
            spawn_local(greeter(back, "one"));
            while greeting(&gateway).await != "one!" {
                sleep(Duration::from_millis(5)).await;
            }
        };
        LocalSet::new().run_until(work).await;
    }

    #[tokio::test]
    async fn a_connection_is_closed_if_no_endpoint_accepts() {
        let work = async {
            let (gone, address) = bind().await;
            drop(gone);
            let gateway = start(vec![address], Duration::from_secs(60)).await;
            assert_eq!(greeting(&gateway).await, "");
        };
        LocalSet::new().run_until(work).await;
    }

    #[test]
    fn endpoints_may_be_urls() {
        for (endpoint, address) in [
            ("10.0.0.1:2379", "10.0.0.1:2379"),
            ("http://localhost:2379", "localhost:2379"),
            (" https://[::1]:2379/", "[::1]:2379"),
        ] {
            assert_eq!(address_of(endpoint), address);
        }
    }
}
