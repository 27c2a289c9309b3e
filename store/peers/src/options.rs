//! Options and limits of [`crate::Peers`].

use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use environment::real::RealClock;

use crate::format::{ADDRESSES_BYTES_MAX, REASON_BYTES_MAX, RELEASE_BYTES_MAX};
use crate::member::check_addresses;
use crate::{PeerListener, PeerSecret, PeerTls, StartError};

/// Options of [`crate::Peers::start`].
#[derive(Debug)]
pub struct PeersOptions {
    /// Id of the cluster. Members of other clusters are refused.
    pub cluster_id: u64,
    /// Id of this member.
    pub member_id: u64,
    /// Listeners for other members. If empty, this member can dial but cannot be dialled.
    pub listen: Vec<PeerListener>,
    /// Addresses (`host:port`, or `https://host:port`) at which other members reach this one, at most 1,024 bytes
    /// together. This member sends them at the start of each connection that it opens, so
    /// that a member with an older address can dial back. If empty, other members keep the
    /// addresses that they have.
    pub addresses: Vec<String>,
    /// Release of this member, for log lines and the status of others; at most 255 bytes.
    pub release: String,
    /// Settings that all members must share, as text for people such as `--size=5`; at most
    /// 1,024 bytes. A dialer with a different text is refused. An empty text, on either
    /// side, matches every other.
    pub agreement: String,
    /// Secret that all members share. If set, each connection begins with a proof by both
    /// sides that they have it, and is refused without.
    pub secret: Option<PeerSecret>,
    /// Certificates for addresses that begin with `https://`, and for listeners that accept TLS.
    pub tls: Option<Arc<PeerTls>>,
    /// Bounds of memory and time.
    pub limits: Limits,
    /// Clock for the ages of messages and the times in the status.
    pub clock: Arc<dyn Clock>,
}

impl PeersOptions {
    /// Default options for member `member_id` of cluster `cluster_id`.
    pub fn new(cluster_id: u64, member_id: u64, listen: Vec<TcpListener>) -> PeersOptions {
        PeersOptions {
            cluster_id,
            member_id,
            listen: listen.into_iter().map(PeerListener::from).collect(),
            addresses: Vec::new(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            agreement: String::new(),
            secret: None,
            tls: None,
            limits: Limits::default(),
            clock: Arc::new(RealClock),
        }
    }

    pub(crate) fn check(&self) -> Result<(), StartError> {
        if self.release.len() > RELEASE_BYTES_MAX {
            return Err(StartError::Release {
                release: self.release.clone(),
                bytes: self.release.len(),
                bytes_max: RELEASE_BYTES_MAX,
            });
        }
        if self.agreement.len() > REASON_BYTES_MAX {
            let text = format!("an agreement has {REASON_BYTES_MAX} bytes at most");
            return Err(StartError::Limits(text));
        }
        self.check_own_addresses().map_err(StartError::Addresses)?;
        self.limits.check().map_err(StartError::Limits)
    }

    fn check_own_addresses(&self) -> Result<(), String> {
        if self.addresses.is_empty() {
            return Ok(());
        }
        let checked = check_addresses(self.member_id, &self.addresses);
        checked.map_err(|error| error.to_string())?;
        let bytes = self.addresses.join(" ").len();
        match bytes > ADDRESSES_BYTES_MAX {
            true => Err(format!(
                "the addresses of this member take {bytes} bytes, and {ADDRESSES_BYTES_MAX} is \
                 the most: give it fewer or shorter ones"
            )),
            false => Ok(()),
        }
    }
}

/// Bounds of memory and time. Each member of the table has its own queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of a frame, which must be the same on all members. A longer frame
    /// ends the connection on which it arrives.
    pub payload_bytes_max: usize,
    /// Bytes that may wait in the Urgent lane of one member, including a fixed cost per
    /// message. An empty queue takes a message of any size, here and in the Bulk lane.
    pub urgent_bytes_max: usize,
    /// Bytes that may wait in the Bulk lane of one member.
    pub bulk_bytes_max: usize,
    /// A message that has waited longer in the Urgent lane is dropped: newer ones follow.
    pub urgent_age_max: Duration,
    /// Time limit for resolving an address and connecting to it.
    pub connect_timeout: Duration,
    /// The address that connections to addresses of the same family come from; `None`: the
    /// system chooses one.
    pub local_address: Option<IpAddr>,
    /// Time limit for the greetings of a new connection.
    pub greeting_timeout: Duration,
    /// Pause after the first failed attempt; each further failure doubles it.
    pub retry_min: Duration,
    /// Longest pause between attempts.
    pub retry_max: Duration,
    /// A connection is closed when the other end has acknowledged no data, or answered no
    /// keep-alive probe, for this long.
    pub silence_max: Duration,
    /// A stream is closed when its receiver has taken nothing for this long.
    pub stream_stall_max: Duration,
    /// Connections that may be in their greetings at the same time. One more closes the
    /// oldest connection of the address that has the most.
    pub greetings_max: usize,
    /// Memory for large frames that are being received, of all members together. Each
    /// member may have one large frame in progress; smaller frames take at most 256 KiB per
    /// connection.
    pub receiving_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            payload_bytes_max: 65 << 20,
            urgent_bytes_max: 4 << 20,
            bulk_bytes_max: 64 << 20,
            urgent_age_max: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            local_address: None,
            greeting_timeout: Duration::from_secs(5),
            retry_min: Duration::from_millis(20),
            retry_max: Duration::from_secs(1),
            silence_max: Duration::from_secs(10),
            stream_stall_max: Duration::from_secs(60),
            greetings_max: 256,
            receiving_bytes_max: 132 << 20,
        }
    }
}

impl Limits {
    fn check(&self) -> Result<(), String> {
        // A frame's length has 32 bits on the wire.
        if self.payload_bytes_max > u32::MAX as usize {
            let bytes = self.payload_bytes_max;
            return Err(format!("payload_bytes_max {bytes} is 4 GiB or more"));
        }
        if self.retry_min.is_zero() || self.retry_min > self.retry_max {
            let (min, max) = (self.retry_min, self.retry_max);
            return Err(format!(
                "retry_min {min:?} is zero or above retry_max {max:?}"
            ));
        }
        if self.silence_max < Duration::from_secs(3) {
            let length = self.silence_max;
            return Err(format!("silence_max {length:?} is below 3 s"));
        }
        if self.greetings_max == 0 {
            return Err("greetings_max must be above 0".to_owned());
        }
        Ok(())
    }
}
