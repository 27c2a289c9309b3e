//! Remedies for connections that this side could not open.

use std::io;

use crate::remedy::Remedy;
use crate::words::HandshakeFailure;

/// How the program that dials calls its settings of TLS.
#[derive(Clone, Copy, Debug)]
pub struct DialFlags {
    /// File of the trusted authorities.
    pub trusted: &'static str,
    /// File of the certificate that this side shows.
    pub certificate: &'static str,
    /// File of that certificate's private key.
    pub key: &'static str,
}

/// The remedy for an error of [`crate::Connector::connect`], or of reading from the
/// connection that it returned. `None` if the error is not about TLS, or has no known remedy.
pub fn dial_remedy(error: &io::Error, flags: &DialFlags) -> Option<String> {
    let failed: &HandshakeFailure = error.get_ref()?.downcast_ref()?;
    let DialFlags {
        trusted,
        certificate,
        key,
    } = flags;
    Some(match failed.remedy {
        Remedy::SpeakTls => "the port answers without TLS: write http:// in its address".to_owned(),
        Remedy::TrustAuthority => {
            format!("name the authority that signed the certificate with {trusted}")
        }
        Remedy::Renew => "give the server a new certificate".to_owned(),
        Remedy::CompareClocks => "compare the clocks of both machines, or wait until the \
             certificate has become valid"
            .to_owned(),
        Remedy::AllowName => "show a certificate with an allowed name, or allow its name on this \
             side"
            .to_owned(),
        Remedy::FitName => "connect to a name or address that the certificate has, or issue \
             it for this one as well"
            .to_owned(),
        Remedy::ShowCertificate => {
            format!("the server asks for a certificate: name yours with {certificate} and {key}")
        }
        Remedy::RenewOwn => format!("name a certificate that has not expired with {certificate}"),
        Remedy::OwnCertificate => format!(
            "the server refuses the certificate of {certificate}: compare its dates, its names \
             and the authority that signed it with what the server accepts"
        ),
        Remedy::Reissue => "issue the server's certificate again".to_owned(),
        Remedy::Protocol => {
            "compare the versions of TLS and the cipher suites that both sides allow".to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, Error};

    use super::*;
    use crate::words;

    const FLAGS: DialFlags = DialFlags {
        trusted: "--cacert",
        certificate: "--cert",
        key: "--key",
    };

    fn remedy_of(alert: AlertDescription) -> Option<String> {
        let error = Error::AlertReceived(alert);
        let error = words::translated(io::Error::new(io::ErrorKind::InvalidData, error));
        dial_remedy(&error, &FLAGS)
    }

    #[test]
    fn a_remedy_names_the_flag_of_the_program_that_dials() {
        let missing = remedy_of(AlertDescription::CertificateRequired).unwrap();
        assert!(
            missing.ends_with("name yours with --cert and --key"),
            "{missing}"
        );
        let refused = remedy_of(AlertDescription::UnknownCA).unwrap();
        assert!(refused.contains("certificate of --cert"), "{refused}");
    }

    #[test]
    fn an_error_that_is_not_about_tls_has_no_remedy() {
        assert_eq!(remedy_of(AlertDescription::InternalError), None);
        let broken = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(dial_remedy(&broken, &FLAGS), None);
    }
}
