//! This member's side of every connection.

use std::sync::{Arc, Mutex};

use environment::Clock;
use environment::randomness::Random;

use crate::greet::Identity;
use crate::{Handler, Limits, PeerSecret, PeersOptions};

/// Values of the options; none of them changes while the connections are up.
pub(crate) struct Local {
    pub identity: Identity,
    pub release: String,
    pub agreement: String,
    /// See [`PeersOptions::addresses`].
    pub addresses: Vec<String>,
    /// See [`PeersOptions::secret`].
    pub secret: Option<PeerSecret>,
    pub limits: Limits,
    pub clock: Arc<dyn Clock>,
    pub handler: Arc<dyn Handler>,
    random: Mutex<Random>,
}

impl Local {
    pub fn new(options: PeersOptions, handler: Arc<dyn Handler>, random: Random) -> Local {
        Local {
            identity: Identity {
                cluster: options.cluster_id,
                member: options.member_id,
            },
            release: options.release,
            agreement: options.agreement,
            addresses: options.addresses,
            secret: options.secret,
            limits: options.limits,
            clock: options.clock,
            handler,
            random: Mutex::new(random),
        }
    }

    pub fn random_below(&self, bound: u64) -> u64 {
        let mut random = self
            .random
            .lock()
            .expect("no code panics while it holds this lock");
        random.below(bound)
    }
}
