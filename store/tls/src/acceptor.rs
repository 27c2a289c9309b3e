//! The accepting side: its files, its checks, and the log of refused connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Mutex};
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CommonState, RootCertStore};
use tracing::{debug, warn};

use crate::expiry::Expiry;
use crate::facts::{ClientCertificate, Facts};
use crate::part::Part;
use crate::refusals::{Noted, RefusalKind, Refusals, Summary};
use crate::remedy::Remedy;
use crate::revocation::Revoked;
use crate::settings::Settings;
use crate::verify::ClientCheck;
use crate::{Error, pair, trust};

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
    /// Of the pair's certificate.
    expiry: Expiry,
    /// `None` if no certificate is asked for.
    trusted: Option<Part<RootCertStore>>,
    revoked: Option<Part<Revoked>>,
    /// Made of the above.
    config: Arc<ServerConfig>,
}

/// Why a connection did not pass.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) reason: String,
    pub(crate) remedy: Remedy,
    pub(crate) certificate: Option<Box<Facts>>,
    /// Whether the other side ended the connection without a word.
    pub(crate) is_end: bool,
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
        let mut expiry = Expiry::of(own.value());
        expiry.warn_if_past(own.first_file());
        Ok(Acceptor {
            parts: Mutex::new(Parts {
                pair: own,
                expiry,
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
        let mut guard = self.parts.lock();
        let parts = &mut *guard;
        let has_new_pair = parts.pair.refresh();
        if has_new_pair {
            parts.expiry = Expiry::of(parts.pair.value());
        }
        parts.expiry.warn_if_past(parts.pair.first_file());
        let changed = has_new_pair
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

    /// End of the validity of the certificate that the last handshake showed, in seconds since
    /// 1970; `None` if the certificate does not say. A renewed file counts from the next
    /// handshake on.
    pub fn certificate_expires_seconds(&self) -> Option<i64> {
        self.parts.lock().expiry.not_after()
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

    /// Logs a connection that was refused, or counts it: then the caller must call
    /// [`Acceptor::log_unlogged`] after the returned time. One that the other side ended is no
    /// news.
    pub(crate) fn log_refusal(
        &self,
        from: Option<SocketAddr>,
        refused: &Refused,
    ) -> Option<Duration> {
        let words = match self.endpoint {
            Endpoint::Client => "rejected connection on client endpoint",
            Endpoint::Peer => "rejected connection on peer endpoint",
        };
        let from = from.map(|it| SocketAddr::new(it.ip().to_canonical(), it.port()));
        let kind = RefusalKind {
            address: from.map(|from| from.ip()),
            remedy: refused.remedy,
        };
        let from = from.map_or_else(|| "@".to_owned(), |from| from.to_string());
        let error = refused.reason.as_str();
        if refused.is_end {
            debug!("remote-addr" = from, error, "{words}");
            return None;
        }
        let noted = self.refusals.lock().note(RealClock.now(), kind, error);
        match noted {
            Noted::Line => {}
            Noted::Later(wait) => return Some(wait),
            Noted::Counted => return None,
        }
        let remedy = refused.remedy.text(&self.settings, self.endpoint);
        match &refused.certificate {
            Some(facts) => warn!(
                "remote-addr" = from,
                "ip-addresses" = ?facts.addresses,
                "dns-names" = ?facts.dns_names,
                error,
                remedy,
                "{words}"
            ),
            None => warn!("remote-addr" = from, error, remedy, "{words}"),
        }
        None
    }

    /// Logs the counted refusals after their period.
    pub(crate) fn log_unlogged(&self) {
        let due = self.refusals.lock().due(RealClock.now());
        let words = match self.endpoint {
            Endpoint::Client => "rejected more connections on client endpoint",
            Endpoint::Peer => "rejected more connections on peer endpoint",
        };
        for Summary {
            kind,
            reason,
            connections,
        } in due
        {
            match kind {
                Some(RefusalKind { address, remedy }) => {
                    let from = address.map_or_else(|| "@".to_owned(), |it| it.to_string());
                    let remedy = remedy.text(&self.settings, self.endpoint);
                    let error = reason;
                    warn!("remote-addr" = from, connections, error, remedy, "{words}");
                }
                None => warn!(
                    connections,
                    error = reason,
                    remedy = "the lines before this one say what to do; these are further \
                              addresses and reasons",
                    "{words}"
                ),
            }
        }
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
