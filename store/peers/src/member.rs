//! A member of the table, with its addresses and lanes.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::lock::lock;
use crate::message_lane::{MessageBatch, MessageLane};
use crate::{Lane, Limits, MemberError, secure};

pub(crate) struct Member {
    pub id: u64,
    /// Host and port, tried in turn; never empty.
    pub addresses: watch::Sender<Arc<[String]>>,
    /// Addresses at which the member last said that it listens, see
    /// [`crate::Peers::moved`]; empty until then.
    pub listens_at: watch::Sender<Arc<[String]>>,
    /// Changes whenever the member dials this one, which is a reason to dial it at once.
    pub dialled_us: watch::Sender<()>,
    pub urgent: MessageLane,
    pub bulk: MessageLane,
    /// Tasks that keep the lanes connected.
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Member {
    pub fn new(id: u64, addresses: Vec<String>, limits: &Limits) -> Member {
        assert!(
            !addresses.is_empty(),
            "the caller has checked the addresses"
        );
        let urgent_age = Some(limits.urgent_age_max);
        Member {
            id,
            addresses: watch::Sender::new(addresses.into()),
            listens_at: watch::Sender::new([].into()),
            dialled_us: watch::Sender::new(()),
            urgent: MessageLane::new(limits.urgent_bytes_max, urgent_age),
            bulk: MessageLane::new(limits.bulk_bytes_max, None),
            tasks: Mutex::default(),
        }
    }

    /// The lane's queue; only Urgent and Bulk carry messages.
    pub fn message_lane(&self, lane: Lane) -> &MessageLane {
        match lane {
            Lane::Urgent => &self.urgent,
            Lane::Bulk => &self.bulk,
            Lane::Snapshot | Lane::Inquiry => {
                panic!("the {lane} lane carries no messages")
            }
        }
    }

    /// Aborts `task` when the member is closed.
    pub fn adopt(&self, task: AbortHandle) {
        lock(&self.tasks).push(task);
    }

    /// Ends the lanes; no message is sent afterwards.
    pub fn close(&self) {
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
        self.urgent.give_up(&mut MessageBatch::default());
        self.bulk.give_up(&mut MessageBatch::default());
    }

    /// Wakes the tasks of lanes that have new messages.
    pub fn pass_on_bells(&self) {
        self.urgent.bell.pass_on();
        self.bulk.bell.pass_on();
    }
}

/// Checks that there is an address, and that each one is `host:port` or `https://host:port`.
pub(crate) fn check_addresses(member: u64, addresses: &[String]) -> Result<(), MemberError> {
    if addresses.is_empty() {
        return Err(MemberError::NoAddress(member));
    }
    match addresses.iter().find(|address| !is_host_and_port(address)) {
        None => Ok(()),
        Some(address) => Err(MemberError::Address {
            member,
            address: address.clone(),
        }),
    }
}

fn is_host_and_port(address: &str) -> bool {
    let (_, address) = secure::parts(address);
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let is_bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    let is_host = !host.is_empty() && !is_bare_ipv6 && !host.contains(['/', ' ', '@']);
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        for good in [
            "a:1",
            "10.0.0.1:2380",
            "[::1]:2380",
            "node-1.example.org:65535",
            "https://[::1]:2380",
        ] {
            assert!(is_host_and_port(good), "{good}");
        }
        for bad in [
            "",
            "a",
            ":1",
            "a:",
            "a:0",
            "a:65536",
            "::1:1",
            "http://a:1",
            "https://a",
            "https://https://a:1",
            "a b:1",
        ] {
            assert!(!is_host_and_port(bad), "{bad}");
        }
        assert_eq!(check_addresses(7, &[]), Err(MemberError::NoAddress(7)));
        let text = check_addresses(7, &["a".to_owned()])
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "member 7: a is no address; write host:port, such as 10.0.0.1:2380"
        );
    }
}
