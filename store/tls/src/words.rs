//! Failures of handshakes in the words of etcd, which is to say Go's, where Go has some: operators
//! and tests search logs for them.

use std::error::Error;
use std::io;

use rustls::AlertDescription;
use rustls::InvalidMessage;

use crate::certificate_words;
use crate::remedy::Remedy;

/// Why a handshake failed, or why the other side ended the connection.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct HandshakeFailure {
    reason: String,
    pub(crate) remedy: Remedy,
}

/// The same error with a reason in these words, as a [`HandshakeFailure`] inside it.
pub(crate) fn translated(error: io::Error) -> io::Error {
    match of_tls(&error) {
        Some(inner) => {
            let (reason, remedy) = (translate(inner), Remedy::of(inner));
            io::Error::new(error.kind(), HandshakeFailure { reason, remedy })
        }
        None => error,
    }
}

/// The reason of a failed handshake.
pub(crate) fn reason(error: &io::Error) -> String {
    match of_tls(error) {
        Some(error) => translate(error),
        None => error.to_string(),
    }
}

/// What can be done about a failed handshake.
pub(crate) fn remedy(error: &io::Error) -> Remedy {
    of_tls(error).map_or(Remedy::Inspect, Remedy::of)
}

/// Whether the other side ended the connection without a word.
pub(crate) fn is_end(error: &io::Error) -> bool {
    of_tls(error).is_none() && error.kind() == io::ErrorKind::UnexpectedEof
}

fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    let inner: &(dyn Error + Send + Sync) = error.get_ref()?;
    inner.downcast_ref()
}

fn translate(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        rustls::Error::NoCertificatesPresented => {
            "tls: client didn't provide a certificate".to_owned()
        }
        rustls::Error::AlertReceived(alert) => format!("remote error: tls: {}", alert_name(*alert)),
        rustls::Error::InvalidCertificate(error) => certificate_words::of(error),
        error => format!("tls: {error}"),
    }
}

fn alert_name(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::BadCertificate => "bad certificate".to_owned(),
        AlertDescription::UnknownCA => "unknown certificate authority".to_owned(),
        AlertDescription::CertificateExpired => "expired certificate".to_owned(),
        AlertDescription::CertificateRevoked => "revoked certificate".to_owned(),
        AlertDescription::CertificateRequired => "certificate required".to_owned(),
        AlertDescription::CertificateUnknown => "unknown certificate".to_owned(),
        AlertDescription::UnsupportedCertificate => "unsupported certificate".to_owned(),
        AlertDescription::HandshakeFailure => "handshake failure".to_owned(),
        AlertDescription::ProtocolVersion => "protocol version not supported".to_owned(),
        AlertDescription::AccessDenied => "access denied".to_owned(),
        AlertDescription::NoApplicationProtocol => "no application protocol".to_owned(),
        alert => format!("{alert:?}"),
    }
}
