//! Versions of TLS and cipher suites.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion, version};

use crate::Error;

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

/// Versions and suites that a connection may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    pub version_min: TlsVersion,
    pub version_max: TlsVersion,
    /// Suites of TLS 1.2; empty for all. Those of TLS 1.3 cannot be chosen, as in Go.
    suites: Vec<CipherSuite>,
}

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol::between(TlsVersion::Tls12, TlsVersion::Tls13)
    }
}

/// Suites of TLS 1.2 by the names that Go gives them.
const SUITES: [(&str, CipherSuite); 8] = [
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Suites of TLS 1.3, which are always there.
const SUITES_OF_13: [&str; 3] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];

/// Suites that Go knows besides, without forward secrecy or with CBC or worse.
const WEAK_SUITES: [&str; 16] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

impl TlsVersion {
    /// Reads etcd's names of the versions; the error is the remedy.
    pub fn named(text: &str) -> Result<TlsVersion, String> {
        match text {
            "TLS1.2" => Ok(TlsVersion::Tls12),
            "TLS1.3" => Ok(TlsVersion::Tls13),
            _ => Err(format!(
                "unexpected TLS version {text:?} (must be one of: TLS1.2, TLS1.3)"
            )),
        }
    }
}

impl Protocol {
    /// These versions and those in between, with all suites.
    pub fn between(version_min: TlsVersion, version_max: TlsVersion) -> Protocol {
        Protocol {
            version_min,
            version_max,
            suites: Vec::new(),
        }
    }

    /// Reads a comma-separated list of suites. Returns warnings about names without effect;
    /// the error is the remedy.
    pub fn choose_suites(&mut self, list: &str) -> Result<Vec<String>, String> {
        let mut warnings = Vec::new();
        let names = list.split(',').map(str::trim);
        let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        for name in &names {
            if let Some((_, suite)) = SUITES.iter().find(|(known, _)| known == name) {
                self.suites.push(*suite);
            } else if WEAK_SUITES.contains(name) {
                warnings.push(format!(
                    "the cipher suite {name} is not supported and is left out: it has no forward \
                     secrecy, or CBC, RC4 or 3DES"
                ));
            } else if !SUITES_OF_13.contains(name) {
                return Err(format!("unexpected TLS cipher suite {name:?}"));
            }
        }
        if !names.is_empty() && self.suites.is_empty() {
            if self.version_max == TlsVersion::Tls12 {
                return Err("none of these suites is supported with TLS 1.2".to_owned());
            }
            warnings.push("no cipher suite of TLS 1.2 is chosen: only TLS 1.3 is used".to_owned());
            self.version_min = TlsVersion::Tls13;
        }
        Ok(warnings)
    }

    /// The versions from the lowest to the highest.
    pub(crate) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let all = [
            (TlsVersion::Tls12, &version::TLS12),
            (TlsVersion::Tls13, &version::TLS13),
        ];
        let range = self.version_min..=self.version_max;
        let chosen = all.into_iter().filter(|(it, _)| range.contains(it));
        chosen.map(|(_, version)| version).collect()
    }

    /// The cryptography with the chosen suites.
    pub(crate) fn provider(&self) -> Result<Arc<CryptoProvider>, Error> {
        let mut provider = provider()?;
        if !self.suites.is_empty() {
            provider.cipher_suites.retain(|suite| match suite {
                SupportedCipherSuite::Tls13(_) => true,
                SupportedCipherSuite::Tls12(_) => self.suites.contains(&suite.suite()),
            });
        }
        Ok(Arc::new(provider))
    }
}

/// The cryptography, if this processor has the instructions for it.
pub(crate) fn provider() -> Result<CryptoProvider, Error> {
    match missing_instructions() {
        None => Ok(rustls_graviola::default_provider()),
        Some(names) => Err(Error::Conflict(format!(
            "TLS needs a processor with {names}, which this one does not have (x86_64 since \
             2015 and most aarch64 do): serve http:// behind a proxy that speaks TLS, or use \
             another machine"
        ))),
    }
}

/// Without them graviola would stop the process.
fn missing_instructions() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let (has_all, names) = (
        std::arch::is_x86_feature_detected!("aes")
            && std::arch::is_x86_feature_detected!("pclmulqdq")
            && std::arch::is_x86_feature_detected!("ssse3")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("adx")
            && std::arch::is_x86_feature_detected!("avx2"),
        "AES, PCLMULQDQ, AVX2, BMI2 and ADX",
    );
    #[cfg(target_arch = "aarch64")]
    let (has_all, names) = (
        std::arch::is_aarch64_feature_detected!("neon")
            && std::arch::is_aarch64_feature_detected!("aes")
            && std::arch::is_aarch64_feature_detected!("pmull")
            && std::arch::is_aarch64_feature_detected!("sha2"),
        "NEON, AES, PMULL and SHA2",
    );
    (!has_all).then_some(names)
}
