//! The whole server: sockets, node, one runtime per core, and their shutdown.
//!
//! ```text
//!   bind ──► open the node ──► accept ──► … ──► stop accepting, end streams ──► stop the node
//! ```
//!
//! The sockets are bound first: a port that is in use is an error before anything is
//! written to disk, and clients that connect during recovery wait instead of
//! failing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use cluster::{MemberFile, Node};
use environment::real::{RealClock, RealDisk};
use environment::{Clock, Throttle, threads};
use tls::Accepts;
use tokio::sync::watch;
use tonic_health::server::{HealthReporter, HealthService};
use tracing::{info, warn};

use crate::authentication::Authentication;
use crate::backend::{Backend, FAILURE_LOGGED_EVERY};
use crate::begin::{self, Begun};
use crate::certificates::{self, ClientTls};
use crate::config::{ChosenPort, Config, Url};
use crate::dispatch::Traffic;
use crate::http::Pages;
use crate::listen::{self, Bound, Listener, Place, SocketFile};
use crate::metered_disk::MeteredDisk;
use crate::metrics::{EvaluationMetrics, Metrics};
use crate::resources::Resources;
use crate::spans::Spans;
use crate::worker::{Cores, Worker};
use crate::{Error, compactor, corruption, descriptors, foreign, presence, view};

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    backend: Arc<Backend>,
    stop: watch::Sender<bool>,
    /// Turns true once the cluster knows this member, which requires a leader; true from the
    /// start if the member is alone.
    pub(crate) ready: watch::Receiver<bool>,
    /// Turns true once the cluster has removed this member: the server should stop.
    pub(crate) removed: watch::Receiver<bool>,
    /// One thread per core, the compactor's, and in a member of several the one of
    /// `presence`.
    threads: Vec<JoinHandle<()>>,
    client_addresses: Vec<SocketAddr>,
    /// Dropped last: the files are removed when no client is served any more.
    _socket_files: Vec<SocketFile>,
}

/// All listening sockets, by core.
#[derive(Default)]
struct Sockets {
    by_core: Vec<Vec<(Listener, Traffic)>>,
    /// Number of sockets. One core accepts on each, and they are spread over the cores.
    listeners: usize,
    client_addresses: Vec<SocketAddr>,
    /// Ports of client addresses that the system chose.
    chosen: Vec<ChosenPort>,
    /// Each bound address with what is served there.
    open: Vec<(Traffic, String)>,
    socket_files: Vec<SocketFile>,
}

impl Server {
    /// Binds the sockets, recovers the store and starts to serve.
    pub fn start(mut config: Config) -> Result<Server, Error> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        descriptors::check(cores)?;
        let sockets = bind_all(&config, cores)?;
        config.fill_client_ports(&sockets.chosen);
        let peers = listen::bind_chosen_peer_ports(&mut config)?;
        foreign::refuse_etcd(&RealDisk, &config.node.directory)?;
        let tls = certificates::for_clients(&config, cores)?.map(Arc::new);
        let peer_tls = certificates::for_members(&config)?;
        let acceptors = certificates::acceptors(tls.as_deref(), peer_tls.as_deref());
        begin::discover(&mut config)?;
        let clock: Arc<dyn Clock> = Arc::new(RealClock);
        let metrics = Metrics::default();
        let spans = config.clients.traces.as_ref().map(Spans::start).transpose();
        let spans = spans.map_err(Error::Tracing)?.map(Arc::new);
        let evaluations = Arc::new(EvaluationMetrics::new(
            Arc::clone(&clock),
            config.clients.slow_evaluation,
            spans.clone(),
        ));
        let mut options = config.node.clone();
        options.disk = Arc::new(MeteredDisk {
            inner: Arc::new(RealDisk),
            clock: Arc::clone(&clock),
            flushes: Arc::clone(&metrics.times.flushes),
        });
        options.clock = Arc::clone(&clock);
        options.observer = Some(Arc::clone(&evaluations) as _);
        let Begun {
            node,
            member,
            alone,
            was_begun,
        } = begin::start_node(&config, &options, peers, peer_tls)?;
        if was_begun && !alone && config.corruption.at_the_start() {
            check_before_serving(&config, &node, member.member)?;
        }
        log_open_addresses(&config, alone, &sockets.open);
        // A member that is alone publishes its name to no other, so it is ready at once.
        let (known, ready) = watch::channel(alone);
        let (removal, removed) = watch::channel(false);
        let (stop, stopping) = watch::channel(false);
        let backend = Arc::new(Backend {
            node,
            identity: member,
            alone,
            metrics,
            health: HealthService::from_health_reporter(HealthReporter::new()),
            resources: Resources::of_this_process(&clock),
            evaluations,
            clock,
            stopping,
            failed_requests: Mutex::new(Throttle::new(FAILURE_LOGGED_EVERY)),
            authentication: Authentication::default(),
            acceptors,
            spans,
            config,
        });
        view::tell_figures(&backend);
        let mut server = Server {
            backend,
            stop,
            ready,
            removed,
            threads: Vec::new(),
            client_addresses: sockets.client_addresses,
            _socket_files: sockets.socket_files,
        };
        server.start_workers(sockets.by_core, tls.as_ref())?;
        if let Some(kept) = server.backend.config.auto_compaction {
            let backend = Arc::clone(&server.backend);
            server.spawn_task("compactor", compactor::run(backend, kept))?;
        }
        if !alone {
            let backend = Arc::clone(&server.backend);
            server.spawn_task("corruption", corruption::run(backend))?;
            let backend = Arc::clone(&server.backend);
            server.spawn_task("presence", presence::run(backend, known, removal))?;
        }
        Ok(server)
    }

    fn start_workers(
        &mut self,
        by_core: Vec<Vec<(Listener, Traffic)>>,
        tls: Option<&Arc<ClientTls>>,
    ) -> Result<(), Error> {
        let (cores, listening_addresses) = Cores::new(by_core.len());
        for (core, (listeners, arrivals)) in
            by_core.into_iter().zip(listening_addresses).enumerate()
        {
            let worker = Worker {
                core,
                cores: cores.clone(),
                arrivals,
                listeners,
                backend: Arc::clone(&self.backend),
                tls: tls.cloned(),
            };
            let runtime = Worker::runtime().map_err(Error::Threads)?;
            self.spawn(&format!("serve-{core}"), move || {
                if let Err(error) = worker.run(runtime) {
                    warn!(%error, core, "cannot serve on this core");
                }
            })?;
        }
        Ok(())
    }

    /// Runs a task with a runtime and a thread of its own.
    fn spawn_task(
        &mut self,
        name: &str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().map_err(Error::Threads)?;
        self.spawn(name, move || runtime.block_on(task))
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.threads
            .push(threads::spawn(name, body).map_err(Error::Threads)?);
        Ok(())
    }

    /// TCP addresses at which clients can connect.
    pub fn client_addresses(&self) -> &[SocketAddr] {
        &self.client_addresses
    }

    /// The ids of this member and its cluster.
    pub fn identity(&self) -> &MemberFile {
        &self.backend.identity
    }

    /// Ends streams, gives open requests a moment to finish, and closes the store. Whatever
    /// is cut off, acknowledged writes are as safe as `--durability` promises.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                warn!("a thread of the server panicked");
            }
        }
        self.backend.node.stop();
        if let Some(spans) = &self.backend.spans {
            spans.stop();
        }
    }
}

