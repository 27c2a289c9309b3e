//! The flags of TLS: which belong together, and which addresses need them. The files are read
//! at the start of the server.

use std::path::Path;

use tls::{Allowed, NamedFile, Pair, Protocol, Settings, TlsVersion};

use super::configuration::{Config, Tls, TlsSide};
use super::error::Error;
use super::gather::Gathered;
use super::urls::Url;
use super::values;

/// Names of one side's flags.
struct Names {
    certificate: &'static str,
    key: &'static str,
    dialing_certificate: &'static str,
    dialing_key: &'static str,
    certificate_required: &'static str,
    trusted: &'static str,
    revoked: &'static str,
    hostnames: &'static str,
    automatic: &'static str,
}

const CLIENT: Names = Names {
    certificate: "cert-file",
    key: "key-file",
    dialing_certificate: "client-cert-file",
    dialing_key: "client-key-file",
    certificate_required: "client-cert-auth",
    trusted: "trusted-ca-file",
    revoked: "client-crl-file",
    hostnames: "client-cert-allowed-hostname",
    automatic: "auto-tls",
};

const PEER: Names = Names {
    certificate: "peer-cert-file",
    key: "peer-key-file",
    dialing_certificate: "peer-client-cert-file",
    dialing_key: "peer-client-key-file",
    certificate_required: "peer-client-cert-auth",
    trusted: "peer-trusted-ca-file",
    revoked: "peer-crl-file",
    hostnames: "peer-cert-allowed-hostname",
    automatic: "peer-auto-tls",
};

/// Reads all flags of TLS, and adds warnings about those without effect.
pub(super) fn read(gathered: &mut Gathered, config: &mut Config) -> Result<(), Error> {
    let protocol = protocol(gathered)?;
    let client = side(gathered, &CLIENT, &protocol)?;
    let mut peer = side(gathered, &PEER, &protocol)?;
    let skips = flag(gathered, "peer-skip-client-san-verification")?;
    peer.settings.checks_addresses = !skips;
    peer.settings.allowed = allowed_members(gathered, peer.settings.allowed)?;
    let years = values::unsigned(
        "self-signed-cert-validity",
        gathered.text("self-signed-cert-validity"),
    )?;
    config.tls = Tls {
        client,
        peer,
        self_signed_years: years,
    };
    addresses_have_certificates(config)?;
    warn(gathered, config);
    Ok(())
}

fn flag(gathered: &Gathered, name: &'static str) -> Result<bool, Error> {
    values::boolean(name, gathered.text(name))
}

fn protocol(gathered: &mut Gathered) -> Result<Protocol, Error> {
    const MIN: &str = "tls-min-version";
    const MAX: &str = "tls-max-version";
    const SUITES: &str = "cipher-suites";
    let version = |name: &'static str, default: TlsVersion| match gathered.text(name) {
        "" => Ok(default),
        text => TlsVersion::named(text).map_err(|remedy| Error::bad(name, text, remedy)),
    };
    let mut protocol = Protocol::between(
        version(MIN, TlsVersion::Tls12)?,
        version(MAX, TlsVersion::Tls13)?,
    );
    if protocol.version_min > protocol.version_max {
        let (min, max) = (gathered.text(MIN), gathered.text(MAX));
        return Err(Error::Conflict(format!(
            "min version ({min}) is greater than max version ({max}): raise --{MAX} or lower \
             --{MIN}"
        )));
    }
    let suites = gathered.text(SUITES).to_owned();
    if !suites.is_empty() && protocol.version_min == TlsVersion::Tls13 {
        return Err(Error::Conflict(format!(
            "cipher suites cannot be configured when only TLS1.3 is enabled: leave out --{SUITES}"
        )));
    }
    let chosen = protocol.choose_suites(&suites);
    let warnings = chosen.map_err(|remedy| Error::bad(SUITES, &suites, remedy))?;
    warnings.into_iter().for_each(|text| gathered.warn(text));
    Ok(protocol)
}

