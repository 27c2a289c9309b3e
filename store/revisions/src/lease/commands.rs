//! Grant and revoke: the two lease commands that are written to the log.

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse,
};

use crate::Error;
use crate::machine::Machine;
use crate::range::header;
use crate::state::StateRecord;

/// The longest time to live that etcd allows, about 285 years.
const TTL_MAX_SECONDS: i64 = 9_000_000_000;

impl Machine {
    pub(crate) fn grant(
        &mut self,
        request: &LeaseGrantRequest,
    ) -> Result<LeaseGrantResponse, Error> {
        let id = if request.id == 0 {
            self.new_lease_id()
        } else {
            request.id
        };
        if request.ttl > TTL_MAX_SECONDS {
            return Err(Refusal::LeaseTtlTooLarge.into());
        }
        if self.lease_exists(id) {
            return Err(Refusal::LeaseExist.into());
        }
        let ttl_seconds = request.ttl.max(self.shared.options.lease_ttl_min_seconds);
        self.overlay.set_lease(id, true);
        self.open
            .push_state(&StateRecord::Granted { id, ttl_seconds });
        Ok(LeaseGrantResponse {
            header: header(self.decided.revision),
            id,
            ttl: ttl_seconds,
            error: String::new(),
        })
    }

    /// Deletes the lease's keys in key order, all in one revision, then the
    /// lease.
    pub(crate) fn revoke(
        &mut self,
        request: &LeaseRevokeRequest,
    ) -> Result<LeaseRevokeResponse, Error> {
        if !self.lease_exists(request.id) {
            return Err(Refusal::LeaseNotFound.into());
        }
        self.attempt(|evaluation| {
            for key in evaluation.keys_of_lease(request.id) {
                evaluation.delete(&key);
            }
            Ok(())
        })?;
        self.overlay.set_lease(request.id, false);
        self.open
            .push_state(&StateRecord::Revoked { id: request.id });
        Ok(LeaseRevokeResponse {
            header: header(self.decided.revision),
        })
    }

    fn lease_exists(&self, id: i64) -> bool {
        self.overlay
            .lease(id)
            .unwrap_or_else(|| self.shared.applied().lessor.contains(id))
    }

    /// Returns a random positive id that no lease has.
    fn new_lease_id(&mut self) -> i64 {
        loop {
            let id = i64::try_from(self.random.next_u64() >> 1).expect("63 bits fit");
            if id != 0 && !self.lease_exists(id) {
                return id;
            }
        }
    }
}
