//! Dialling: connects to a member and exchanges the greetings.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use crate::format::{Hello, Unreadable, Welcome};
use crate::greet::{self, NoGreeting};
use crate::prove::{self, Unproven};
use crate::shared::Shared;
use crate::socket::{self, Socket};
use crate::{Lane, Limits, LinkError, PeerSecret, Refusal};

/// A connection after its greetings.
pub(crate) struct Dialled {
    pub socket: Socket,
    pub address: String,
    /// Duration of the connect: about one round trip.
    pub round_trip: Duration,
    /// Release of the listener.
    pub release: String,
}

/// Tries `addresses` in turn. Returns the first connection that is let in, or the last error.
pub(crate) async fn dial(
    shared: &Shared,
    member: u64,
    addresses: &[String],
    lane: Lane,
) -> Result<Dialled, LinkError> {
    let mut last = None;
    for address in addresses {
        match dial_any_release(shared, member, address, lane).await {
            Ok(dialled) => return Ok(dialled),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("set_member takes no member without an address"))
}

/// Dials one address. A listener of an older release takes the addresses in a hello for
/// damage; it is dialled again with a hello without them.
async fn dial_any_release(
    shared: &Shared,
    member: u64,
    address: &str,
    lane: Lane,
) -> Result<Dialled, LinkError> {
    let own = &shared.local.addresses;
    match dial_one(shared, member, address, lane, own).await {
        Err(LinkError::Refused {
            refusal: Refusal::Damaged,
            ..
        }) if !own.is_empty() => dial_one(shared, member, address, lane, &[]).await,
        dialled => dialled,
    }
}

async fn dial_one(
    shared: &Shared,
    member: u64,
    address: &str,
    lane: Lane,
    own_addresses: &[String],
) -> Result<Dialled, LinkError> {
    let limits = &shared.local.limits;
    let late = |within| LinkError::Timeout {
        address: address.to_owned(),
        within,
    };
    let began = shared.local.clock.now();
    let connecting = timeout(limits.connect_timeout, connect(limits, address));
    let mut socket = connecting
        .await
        .map_err(|_| late(limits.connect_timeout))??;
    let round_trip = shared.local.clock.now().saturating_since(began);
    let hello = Hello {
        lane,
        cluster: shared.local.identity.cluster,
        sender: shared.local.identity.member,
        receiver: member,
        release: shared.local.release.clone(),
        agreement: shared.local.agreement.clone(),
        addresses: own_addresses.to_vec(),
    };
    let greeting = introduce(address, &mut socket, &hello, shared.local.secret.as_ref());
    let greeting = timeout(limits.greeting_timeout, greeting);
    let welcome = greeting
        .await
        .map_err(|_| late(limits.greeting_timeout))??;
    let release = judge(&hello, address, welcome)?;
    socket::suit(&socket, lane, limits).map_err(|error| LinkError::Connect {
        address: address.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Dialled {
        socket,
        address: address.to_owned(),
        round_trip,
        release,
    })
}

/// Proves that this side has the secret, if there is one, and sends the hello. Returns the
/// listener's welcome.
pub(crate) async fn introduce(
    address: &str,
    socket: &mut Socket,
    hello: &Hello,
    secret: Option<&PeerSecret>,
) -> Result<Welcome, LinkError> {
    if let Some(secret) = secret {
        let proven = prove::dialer(socket, secret, prove::Ids::of(hello)).await;
        proven.map_err(|error| unproven(address, error))?;
    }
    let welcome = greet::introduce(socket, hello).await;
    welcome.map_err(|error| no_welcome(address, error))
}

fn unproven(address: &str, error: Unproven) -> LinkError {
    let refused = |refusal, text| LinkError::Refused {
        address: address.to_owned(),
        refusal,
        text,
    };
    match error {
        Unproven::Refused(welcome) => {
            let refusal = welcome.verdict.err().unwrap_or(Refusal::Secret);
            refused(refusal, welcome.reason)
        }
        Unproven::AnotherSecret => refused(
            Refusal::Secret,
            "it has another peer secret than this member; give all members the same \
             --peer-secret-file"
                .to_owned(),
        ),
        Unproven::Version(version) => refused(
            Refusal::Version,
            format!("it proves its peer secret in version {version}, which is not known here"),
        ),
        Unproven::NoGreeting(NoGreeting::Io(error)) => LinkError::Broken {
            address: address.to_owned(),
            reason: format!(
                "it did not prove that it has the peer secret: {error}; it may be of a release \
                 before --peer-secret-file"
            ),
        },
        Unproven::NoGreeting(error) => no_welcome(address, error),
    }
}

/// Connects to the first address of the host that accepts a connection.
pub(crate) async fn connect(limits: &Limits, address: &str) -> Result<Socket, LinkError> {
    let mut reason = "the name has no address".to_owned();
    for resolved in resolve(address).await? {
        match socket::dial(resolved, limits).await {
            Ok(socket) => return Ok(socket),
            Err(error) => reason = error.to_string(),
        }
    }
    Err(LinkError::Connect {
        address: address.to_owned(),
        reason,
    })
}

/// Resolves `address`. A numeric address is parsed here, because a look-up takes a thread.
async fn resolve(address: &str) -> Result<Vec<SocketAddr>, LinkError> {
    if let Ok(number) = address.parse() {
        return Ok(vec![number]);
    }
    let found = tokio::net::lookup_host(address).await;
    let found = found.map_err(|error| LinkError::Resolve {
        address: address.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(found.collect())
}

/// Checks that the welcome accepts this member and comes from the expected member and
/// cluster. Returns the listener's release.
fn judge(hello: &Hello, address: &str, welcome: Welcome) -> Result<String, LinkError> {
    let refused = |refusal, text| LinkError::Refused {
        address: address.to_owned(),
        refusal,
        text,
    };
    if let Err(refusal) = welcome.verdict {
        return Err(refused(refusal, welcome.reason));
    }
    if welcome.cluster != hello.cluster {
        let cluster = welcome.cluster;
        let text = format!("the member at this address belongs to cluster {cluster:016x}");
        return Err(refused(Refusal::Cluster, text));
    }
    if welcome.member != hello.receiver {
        let text = format!("the member at this address is {:016x}", welcome.member);
        return Err(refused(Refusal::Member, text));
    }
    Ok(welcome.release)
}

pub(crate) fn no_welcome(address: &str, error: NoGreeting) -> LinkError {
    let address = address.to_owned();
    match error {
        NoGreeting::Io(error) => LinkError::Broken {
            address,
            reason: format!("no welcome came: {error}"),
        },
        NoGreeting::Foreign(_) => LinkError::NotPeers { address },
        NoGreeting::Unreadable(unreadable @ Unreadable::Version(_)) => {
            let (refusal, text) = greet::explain(unreadable);
            LinkError::Refused {
                address,
                refusal,
                text,
            }
        }
        NoGreeting::Unreadable(_) => LinkError::Broken {
            address,
            reason: "the welcome came damaged".to_owned(),
        },
    }
}