fn side(gathered: &mut Gathered, names: &Names, protocol: &Protocol) -> Result<TlsSide, Error> {
    let hostnames = list(gathered.text(names.hostnames));
    let settings = Settings {
        pair: pair(gathered, names.certificate, names.key)?,
        dialing_pair: pair(gathered, names.dialing_certificate, names.dialing_key)?,
        requires_certificate: flag(gathered, names.certificate_required)?,
        trusted: file(gathered, names.trusted),
        revoked: file(gathered, names.revoked),
        allowed: match hostnames.is_empty() {
            true => Allowed::Any,
            false => Allowed::Hostnames(hostnames),
        },
        protocol: protocol.clone(),
        ..Settings::default()
    };
    let asks = flag(gathered, names.automatic)?;
    if asks && settings.pair.is_some() {
        let side = names.automatic.trim_end_matches("auto-tls");
        let side = if side.is_empty() { "client" } else { "peer" };
        gathered.warn(format!("ignoring {side} auto TLS since certs given"));
    }
    if settings.dialing_pair.is_some() && settings.pair.is_none() {
        gathered.warn(format!(
            "--{} has no effect without --{}",
            names.dialing_certificate, names.certificate
        ));
    }
    for (name, is_set) in [
        (names.revoked, settings.revoked.is_some()),
        (names.hostnames, settings.allowed != Allowed::Any),
    ] {
        if is_set && !settings.asks_for_certificate() {
            gathered.warn(format!(
                "--{name} has no effect: no certificate is asked for without --{}",
                names.trusted
            ));
        }
    }
    Ok(TlsSide {
        is_automatic: asks && settings.pair.is_none(),
        settings,
    })
}

/// The names that a member's certificate needs: common names or host names, not both.
fn allowed_members(gathered: &Gathered, hostnames: Allowed) -> Result<Allowed, Error> {
    let names = list(gathered.text("peer-cert-allowed-cn"));
    match (names.is_empty(), hostnames) {
        (true, hostnames) => Ok(hostnames),
        (false, Allowed::Any) => Ok(Allowed::CommonNames(names)),
        (false, _) => Err(Error::Conflict(
            "AllowedCNs and AllowedHostnames are mutually exclusive: leave out \
             --peer-cert-allowed-cn or --peer-cert-allowed-hostname"
                .to_owned(),
        )),
    }
}

fn list(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn file(gathered: &Gathered, name: &'static str) -> Option<NamedFile> {
    let path = gathered.text(name);
    (!path.is_empty()).then(|| NamedFile {
        option: name,
        path: Path::new(path).to_owned(),
    })
}

fn pair(
    gathered: &Gathered,
    certificate: &'static str,
    key: &'static str,
) -> Result<Option<Pair>, Error> {
    let missing = |missing: &str, given: &str| {
        Error::Conflict(format!(
            "--{given} needs --{missing}: certificate and key must both be present, or neither \
             (KeyFile and CertFile must both be present)"
        ))
    };
    match (file(gathered, certificate), file(gathered, key)) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(Pair { certificate, key })),
        (Some(_), None) => Err(missing(key, certificate)),
        (None, Some(_)) => Err(missing(certificate, key)),
    }
}

/// An address with TLS needs a certificate; the errors are etcd's.
fn addresses_have_certificates(config: &Config) -> Result<(), Error> {
    let secure = |urls: &'_ [Url]| urls.iter().find(|url| url.is_secure()).cloned();
    let addresses = &config.addresses;
    if !config.tls.client.has_certificate() {
        let clients = secure(&addresses.listen_client);
        if let Some(url) = clients.or_else(|| secure(&addresses.listen_client_http)) {
            return Err(Error::Conflict(format!(
                "TLS key/cert (--cert-file, --key-file) must be provided for client url {} with \
                 HTTPS scheme, or --auto-tls",
                url.as_str()
            )));
        }
        if let Some(url) = secure(&addresses.listen_metrics) {
            return Err(Error::Conflict(format!(
                "client TLS key/cert (--cert-file, --key-file) must be provided for metrics \
                 secure url {}, or --auto-tls",
                url.as_str()
            )));
        }
    }
    match secure(&addresses.listen_peer).filter(|_| !config.tls.peer.has_certificate()) {
        None => Ok(()),
        Some(url) => Err(Error::Conflict(format!(
            "cannot listen on TLS for {}: KeyFile and CertFile are not presented; name them with \
             --peer-cert-file and --peer-key-file, or set --peer-auto-tls",
            url.as_str()
        ))),
    }
}

