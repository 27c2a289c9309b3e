//! Checks of the other side's certificate, inside the handshake.
//!
//! The library checks chain, dates and purpose; one of its refusals is overruled
//! ([`own_authority`]). Then come etcd's own rules: revoked serials and allowed names.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

use crate::facts::Facts;
use crate::own_authority::{self, Purpose};
use crate::revocation::Revoked;
use crate::settings::Allowed;

impl Allowed {
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), CertificateError> {
        let passes = match self {
            Allowed::Any => true,
            Allowed::CommonNames(names) => {
                Facts::of(certificate).is_ok_and(|facts| names.contains(&facts.common_name))
            }
            Allowed::Hostnames(names) => names.iter().any(|name| is_valid_for(certificate, name)),
        };
        match passes {
            true => Ok(()),
            false => Err(CertificateError::NotValidForName),
        }
    }
}

fn is_valid_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else {
        return false;
    };
    ParsedCertificate::try_from(certificate)
        .is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
}

/// A signature that does not fit comes from another authority, perhaps one of the same name.
fn unknown_if_forged(error: Error) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            CertificateError::UnknownIssuer.into()
        }
        error => error,
    }
}

/// The check of clients, or of members that connect.
#[derive(Debug)]
pub(crate) struct ClientCheck {
    inner: Arc<dyn ClientCertVerifier>,
    trusted: Arc<RootCertStore>,
    allowed: Allowed,
    revoked: Option<Arc<Revoked>>,
}

impl ClientCheck {
    pub(crate) fn new(
        roots: Arc<RootCertStore>,
        provider: Arc<CryptoProvider>,
        allowed: Allowed,
        revoked: Option<Arc<Revoked>>,
    ) -> Result<ClientCheck, String> {
        let trusted = Arc::clone(&roots);
        let inner = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
        Ok(ClientCheck {
            inner: inner.map_err(|error| error.to_string())?,
            trusted,
            allowed,
            revoked,
        })
    }
}

impl ClientCertVerifier for ClientCheck {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain = self
            .inner
            .verify_client_cert(end_entity, intermediates, now);
        if let Err(refusal) = chain {
            let (refusal, client) = (unknown_if_forged(refusal), Purpose::Client);
            own_authority::overrule(refusal, end_entity, &self.trusted, client, now)?;
        }
        self.allowed.check(end_entity)?;
        if let Some(revoked) = &self.revoked {
            revoked.check(std::iter::once(end_entity).chain(intermediates))?;
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The check of a server that this side connects to.
#[derive(Debug)]
pub(crate) struct ServerCheck {
    /// `None` if there is no authority at all, so that no certificate can pass.
    chains: Option<Arc<WebPkiServerVerifier>>,
    trusted: Arc<RootCertStore>,
    verifies_nothing: bool,
    allowed: Allowed,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCheck {
    pub(crate) fn new(
        roots: Arc<RootCertStore>,
        provider: Arc<CryptoProvider>,
        allowed: Allowed,
    ) -> ServerCheck {
        let algorithms = provider.signature_verification_algorithms;
        let trusted = Arc::clone(&roots);
        let chains = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        ServerCheck {
            chains: chains.ok(),
            trusted,
            verifies_nothing: false,
            allowed,
            algorithms,
        }
    }

    /// Accepts every certificate; the server still has to have its key.
    pub(crate) fn verifying_nothing(provider: &CryptoProvider) -> ServerCheck {
        ServerCheck {
            chains: None,
            trusted: Arc::new(RootCertStore::empty()),
            verifies_nothing: true,
            allowed: Allowed::Any,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for ServerCheck {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.verifies_nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let chains = self
            .chains
            .as_ref()
            .ok_or(CertificateError::UnknownIssuer)?;
        let chain =
            chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if let Err(refusal) = chain {
            let (refusal, server) = (unknown_if_forged(refusal), Purpose::Server);
            own_authority::overrule(refusal, end_entity, &self.trusted, server, now)?;
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        self.allowed.check(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
