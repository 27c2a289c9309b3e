//! What connections are started with.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use environment::real::RealClock;

use crate::format::{ADDRESSES_BYTES_MAX, REASON_BYTES_MAX, RELEASE_BYTES_MAX};
use crate::member::check_addresses;
use crate::{PeerSecret, StartError};

/// How [`crate::Peers`] is started.
#[derive(Debug)]
pub struct PeersOptions {
    /// Members of other clusters are refused.
    pub cluster_id: u64,
    /// Who we are.
    pub member_id: u64,
    /// Where other members come in. None: this member can dial and cannot be
    /// dialled.
    pub listen: Vec<TcpListener>,
    /// Where other members reach this one (`host:port`), at most 1,024 bytes of them.
    /// Each connection that this member opens begins with them, so a member that knows
    /// an older address can answer. Empty: other members keep to what they know.
    pub addresses: Vec<String>,
    /// Our release, for other members' messages and status; at most 255 bytes.
    pub release: String,
    /// What all members must have in common, in words for people such as
    /// `--size=5`; at most 1,024 bytes. Who says something else is refused; who says
    /// nothing agrees with everyone.
    pub agreement: String,
    /// What all members know and no stranger does. With one, connections begin with
    /// both sides proving that they have it, and are refused otherwise.
    pub secret: Option<PeerSecret>,
    /// Bounds of memory and time.
    pub limits: Limits,
    /// Ages of messages and times in the status.
    pub clock: Arc<dyn Clock>,
}

impl PeersOptions {
    /// The defaults for member `member_id` of cluster `cluster_id`.
    pub fn new(cluster_id: u64, member_id: u64, listen: Vec<TcpListener>) -> PeersOptions {
        PeersOptions {
            cluster_id,
            member_id,
            listen,
            addresses: Vec::new(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            agreement: String::new(),
            secret: None,
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

/// Bounds of memory and time. Each member of the table has queues of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of a frame; the same on all members. A longer one that
    /// comes in ends its connection.
    pub payload_bytes_max: usize,
    /// Bytes that may wait in the Urgent lane, some for each message's entry
    /// included. A single message is always let in, here and in the other
    /// lanes.
    pub urgent_bytes_max: usize,
    /// Bytes that may wait in the Bulk lane.
    pub bulk_bytes_max: usize,
    /// What waited longer in the Urgent lane is not sent: newer ones follow.
    pub urgent_age_max: Duration,
    /// For resolving an address and connecting to it.
    pub connect_timeout: Duration,
    /// For the greetings of a new connection.
    pub greeting_timeout: Duration,
    /// Pause after a first failed attempt; each further one doubles it.
    pub retry_min: Duration,
    /// Longest pause between attempts.
    pub retry_max: Duration,
    /// A connection whose other end is silent for this long is given up: data
    /// unacknowledged, or keep-alive probes unanswered.
    pub silence_max: Duration,
    /// A stream whose receiver takes nothing for this long is given up.
    pub stream_stall_max: Duration,
    /// Connections that may be in their greetings at the same time. One more ends the
    /// eldest of the address that has most.
    pub greetings_max: usize,
    /// Bytes of large frames that all members together may have sent in part. Of each
    /// member one large frame is received at a time; smaller ones take 256 KiB of each
    /// connection at most.
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
        // A length is 32 bits on the wire.
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
