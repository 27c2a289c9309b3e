//! The accepting side: its files, its checks, and the log of refused connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Instant, Mutex};
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CommonState, RootCertStore};
use tracing::{debug, warn};

use crate::facts::{ClientCertificate, Facts};
use crate::part::Part;
use crate::revocation::Revoked;
use crate::settings::Settings;
use crate::verify::ClientCheck;
use crate::{Error, pair, trust};

/// Lines about refused connections in a second; further ones are counted.
const LINES_MAX: u64 = 20;

/// Which kind of port accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Client,
    Peer,
}

/// Accepts TLS connections by the rules of one side's settings.
#[derive(Debug)]
pub struct Acceptor {
    settings: Settings,
    endpoint: Endpoint,
    provider: Arc<CryptoProvider>,
    parts: Mutex<Parts>,
    refusals: Mutex<Refusals>,
}

/// Parts that are read from files.
#[derive(Debug)]
struct Parts {
    pair: Part<CertifiedKey>,
    /// `None` if no certificate is asked for.
    trusted: Option<Part<RootCertStore>>,
    revoked: Option<Part<Revoked>>,
    /// Made of the above.
    config: Arc<ServerConfig>,
}

/// Lines that were logged in the second that began at `since`, and refusals without a line.
#[derive(Debug, Default)]
struct Refusals {
    since: Instant,
    lines: u64,
    unlogged: u64,
}

impl Acceptor {
    /// Reads and checks all files. Fails without a certificate and key, and for files that
    /// cannot be used, except a list of revoked certificates: while that cannot be read, every
    /// certificate of the other side is refused.
    pub fn new(settings: Settings, endpoint: Endpoint) -> Result<Acceptor, Error> {
        let Some(own) = &settings.pair else {
            let text = "KeyFile and CertFile are not presented";
            return Err(Error::Conflict(text.to_owned()));
        };
        // Checked now: it is used later, when this side connects.
        if let Some(pair) = &settings.dialing_pair {
            pair::load(&pair.files())?;
        }
        let provider = settings.protocol.provider()?;
        let own = Part::load(own.files(), pair::load)?;
        let trusted = match (settings.asks_for_certificate(), &settings.trusted) {
            (false, _) => None,
            (true, Some(_)) => Some(Part::load(
                trust::files(settings.trusted.as_ref()),
                trust::load,
            )?),
            (true, None) => Some(Part::load(trust::files(None), trust::load_of_system)?),
        };
        let revoked = settings.revoked.iter().filter(|_| trusted.is_some());
        let revoked = revoked
            .map(|file| Part::load_or_wait(vec![file.clone()], Revoked::load))
            .next();
        let config = config(
            &settings,
            &provider,
            &own,
            trusted.as_ref(),
            revoked.as_ref(),
        )?;
        Ok(Acceptor {
            parts: Mutex::new(Parts {
                pair: own,
                trusted,
                revoked,
                config,
            }),
            settings,
            endpoint,
            provider,
            refusals: Mutex::default(),
        })
    }

    /// The configuration of the next handshake, with the files as they are now.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let mut parts = self.parts.lock();
        let changed = parts.pair.refresh()
            | parts.trusted.as_mut().is_some_and(Part::refresh)
            | parts.revoked.as_mut().is_some_and(Part::refresh);
        if changed {
            let (trusted, revoked) = (parts.trusted.as_ref(), parts.revoked.as_ref());
            match config(
                &self.settings,
                &self.provider,
                &parts.pair,
                trusted,
                revoked,
            ) {
                Ok(config) => parts.config = config,
                Err(error) => warn!(%error, "changed TLS files cannot be used"),
            }
        }
        Arc::clone(&parts.config)
    }

    pub(crate) fn checks_addresses(&self) -> bool {
        self.settings.checks_addresses
    }

    /// The certificate by which a client is known: only where the settings require one, as in
    /// etcd.
    pub(crate) fn certificate_of(&self, session: &CommonState) -> Option<ClientCertificate> {
        let first = session.peer_certificates()?.first()?;
        let facts = Facts::of(first).ok()?;
        self.settings
            .requires_certificate
            .then_some(ClientCertificate {
                common_name: facts.common_name,
            })
    }

    /// Logs a connection that was refused. One that the other side ended is no news.
    pub(crate) fn log_refusal(
        &self,
        from: Option<SocketAddr>,
        certificate: Option<&Facts>,
        reason: &str,
        is_end: bool,
    ) {
        let words = match self.endpoint {
            Endpoint::Client => "rejected connection on client endpoint",
            Endpoint::Peer => "rejected connection on peer endpoint",
        };
        let from = from.map(|it| SocketAddr::new(it.ip().to_canonical(), it.port()));
        let from = from.map_or_else(|| "@".to_owned(), |from| from.to_string());
        if is_end {
            debug!("remote-addr" = from, error = reason, "{words}");
            return;
        }
        let Some(unlogged) = self.refusals.lock().admit(RealClock.now()) else {
            return;
        };
        match certificate {
            Some(facts) => warn!(
                "remote-addr" = from,
                "ip-addresses" = ?facts.addresses,
                "dns-names" = ?facts.dns_names,
                error = reason,
                unlogged,
                "{words}"
            ),
            None => warn!("remote-addr" = from, error = reason, unlogged, "{words}"),
        }
    }
}

impl Refusals {
    /// The number of refusals since the last line if a line may be logged now.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines == LINES_MAX {
            self.unlogged += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.unlogged))
    }
}

fn config(
    settings: &Settings,
    provider: &Arc<CryptoProvider>,
    pair: &Part<CertifiedKey>,
    trusted: Option<&Part<RootCertStore>>,
    revoked: Option<&Part<Revoked>>,
) -> Result<Arc<ServerConfig>, Error> {
    let conflict = |error: &dyn std::fmt::Display| Error::Conflict(error.to_string());
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&settings.protocol.versions())
        .map_err(|error| conflict(&error))?;
    let builder = match trusted {
        None => builder.with_no_client_auth(),
        Some(trusted) => {
            let check = ClientCheck::new(
                Arc::clone(trusted.value()),
                Arc::clone(provider),
                settings.allowed.clone(),
                revoked.map(|revoked| Arc::clone(revoked.value())),
            );
            builder.with_client_cert_verifier(Arc::new(check.map_err(|error| conflict(&error))?))
        }
    };
    let pair = SingleCertAndKey::from(CertifiedKey::clone(pair.value()));
    let mut config = builder.with_cert_resolver(Arc::new(pair));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would skip the checks of its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