/// Refuses to serve from a member with another state than the other members.
fn check_before_serving(config: &Config, node: &Node, member: u64) -> Result<(), Error> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(Error::Threads)?;
    let check = corruption::initial_check(node, member, config.request_timeout());
    runtime.block_on(check).map_err(|what| {
        tracing::error!(error = what, "checkInitialHashKV failed");
        node.stop();
        Error::Corrupt { what, member }
    })
}

/// Logs the open addresses, in etcd's words, and the warnings for a member that is alone.
fn log_open_addresses(config: &Config, alone: bool, open: &[(Traffic, String)]) {
    let warnings = config.warnings_alone.iter().filter(|_| alone);
    warnings.for_each(|warning| warn!("{warning}"));
    for url in config.addresses.listen_peer.iter().filter(|_| !alone) {
        match url.is_secure() {
            true => info!(address = url.as_str(), "serving peer traffic securely"),
            false => info!(address = url.as_str(), "serving peer traffic insecurely"),
        }
    }
    for (Traffic { accepts, .. }, address, traffic) in open
        .iter()
        .map(|(traffic, address)| (traffic, address, traffic.label()))
    {
        if *accepts != Some(Accepts::Tls) {
            info!(traffic, address, "serving client traffic insecurely");
        }
        if accepts.is_some() {
            info!(traffic, address, "serving client traffic securely");
        }
    }
}

fn bind_all(config: &Config, cores: usize) -> Result<Sockets, Error> {
    let mut sockets = Sockets::default();
    sockets.by_core.resize_with(cores, Vec::new);
    let addresses = &config.addresses;
    let pages = Some(Pages::All);
    let beside_grpc = pages.filter(|_| addresses.listen_client_http.is_empty());
    let metrics = Some(Pages::Monitoring);
    for (flag, urls, grpc, pages) in [
        (
            "listen-client-urls",
            &addresses.listen_client,
            true,
            beside_grpc,
        ),
        (
            "listen-client-http-urls",
            &addresses.listen_client_http,
            false,
            pages,
        ),
        (
            "listen-metrics-urls",
            &addresses.listen_metrics,
            false,
            metrics,
        ),
    ] {
        for bound in listen::bind_all(flag, urls, addresses.share_port) {
            let (Place { url, accepts }, bound) = bound?;
            let traffic = Traffic {
                grpc,
                pages,
                accepts,
            };
            sockets.add(url, bound, traffic);
        }
    }
    Ok(sockets)
}

impl Sockets {
    fn add(&mut self, url: &Url, bound: Bound, traffic: Traffic) {
        let chosen = bound.chosen_port(url);
        for listener in bound.listeners {
            let core = self.listeners % self.by_core.len();
            self.by_core[core].push((listener, traffic));
            self.listeners += 1;
        }
        let open = bound.addresses.iter().map(SocketAddr::to_string);
        let file = bound.socket_file.iter().map(|_| url.as_str().to_owned());
        let open = open.chain(file).map(|address| (traffic, address));
        self.open.extend(open);
        if traffic.grpc {
            self.chosen.extend(chosen);
            self.client_addresses.extend(bound.addresses);
        }
        self.socket_files.extend(bound.socket_file);
    }
}