/// Warnings about settings that some addresses do not use, in etcd's words.
fn warn(gathered: &mut Gathered, config: &Config) {
    let addresses = &config.addresses;
    let clients = addresses.listen_client.iter();
    let clients = clients.chain(&addresses.listen_client_http);
    for url in clients.filter(|url| !url.is_secure()) {
        let url = url.as_str();
        if config.tls.client.has_certificate() {
            gathered.warn(format!(
                "scheme is http or unix while key and cert files are present; ignoring key and \
                 cert files: client-url {url}"
            ));
        }
        if config.tls.client.settings.requires_certificate {
            gathered.warn(format!(
                "scheme is http or unix while --client-cert-auth is enabled; ignoring client cert \
                 auth for this URL: client-url {url}"
            ));
        }
    }
    for url in addresses.listen_peer.iter().filter(|it| !it.is_secure()) {
        let url = url.as_str();
        if config.tls.peer.has_certificate() {
            gathered.warn(format!(
                "scheme is HTTP while key and cert files are present; ignoring key and cert \
                 files: peer-url {url}"
            ));
        }
        if config.tls.peer.settings.requires_certificate {
            gathered.warn(format!(
                "scheme is HTTP while --peer-client-cert-auth is enabled; ignoring client cert \
                 auth for this URL: peer-url {url}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing;

    const PEER: [&str; 3] = [
        "--listen-peer-urls=https://127.0.0.1:2380",
        "--peer-cert-file=c",
        "--peer-key-file=k",
    ];

    #[test]
    fn the_flags_of_both_sides_are_apart() {
        let words = [
            "--cert-file=a",
            "--key-file=b",
            "--client-cert-auth",
            "--client-crl-file=l",
            "--client-cert-allowed-hostname=x, y",
            "--peer-trusted-ca-file=ca",
            "--peer-cert-allowed-cn=m",
            "--peer-skip-client-san-verification",
            "--tls-min-version=TLS1.3",
        ];
        let tls = testing::config(&[&words[..], &PEER].concat()).tls;
        let (client, peer) = (tls.client.settings, tls.peer.settings);
        assert_eq!(client.pair.unwrap().key.path, Path::new("b"));
        assert!(client.requires_certificate && !client.checks_addresses);
        let names = ["x".to_owned(), "y".to_owned()];
        assert_eq!(client.allowed, Allowed::Hostnames(names.into()));
        assert_eq!(client.revoked.unwrap().path, Path::new("l"));
        assert!(peer.asks_for_certificate() && !peer.checks_addresses);
        assert_eq!(peer.allowed, Allowed::CommonNames(vec!["m".to_owned()]));
        assert_eq!(peer.protocol.version_min, TlsVersion::Tls13);
    }

    #[test]
    fn the_addresses_of_members_are_checked_unless_that_is_skipped() {
        let config = testing::config(&PEER);
        assert!(config.tls.peer.settings.checks_addresses);
        assert!(config.members_use_tls());
        assert!(!testing::config(&[]).members_use_tls());
    }

    #[test]
    fn a_given_certificate_stands_instead_of_one_of_the_server_s_making() {
        let config = testing::config(&["--auto-tls", "--cert-file=a", "--key-file=b"]);
        assert!(!config.tls.client.is_automatic);
        let ignored = "ignoring client auto TLS since certs given";
        assert!(config.warnings.iter().any(|warning| warning == ignored));
        assert!(testing::config(&["--auto-tls"]).tls.client.is_automatic);
    }
}
