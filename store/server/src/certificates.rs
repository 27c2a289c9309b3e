//! Acceptors and connectors for TLS, made at the start from the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use cluster::PeerTls;
use tls::{Acceptor, Connector, Endpoint, Handshakes, Settings};
use tracing::{info, warn};

use crate::Error;
use crate::config::{Address, Config, TlsSide, Url};

/// Parts that accept clients with TLS.
#[derive(Debug)]
pub(crate) struct ClientTls {
    pub(crate) acceptor: Arc<Acceptor>,
    pub(crate) handshakes: Handshakes,
}

/// TLS for clients; `None` if no address asks for it. `cores` serve them.
pub(crate) fn for_clients(config: &Config, cores: usize) -> Result<Option<ClientTls>, Error> {
    let addresses = &config.addresses;
    let urls = [
        &addresses.listen_client,
        &addresses.listen_client_http,
        &addresses.listen_metrics,
    ];
    let urls: Vec<&Url> = urls.into_iter().flatten().collect();
    let side = &config.tls.client;
    if !side.has_certificate() {
        return Ok(None);
    }
    // Files that no address uses are checked nevertheless, as in etcd.
    let settings = settings(config, side, "client", "auto-tls", &urls)?;
    info!(?settings, "starting with client TLS");
    let acceptor = Acceptor::new(settings, Endpoint::Client).map_err(Error::Tls)?;
    if !urls.iter().any(|url| url.is_secure()) {
        return Ok(None);
    }
    // Half of the cores at most: the others serve while many clients connect at once.
    let handshakes = Handshakes::start(cores / 2).map_err(Error::Threads)?;
    Ok(Some(ClientTls {
        acceptor: Arc::new(acceptor),
        handshakes,
    }))
}

/// TLS for members; `None` if neither a flag nor a URL asks for it.
pub(crate) fn for_members(config: &Config) -> Result<Option<Arc<PeerTls>>, Error> {
    if !config.members_use_tls() {
        return Ok(None);
    }
    let side = &config.tls.peer;
    let urls: Vec<&Url> = config.addresses.listen_peer.iter().collect();
    let settings = settings(config, side, "peer", "peer-auto-tls", &urls)?;
    info!(?settings, "starting with peer TLS");
    let acceptor = match &settings.pair {
        None => None,
        Some(_) => Some(Acceptor::new(settings.clone(), Endpoint::Peer).map_err(Error::Tls)?),
    };
    Ok(Some(Arc::new(PeerTls {
        acceptor: acceptor.map(Arc::new),
        connector: Connector::new(settings, &[]).map_err(Error::Tls)?,
        handshakes: Handshakes::start(1).map_err(Error::Threads)?,
    })))
}

/// The accepting sides with TLS by the kind of port.
pub(crate) fn acceptors(
    clients: Option<&ClientTls>,
    members: Option<&PeerTls>,
) -> Vec<(&'static str, Arc<Acceptor>)> {
    let client = clients.map(|it| ("client", Arc::clone(&it.acceptor)));
    let peer = members.and_then(|it| Some(("peer", Arc::clone(it.acceptor.as_ref()?))));
    client.into_iter().chain(peer).collect()
}

/// The settings of one side, with a self-signed pair if it asks for one.
fn settings(
    config: &Config,
    side: &TlsSide,
    folder: &str,
    option: &'static str,
    urls: &[&Url],
) -> Result<Settings, Error> {
    if !side.is_automatic {
        return Ok(side.settings.clone());
    }
    if side.settings.requires_certificate {
        warn!(
            "--{option} makes a certificate that no authority has signed, and asks clients for \
             none: the flag that requires their certificates is without effect, as in etcd; give \
             the files of an authority in its place"
        );
    }
    let directory: PathBuf = config.node.directory.join("fixtures").join(folder);
    let hosts: Vec<String> = urls.iter().filter_map(|url| host(url)).collect();
    let years = config.tls.self_signed_years;
    let pair = tls::self_signed(option, &directory, &hosts, years).map_err(Error::Tls)?;
    Ok(Settings {
        pair: Some(pair),
        verifies_nothing: true,
        protocol: side.settings.protocol.clone(),
        ..Settings::default()
    })
}

fn host(url: &Url) -> Option<String> {
    match url.address() {
        Address::Tcp { host, .. } => Some(host.clone()),
        Address::Unix { .. } => None,
    }
}
