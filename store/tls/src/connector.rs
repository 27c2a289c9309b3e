//! The connecting side.

use std::io;
use std::sync::Arc;

use environment::Mutex;
use rustls::RootCertStore;
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tracing::warn;

use crate::expiry::Expiry;
use crate::part::Part;
use crate::settings::Settings;
use crate::stream::{SecureStream, Socket};
use crate::verify::ServerCheck;
use crate::{Error, pair, trust, words};

/// Opens TLS connections by the rules of one side's settings.
#[derive(Debug)]
pub struct Connector {
    settings: Settings,
    provider: Arc<CryptoProvider>,
    /// Protocols that are offered inside TLS.
    protocols: Vec<Vec<u8>>,
    parts: Mutex<Parts>,
}

#[derive(Debug)]
struct Parts {
    pair: Option<Part<CertifiedKey>>,
    /// Of the pair's certificate.
    expiry: Option<Expiry>,
    trusted: Part<RootCertStore>,
    config: Arc<ClientConfig>,
}

impl Connector {
    /// Reads and checks all files. `protocols` are offered inside TLS, such as `h2`.
    pub fn new(settings: Settings, protocols: &[&str]) -> Result<Connector, Error> {
        let provider = settings.protocol.provider()?;
        let own = settings.dialing_pair.as_ref().or(settings.pair.as_ref());
        let own = own.map(|own| Part::load(own.files(), pair::load));
        let own = own.transpose()?;
        let trusted = trust::files(settings.trusted.as_ref());
        let trusted = match settings.trusted {
            Some(_) => Part::load(trusted, trust::load)?,
            None => Part::load(trusted, trust::load_of_system)?,
        };
        let protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        let config = config(&settings, &provider, &protocols, own.as_ref(), &trusted)?;
        Ok(Connector {
            parts: Mutex::new(Parts {
                expiry: own.as_ref().map(|own| Expiry::of(own.value())),
                pair: own,
                trusted,
                config,
            }),
            settings,
            provider,
            protocols,
        })
    }

    fn config(&self) -> Arc<ClientConfig> {
        let mut guard = self.parts.lock();
        let parts = &mut *guard;
        let has_new_pair = parts.pair.as_mut().is_some_and(Part::refresh);
        if has_new_pair {
            parts.expiry = parts.pair.as_ref().map(|own| Expiry::of(own.value()));
        }
        if let (Some(expiry), Some(pair)) = (&mut parts.expiry, &parts.pair) {
            expiry.warn_if_past(pair.first_file());
        }
        if has_new_pair | parts.trusted.refresh() {
            let (settings, pair) = (&self.settings, parts.pair.as_ref());
            match config(
                settings,
                &self.provider,
                &self.protocols,
                pair,
                &parts.trusted,
            ) {
                Ok(config) => parts.config = config,
                Err(error) => warn!(%error, "changed TLS files cannot be used"),
            }
        }
        Arc::clone(&parts.config)
    }

    /// Shakes hands on a new connection to `host`, a name or an address without brackets, for
    /// which the server's certificate must be valid.
    pub async fn connect(&self, host: &str, socket: TcpStream) -> io::Result<SecureStream> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            let what = format!("{host} is neither a host name nor an address");
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        let connecting = TlsConnector::from(self.config()).connect(name, Socket::Tcp(socket));
        match connecting.await {
            Ok(session) => Ok(SecureStream::new(session.into())),
            Err(error) => Err(words::translated(error)),
        }
    }
}

fn config(
    settings: &Settings,
    provider: &Arc<CryptoProvider>,
    protocols: &Vec<Vec<u8>>,
    pair: Option<&Part<CertifiedKey>>,
    trusted: &Part<RootCertStore>,
) -> Result<Arc<ClientConfig>, Error> {
    let check = match settings.verifies_nothing {
        true => ServerCheck::verifying_nothing(provider),
        false => ServerCheck::new(
            Arc::clone(trusted.value()),
            Arc::clone(provider),
            settings.allowed.clone(),
        ),
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&settings.protocol.versions())
        .map_err(|error| Error::Conflict(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(check));
    let mut config = match pair {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let pair = SingleCertAndKey::from(CertifiedKey::clone(pair.value()));
            builder.with_client_cert_resolver(Arc::new(pair))
        }
    };
    config.alpn_protocols.clone_from(protocols);
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}
