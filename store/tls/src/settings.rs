//! Settings of one side of TLS connections.

use crate::files::NamedFile;
use crate::protocol::Protocol;

/// A certificate with its chain, and the key that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub certificate: NamedFile,
    pub key: NamedFile,
}

impl Pair {
    pub(crate) fn files(&self) -> Vec<NamedFile> {
        vec![self.certificate.clone(), self.key.clone()]
    }
}

/// Names of which the other side's certificate needs one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Allowed {
    /// No name is asked for.
    #[default]
    Any,
    /// The certificate must be valid for one of these hosts or addresses.
    Hostnames(Vec<String>),
    /// The subject's common name must be one of these.
    CommonNames(Vec<String>),
}

/// Settings of the connections with clients, or of those with members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Shown to the side that connects.
    pub pair: Option<Pair>,
    /// Shown where this side connects; `None` for the same as `pair`.
    pub dialing_pair: Option<Pair>,
    /// Whether the side that connects must show a certificate. A file of trusted authorities
    /// alone asks for one, too.
    pub requires_certificate: bool,
    /// Authorities that sign the other side's certificates; `None` for those of the system.
    pub trusted: Option<NamedFile>,
    /// Revoked certificates, by their serials.
    pub revoked: Option<NamedFile>,
    pub allowed: Allowed,
    /// Whether the names in a certificate must fit the address that it comes from.
    pub checks_addresses: bool,
    /// Whether this side, when it connects, accepts every certificate.
    pub verifies_nothing: bool,
    pub protocol: Protocol,
}

impl Settings {
    /// Whether the side that connects is asked for a certificate.
    pub fn asks_for_certificate(&self) -> bool {
        self.requires_certificate || self.trusted.is_some()
    }
}
