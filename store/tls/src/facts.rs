//! Content of a certificate.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The verified certificate of a client, for the requests of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The subject's common name; empty if it has none.
    pub common_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The last one of the subject, as in Go; empty if there is none.
    pub common_name: String,
    pub dns_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    /// Big-endian, without leading zeros.
    pub serial: Vec<u8>,
    /// End of its validity, in seconds since 1970.
    pub not_after: i64,
}

impl Facts {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Facts, String> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| format!("the certificate cannot be read: {error}"))?;
        let names = parsed.subject().iter_common_name();
        let common_name = names.filter_map(|name| name.as_str().ok()).last();
        let mut facts = Facts {
            common_name: common_name.unwrap_or_default().to_owned(),
            serial: trimmed(parsed.raw_serial()).to_owned(),
            not_after: parsed.validity().not_after.timestamp(),
            ..Facts::default()
        };
        let alternatives = parsed
            .subject_alternative_name()
            .map_err(|error| format!("the names of the certificate cannot be read: {error}"))?;
        for name in alternatives.iter().flat_map(|it| &it.value.general_names) {
            match name {
                GeneralName::DNSName(name) => facts.dns_names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => facts.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        Ok(facts)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// A number without leading zeros.
pub(crate) fn trimmed(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    &serial[zeros..]
}
