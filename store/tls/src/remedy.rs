//! Remedies for refused connections, for operators. Each line of the log about one has its remedy.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::acceptor::Endpoint;
use crate::files::NamedFile;
use crate::settings::Settings;

/// A kind of refusal, by its remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Remedy {
    /// The other side does not speak TLS.
    SpeakTls,
    /// The other side showed no certificate.
    ShowCertificate,
    /// The other side's certificate has expired.
    Renew,
    /// The other side's certificate is not valid yet.
    CompareClocks,
    /// The authority of the other side's certificate is not trusted.
    TrustAuthority,
    Revoked,
    /// The list of revoked certificates has never been readable.
    WriteList,
    /// No name of the certificate is allowed.
    AllowName,
    /// The certificate is for other names than the one that was dialled.
    FitName,
    /// The certificate is not for the side that connects.
    Purpose,
    /// The certificate does not fit the address that it comes from.
    FitAddress,
    /// Another fault of the other side's certificate.
    Reissue,
    /// The other side says that this side's certificate has expired.
    RenewOwn,
    /// The other side refuses this side's certificate.
    OwnCertificate,
    /// Both sides have no version or suite in common.
    Protocol,
    /// The handshake was not finished in time.
    Late,
    /// The address has too many unfinished handshakes.
    Crowd,
    /// The connection broke, or what came was no TLS.
    Inspect,
}

impl Remedy {
    pub(crate) fn of(error: &Error) -> Remedy {
        match error {
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Remedy::SpeakTls,
            Error::NoCertificatesPresented => Remedy::ShowCertificate,
            Error::InvalidCertificate(error) => Remedy::of_certificate(error),
            Error::AlertReceived(alert) => Remedy::of_alert(*alert),
            Error::PeerIncompatible(_) => Remedy::Protocol,
            _ => Remedy::Inspect,
        }
    }

    fn of_certificate(error: &CertificateError) -> Remedy {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Remedy::Renew,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Remedy::CompareClocks
            }
            CertificateError::UnknownIssuer => Remedy::TrustAuthority,
            CertificateError::Revoked => Remedy::Revoked,
            CertificateError::UnknownRevocationStatus => Remedy::WriteList,
            CertificateError::NotValidForName => Remedy::AllowName,
            CertificateError::NotValidForNameContext { .. } => Remedy::FitName,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Remedy::Purpose
            }
            _ => Remedy::Reissue,
        }
    }

    fn of_alert(alert: AlertDescription) -> Remedy {
        match alert {
            AlertDescription::CertificateExpired => Remedy::RenewOwn,
            AlertDescription::CertificateRequired => Remedy::ShowCertificate,
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => {
                Remedy::Protocol
            }
            AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied => Remedy::OwnCertificate,
            _ => Remedy::Inspect,
        }
    }

    /// The remedy as a sentence, with the files that these settings name.
    pub(crate) fn text(self, settings: &Settings, endpoint: Endpoint) -> String {
        let pair = settings.pair.as_ref();
        let own = pair.map_or_else(String::new, |pair| flag(&pair.certificate));
        let list = settings.revoked.as_ref().map_or_else(String::new, flag);
        match self {
            Remedy::SpeakTls => "connect with https://, or let this server listen at an http:// \
                 address as well"
                .to_owned(),
            Remedy::ShowCertificate => "start the other side with its certificate and key \
                 (etcdctl: --cert and --key)"
                .to_owned(),
            Remedy::Renew => "give the other side a new certificate; its open connections go on, \
                 new ones are refused until then"
                .to_owned(),
            Remedy::CompareClocks => "compare the clocks of both machines, or wait until the \
                 certificate has become valid"
                .to_owned(),
            Remedy::TrustAuthority => format!(
                "show a certificate that a trusted authority has signed, or add its authority to \
                 {}",
                trusted(settings, endpoint)
            ),
            Remedy::Revoked => format!(
                "give the other side a new certificate; if this one was revoked by mistake, write \
                 {list} without it, which is read again without a restart"
            ),
            Remedy::WriteList => format!(
                "write the list of revoked certificates to {list}: until it can be read every \
                 certificate is refused"
            ),
            Remedy::AllowName => match endpoint {
                Endpoint::Client => "show a certificate with an allowed name, or add its name to \
                     --client-cert-allowed-hostname"
                    .to_owned(),
                Endpoint::Peer => "show a certificate with an allowed name, or add its name to \
                     --peer-cert-allowed-cn or --peer-cert-allowed-hostname"
                    .to_owned(),
            },
            Remedy::Purpose => "issue the certificate with clientAuth among its extended key \
                 usages, or with none"
                .to_owned(),
            Remedy::FitAddress => "issue the certificate for the address or name that it comes \
                 from, or start with --peer-skip-client-san-verification"
                .to_owned(),
            Remedy::FitName | Remedy::Reissue => {
                "issue the other side's certificate again".to_owned()
            }
            Remedy::RenewOwn => format!(
                "write a new certificate and its key for this server: {own}, which is read again \
                 without a restart"
            ),
            Remedy::OwnCertificate => format!(
                "compare this server's {own} (its dates, its names, the authority that signed it) \
                 with what the other side trusts and calls this server"
            ),
            Remedy::Protocol => "compare --tls-min-version, --tls-max-version and \
                 --cipher-suites with what the other side offers"
                .to_owned(),
            Remedy::Late => "find out what connects from this address and does not speak: a \
                 check of the port, a scan, or an attack; it costs this server little, and a \
                 firewall can end it"
                .to_owned(),
            Remedy::Crowd => "limit the connections of this address in a firewall before this \
                 server, or slow down the clients that connect from it"
                .to_owned(),
            Remedy::Inspect => "find out what connects from this address: it or something on \
                 the way broke the handshake"
                .to_owned(),
        }
    }
}

/// A file as its flag.
fn flag(file: &NamedFile) -> String {
    format!("--{}={}", file.option, file.path.display())
}

/// The place of the trusted authorities. Without a file of its own an endpoint trusts those of the
/// system.
fn trusted(settings: &Settings, endpoint: Endpoint) -> String {
    match (&settings.trusted, endpoint) {
        (Some(file), _) => format!("{}, which is read again without a restart", flag(file)),
        (None, Endpoint::Client) => "a file, and start with --trusted-ca-file".to_owned(),
        (None, Endpoint::Peer) => "a file, and start with --peer-trusted-ca-file".to_owned(),
    }
}
