//! Dialling: connects to a member and exchanges the greetings.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::format::{Hello, Unreadable, Welcome};
use crate::greet::{self, NoGreeting};
use crate::prove;
use crate::secure;
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
    let own = &shared.options.addresses;
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
    let limits = &shared.options.limits;
    let began = shared.now();
    let tcp = connect(limits, address).await?;
    let round_trip = shared.now().saturating_since(began);
    let tls = shared.options.tls.as_deref();
    let mut socket = socket::split(secure::connect(tls, tcp, limits, address).await?);
    let hello = Hello {
        lane,
        cluster: shared.options.cluster_id,
        sender: shared.options.member_id,
        receiver: member,
        release: shared.options.release.clone(),
        agreement: shared.options.agreement.clone(),
        addresses: own_addresses.to_vec(),
    };
    let greeting = introduce(address, &mut socket, &hello, shared.options.secret.as_ref());
    let welcome = within(limits.greeting_timeout, address, greeting).await?;
    let release = judge(&hello, address, welcome)?;
    let suited = socket::suit(&socket, lane, limits);
    suited.map_err(|error| LinkError::connect(address, error.to_string()))?;
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
        proven.map_err(|error| no_welcome(address, error))?;
    }
    let welcome = greet::introduce(socket, hello).await;
    welcome.map_err(|error| no_welcome(address, error))
}

/// Does `work` with the peer at `address` within `length`.
pub(crate) async fn within<T>(
    length: Duration,
    address: &str,
    work: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let late = |_| LinkError::Timeout {
        address: address.to_owned(),
        within: length,
    };
    timeout(length, work).await.map_err(late)?
}

/// Connects to the first address of the host that accepts a connection, within
/// `connect_timeout`.
pub(crate) async fn connect(limits: &Limits, address: &str) -> Result<TcpStream, LinkError> {
    let connecting = async {
        let mut reason = "the name has no address".to_owned();
        for resolved in resolve(address).await? {
            match socket::dial(resolved, limits).await {
                Ok(socket) => return Ok(socket),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(LinkError::connect(address, reason))
    };
    within(limits.connect_timeout, address, connecting).await
}

/// Resolves `address`. A numeric address is parsed here, because a look-up takes a thread.
async fn resolve(address: &str) -> Result<Vec<SocketAddr>, LinkError> {
    let (_, host_and_port) = secure::parts(address);
    if let Ok(number) = host_and_port.parse() {
        return Ok(vec![number]);
    }
    let found = tokio::net::lookup_host(host_and_port).await;
    let found = found.map_err(|error| LinkError::Resolve {
        address: address.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(found.collect())
}

/// Checks that the welcome accepts this member and comes from the expected member and
/// cluster. Returns the listener's release.
fn judge(hello: &Hello, address: &str, welcome: Welcome) -> Result<String, LinkError> {
    let refused = |refusal, text| LinkError::refused(address, refusal, text);
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

fn no_welcome(address: &str, error: NoGreeting) -> LinkError {
    match error {
        NoGreeting::Io(error) => {
            let reason = secure::reason(&error);
            LinkError::broken(address, format!("no welcome came: {reason}"))
        }
        NoGreeting::Foreign(_) => LinkError::NotPeers {
            address: address.to_owned(),
        },
        NoGreeting::Unreadable(unreadable @ Unreadable::Version(_)) => {
            let (refusal, text) = greet::explain(unreadable);
            LinkError::refused(address, refusal, text)
        }
        NoGreeting::Unreadable(_) => LinkError::broken(address, "the welcome came damaged"),
        NoGreeting::Refused(refusal, text) => LinkError::refused(address, refusal, text),
        NoGreeting::Unproven(reason) => LinkError::broken(address, reason),
    }
}
