//! The one call of the service Auth that is served: there are no users and no roles.

use std::sync::Arc;

use etcd_api::etcdserverpb::{AuthStatusRequest, AuthStatusResponse};

use crate::answer_body::{Answered, Handled};
use crate::client::Client;

/// Revision of an auth store that was never written.
const FIRST_AUTH_REVISION: u64 = 1;

pub(crate) async fn status(
    client: Arc<Client>,
    _: AuthStatusRequest,
) -> Handled<AuthStatusResponse> {
    Ok(Answered::Small(AuthStatusResponse {
        header: client.backend.header(),
        enabled: false,
        auth_revision: FIRST_AUTH_REVISION,
    }))
}
