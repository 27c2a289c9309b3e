//! Makes certificates: self-signed ones for `--auto-tls`, and whole authorities.
//!
//! Keys are ECDSA on P-256.

use std::io;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use environment::Clock;
use environment::real::RealClock;
use graviola::hashing::Sha256;
use graviola::signing::ecdsa::{P256, SigningKey};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, RevokedCertParams, SanType, SerialNumber,
    SignatureAlgorithm, date_time_ymd,
};

use crate::Error;
use crate::protocol::provider;

const DAY_SECONDS: i64 = 24 * 3600;

/// A key on P-256, for the crate that writes certificates.
struct Key {
    signing: SigningKey<P256>,
    public: [u8; 65],
}

impl Key {
    fn generate() -> Result<Key, Error> {
        // Without the processor's instructions the library would end the process.
        provider()?;
        let signing = SigningKey::<P256>::generate().map_err(no_randomness)?;
        let public = signing.private_key.public_key_uncompressed();
        Ok(Key { signing, public })
    }

    fn pem(&self) -> String {
        let mut buffer = [0; 256];
        let der = self.signing.to_pkcs8_der(&mut buffer);
        let der = der.expect("256 bytes hold a key of P-256");
        pem("PRIVATE KEY", der)
    }
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let mut buffer = [0; 128];
        let signed = self.signing.sign_asn1::<Sha256>(&[message], &mut buffer);
        let signed = signed.map_err(|_| rcgen::Error::RemoteKeyError)?;
        Ok(signed.to_vec())
    }
}

/// A certificate with its key, as PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    pub certificate_pem: String,
    pub key_pem: String,
    /// Names the certificate in a list of revoked ones.
    pub serial: Vec<u8>,
}

/// Content of a certificate to be made.
#[derive(Clone, Debug)]
pub struct Request {
    pub common_name: String,
    /// Host names and addresses for which it is valid.
    pub hosts: Vec<String>,
    pub is_for_servers: bool,
    pub is_for_clients: bool,
    /// Seconds from now to the beginning of its validity; negative for the past.
    pub begins_in_seconds: i64,
    /// Seconds from now to the end of its validity; negative for one that has expired.
    pub ends_in_seconds: i64,
}

impl Request {
    /// A certificate for servers and clients, valid from yesterday for 30 days.
    pub fn new(common_name: &str, hosts: &[&str]) -> Request {
        Request {
            common_name: common_name.to_owned(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            is_for_servers: true,
            is_for_clients: true,
            begins_in_seconds: -DAY_SECONDS,
            ends_in_seconds: 30 * DAY_SECONDS,
        }
    }
}

/// An authority that signs certificates, for tests and for clusters that have no other.
pub struct Authority {
    params: CertificateParams,
    key: Key,
    certificate_pem: String,
}

impl Authority {
    /// A new authority, valid for ten years.
    pub fn new(common_name: &str) -> Result<Authority, Error> {
        let key = Key::generate()?;
        let mut params = params(common_name, &[], -DAY_SECONDS, 3650 * DAY_SECONDS)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(unmade)?;
        Ok(Authority {
            certificate_pem: certificate.pem(),
            params,
            key,
        })
    }

    /// Its own certificate, which others trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Signs a certificate for a new key.
    pub fn issue(&self, request: &Request) -> Result<Issued, Error> {
        let key = Key::generate()?;
        let mut params = params(
            &request.common_name,
            &request.hosts,
            request.begins_in_seconds,
            request.ends_in_seconds,
        )?;
        let usages = [
            (request.is_for_servers, ExtendedKeyUsagePurpose::ServerAuth),
            (request.is_for_clients, ExtendedKeyUsagePurpose::ClientAuth),
        ];
        let usages = usages.into_iter().filter(|(wanted, _)| *wanted);
        params.extended_key_usages = usages.map(|(_, usage)| usage).collect();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(unmade)?;
        Ok(Issued {
            certificate_pem: certificate.pem(),
            key_pem: key.pem(),
            serial: serial_of(&params),
        })
    }

    /// A list of revoked certificates, as DER.
    pub fn revoke(&self, serials: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: date_time_ymd(1970, 1, 1) + since_1970(-DAY_SECONDS),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(1970, 1, 1) + since_1970(-DAY_SECONDS),
            next_update: date_time_ymd(1970, 1, 1) + since_1970(30 * DAY_SECONDS),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: self.params.key_identifier_method.clone(),
        };
        let issuer = Issuer::from_params(&self.params, &self.key);
        Ok(list.signed_by(&issuer).map_err(unmade)?.der().to_vec())
    }
}

/// A server's certificate that is its own authority.
pub(crate) fn self_signed_pair(hosts: &[String], years: u32) -> Result<Issued, Error> {
    let key = Key::generate()?;
    let mut params = params("", hosts, 0, i64::from(years) * 365 * DAY_SECONDS)?;
    params.distinguished_name = DistinguishedName::new();
    let name = &mut params.distinguished_name;
    name.push(DnType::OrganizationName, "etcd");
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let certificate = params.self_signed(&key).map_err(unmade)?;
    Ok(Issued {
        certificate_pem: certificate.pem(),
        key_pem: key.pem(),
        serial: serial_of(&params),
    })
}

fn params(
    common_name: &str,
    hosts: &[String],
    begins_in_seconds: i64,
    ends_in_seconds: i64,
) -> Result<CertificateParams, Error> {
    let mut random = [0; 20];
    graviola::random::fill(&mut random).map_err(no_randomness)?;
    let mut params = CertificateParams::default();
    for host in hosts.iter().filter(|host| !host.is_empty()) {
        params.subject_alt_names.push(match host.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => {
                let name = host.as_str().try_into();
                SanType::DnsName(name.map_err(unmade)?)
            }
        });
    }
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.key_identifier_method = KeyIdMethod::PreSpecified(random.to_vec());
    // A serial is a positive number.
    random[0] = random[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&random));
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.not_before = date_time_ymd(1970, 1, 1) + since_1970(begins_in_seconds);
    params.not_after = date_time_ymd(1970, 1, 1) + since_1970(ends_in_seconds);
    Ok(params)
}

fn serial_of(params: &CertificateParams) -> Vec<u8> {
    let serial = params.serial_number.as_ref();
    serial.map(SerialNumber::to_bytes).unwrap_or_default()
}

/// Time from 1970 to the moment `seconds` after now.
fn since_1970(seconds: i64) -> Duration {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let now = RealClock.unix_time();
    match seconds < 0 {
        true => now.saturating_sub(distance),
        false => now.saturating_add(distance),
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    const LINE: usize = 64;
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(LINE).map(String::from_utf8_lossy);
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
}

fn no_randomness(error: graviola::Error) -> Error {
    Error::System(io::Error::other(format!("no randomness: {error:?}")))
}

fn unmade(error: impl std::fmt::Display) -> Error {
    Error::Conflict(format!("a certificate cannot be made: {error}"))
}
