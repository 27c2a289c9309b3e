//! Keep-alives and queries of leases, which are not written to the log.

use std::pin::pin;
use std::sync::Arc;

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{
    LeaseKeepAliveResponse, LeaseLeasesResponse, LeaseStatus, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};

use super::lessor::Renewal;
use crate::header::header;
use crate::{Error, LeaseRequest, LeaseResponse, Reader};

impl Reader {
    /// Answers a request about a lease, without waiting. Returns `None` for the renewal of a
    /// lease that has expired and is not revoked yet; the caller asks again after the next batch
    /// was applied. Fails with `NotLeader` if the machine does not lead.
    pub fn answer_of_lease(&self, question: &LeaseRequest) -> Option<Result<LeaseResponse, Error>> {
        let request = match question {
            LeaseRequest::TimeToLive(request) => {
                let answer = self.lease_time_to_live(request);
                return Some(answer.map(LeaseResponse::TimeToLive));
            }
            LeaseRequest::KeepAlive(request) => request,
        };
        // Taken before the renewal: an answer must not show a lease alive at a revision at which
        // it was revoked already.
        let header = header(self.revision());
        let ttl = match self.shared.applied().lessor.renew(request.id) {
            Renewal::Renewed(ttl_seconds) => ttl_seconds,
            Renewal::NotFound => 0,
            Renewal::NotLeading => return Some(Err(Refusal::NotLeader.into())),
            Renewal::Expired => return None,
        };
        let id = request.id;
        let answer = LeaseKeepAliveResponse { header, id, ttl };
        Some(Ok(LeaseResponse::KeepAlive(answer)))
    }

    /// Renews a lease and returns its time to live in seconds; 0 if there is no such lease. If
    /// the lease has expired and is not revoked yet, waits for the revocation, as etcd does.
    /// Fails with `NotLeader` if the machine does not lead.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<i64, Error> {
        let ended = Arc::clone(self.shared.applied().lessor.ended());
        loop {
            // Registers for the notification before it renews, so that no end is missed in between.
            let mut end = pin!(ended.notified());
            end.as_mut().enable();
            let renewal = self.shared.applied().lessor.renew(id);
            match renewal {
                Renewal::Renewed(ttl_seconds) => return Ok(ttl_seconds),
                Renewal::NotFound => return Ok(0),
                Renewal::NotLeading => return Err(Refusal::NotLeader.into()),
                Renewal::Expired => end.await,
            }
        }
    }

    /// Returns the remaining and the granted time of a lease, and its keys if the request asks
    /// for them. The TTL is -1 if there is no such lease. Fails with `NotLeader` if the machine
    /// does not lead.
    pub fn lease_time_to_live(
        &self,
        request: &LeaseTimeToLiveRequest,
    ) -> Result<LeaseTimeToLiveResponse, Error> {
        let header = header(self.revision());
        let applied = self.shared.applied();
        if !applied.lessor.is_leading() {
            return Err(Refusal::NotLeader.into());
        }
        let Some((ttl, granted_ttl)) = applied.lessor.time_to_live(request.id) else {
            let none = LeaseTimeToLiveResponse {
                header,
                id: request.id,
                ttl: -1,
                ..Default::default()
            };
            return Ok(none);
        };
        let keys = match request.keys {
            true => applied.lessor.keys(request.id).into_iter().collect(),
            false => Vec::new(),
        };
        Ok(LeaseTimeToLiveResponse {
            header,
            id: request.id,
            ttl,
            granted_ttl,
            keys,
        })
    }

    /// Lists all leases, the first to expire first.
    pub fn lease_leases(&self) -> LeaseLeasesResponse {
        let ids = self.shared.applied().lessor.by_expiry();
        let leases = ids.into_iter().map(|id| LeaseStatus { id }).collect();
        LeaseLeasesResponse {
            header: header(self.revision()),
            leases,
        }
    }
}
