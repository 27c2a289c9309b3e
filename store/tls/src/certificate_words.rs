//! Faults of certificates in the words of etcd, which is to say Go's, where Go has some.

use rustls::CertificateError;

/// Describes the fault of a certificate.
pub(crate) fn of(error: &CertificateError) -> String {
    match error {
        // The library has no name of its own for this refusal.
        CertificateError::Other(other) if other.0.to_string() == "UnsupportedCertVersion" => {
            "x509: the certificate has version 1, and 3 is needed: sign it with an extension, \
             as subjectAltName"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("x509: certificate has expired or is not yet valid: {error}")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("x509: certificate has expired or is not yet valid: {error}")
        }
        CertificateError::UnknownIssuer => {
            "x509: certificate signed by unknown authority".to_owned()
        }
        CertificateError::Revoked => "transport: certificate serial revoked".to_owned(),
        CertificateError::NotValidForName => "client certificate authentication failed".to_owned(),
        CertificateError::UnknownRevocationStatus => {
            "the list of revoked certificates has not been readable yet".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("x509: certificate specifies an incompatible key usage: {error}")
        }
        error => format!("x509: {error}"),
    }
}
