//! Servers and clients that show the certificate of an authority.
//!
//! `openssl req -x509` makes certificates that are authorities, and so does etcd's `--auto-tls`.
//! Operators with one certificate for all name it as the trusted file, too. Go accepts it; the library
//! refuses every authority at the end of a chain, after it has checked the dates. What else it
//! would have checked is checked here.

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Which side shows a certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Server,
    Client,
}

/// Overrules the library's refusal of a certificate that is one of the trusted authorities
/// itself, and may be used for this purpose.
pub(crate) fn overrule(
    refusal: Error,
    certificate: &CertificateDer<'_>,
    trusted: &RootCertStore,
    purpose: Purpose,
    now: UnixTime,
) -> Result<(), Error> {
    // The library has no name of its own for this refusal.
    let may_be_it = matches!(
        refusal,
        Error::InvalidCertificate(CertificateError::Other(_))
    );
    match may_be_it && is_trusted(certificate, trusted) && serves(certificate, purpose, now) {
        true => Ok(()),
        false => Err(refusal),
    }
}

/// Whether it has the subject, the key and the limits of a trusted authority.
fn is_trusted(certificate: &CertificateDer<'_>, trusted: &RootCertStore) -> bool {
    let mut own = RootCertStore::empty();
    if own.add(certificate.clone()).is_err() {
        return false;
    }
    trusted.roots.contains(&own.roots[0])
}

/// Whether it is an authority's, valid now, and for this purpose or for any.
fn serves(certificate: &CertificateDer<'_>, purpose: Purpose, now: UnixTime) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    let is_valid = validity.not_before.timestamp() <= now && now <= validity.not_after.timestamp();
    let fits = match parsed.extended_key_usage() {
        Ok(None) => true,
        Ok(Some(usage)) => {
            let named = match purpose {
                Purpose::Server => usage.value.server_auth,
                Purpose::Client => usage.value.client_auth,
            };
            named || usage.value.any
        }
        Err(_) => false,
    };
    parsed.is_ca() && is_valid && fits
}
