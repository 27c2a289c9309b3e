//! A lease that is renewed while a verb runs, and revoked when it ends: keys of the session
//! do not outlive it.

use etcd_api::etcdserverpb::{LeaseGrantRequest, LeaseRevokeRequest};

use super::endpoints::Endpoints;
use super::keep_alive::KeepAlive;
use crate::failure::Failure;

/// A lease and its renewals.
pub(crate) struct LeaseSession<'a> {
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) lease: i64,
    ttl: i64,
}

impl LeaseSession<'_> {
    /// A session that ends `ttl` seconds after its last renewal.
    pub(crate) async fn open(endpoints: &Endpoints, ttl: i64) -> Result<LeaseSession<'_>, Failure> {
        let connection = endpoints.any().await?;
        let send = async |request| connection.lease().lease_grant(request).await;
        let granted = connection
            .call(LeaseGrantRequest { ttl, id: 0 }, send)
            .await?;
        Ok(LeaseSession {
            endpoints,
            lease: granted.id,
            ttl: granted.ttl,
        })
    }

    /// Renews the lease until it has ended in spite of it.
    pub(crate) async fn lost(&self) -> Failure {
        let mut renewals = KeepAlive::granted(self.endpoints, self.lease, self.ttl);
        loop {
            match renewals.next().await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let remedy = "The server was not reached in time, or the lease was revoked.";
                    return Failure::failed("session expired", remedy);
                }
                Err(failure) => return failure,
            }
        }
    }

    /// Ends the lease, and with it the keys of the session.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        let connection = self.endpoints.any().await?;
        let send = async |request| connection.lease().lease_revoke(request).await;
        let message = LeaseRevokeRequest { id: self.lease };
        connection.call(message, send).await.map(drop)
    }
}
