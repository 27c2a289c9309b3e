//! The service Cluster: the list of members, and changes of the membership.
//!
//! The members of a cluster are in its log. A member that is alone and has no peer port
//! publishes neither its name nor its client URLs to the log: its list is itself, with the
//! name and client URLs of its flags.

use std::sync::Arc;

use etcd_api::etcdserverpb::cluster_server::Cluster;
use etcd_api::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse, ResponseHeader,
};
use revisions::{Command, Response as Outcome};
use tonic::{Request, Response, Status};

use crate::backend::Backend;
use crate::calls::Call;
use crate::config::Url;
use crate::methods::Method;
use crate::reconfiguration;

/// Refusal of membership changes by a member without a peer port.
const NO_PEER_PORT: &str = "inkstone: this member began its cluster alone and listens at no peer \
                            URL: start it with --listen-peer-urls so that members can join";

#[derive(Clone)]
pub(crate) struct ClusterService {
    backend: Arc<Backend>,
}

/// Proposes a change and unwraps its answer from the outcome.
macro_rules! change {
    ($service:expr, $variant:ident, $request:expr) => {
        match $service.change(Command::$variant($request)).await {
            Ok(Outcome::$variant(response)) => Ok(response),
            Ok(_) => unreachable!("a change is answered by a change of its kind"),
            Err(status) => Err(status),
        }
    };
}

impl ClusterService {
    pub(crate) fn new(backend: Arc<Backend>) -> ClusterService {
        ClusterService { backend }
    }

    async fn answer_list(&self, linearizable: bool) -> Result<MemberListResponse, Status> {
        if linearizable {
            self.backend.confirm_reads().await?;
        }
        // etcd's answers about members carry no revision.
        let mut header = ResponseHeader::default();
        self.backend.sign(&mut header);
        let members = if self.backend.alone {
            vec![self.this_member()]
        } else {
            self.backend.reader().members().to_messages()
        };
        Ok(MemberListResponse {
            header: Some(header),
            members,
        })
    }

    fn this_member(&self) -> Member {
        let config = &self.backend.config;
        let client = config.addresses.advertise_client.iter().map(Url::as_str);
        Member {
            id: self.backend.identity.member,
            name: config.name.clone(),
            peer_ur_ls: self.backend.identity.peer_urls.clone(),
            client_ur_ls: client.map(str::to_owned).collect(),
            is_learner: false,
        }
    }

    /// Proposes a change of the membership. A member without a peer port refuses it, because
    /// the new member could not connect to it.
    async fn change(&self, command: Command) -> Result<Outcome, Status> {
        if self.backend.alone {
            return Err(Status::failed_precondition(NO_PEER_PORT));
        }
        if let Some(what) = unusable_url(&command) {
            return Err(Status::invalid_argument(what));
        }
        reconfiguration::check(&self.backend, &command).map_err(|refusal| refusal.to_status())?;
        self.backend.execute_for_members(command).await
    }
}

/// Why a member could not be reached at a URL of the change; `None` if it could. A text that
/// is no URL at all is refused later, in etcd's words.
fn unusable_url(command: &Command) -> Option<String> {
    let urls = match command {
        Command::MemberAdd(request) => &request.peer_ur_ls,
        Command::MemberUpdate(request) => &request.peer_ur_ls,
        _ => return None,
    };
    urls.iter().find_map(|url| {
        let (scheme, rest) = url.trim().split_once(':')?;
        let why = match &scheme.to_ascii_lowercase()[..] {
            "https" | "unixs" => "TLS between members is not supported yet",
            "unix" => "members meet over TCP",
            "http" if rest.starts_with("//:") => "it has no host",
            _ => return None,
        };
        Some(format!(
            "inkstone: peer URL {url}: {why}; write http://host:port"
        ))
    })
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        let call = Call::begin(&self.backend, Method::MemberList, request.metadata())?;
        call.end(self.answer_list(request.into_inner().linearizable).await)
    }

    async fn member_add(
        &self,
        request: Request<MemberAddRequest>,
    ) -> Result<Response<MemberAddResponse>, Status> {
        let call = Call::begin(&self.backend, Method::MemberAdd, request.metadata())?;
        call.end(change!(self, MemberAdd, request.into_inner()))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        let call = Call::begin(&self.backend, Method::MemberRemove, request.metadata())?;
        call.end(change!(self, MemberRemove, request.into_inner()))
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        let call = Call::begin(&self.backend, Method::MemberUpdate, request.metadata())?;
        call.end(change!(self, MemberUpdate, request.into_inner()))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        let call = Call::begin(&self.backend, Method::MemberPromote, request.metadata())?;
        let outcome = change!(self, MemberPromote, request.into_inner());
        let promoted = u64::from(outcome.is_ok());
        self.backend.metrics.promotions.add(promoted);
        call.end(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_peer_urls_are_refused_with_the_remedy() {
        for (url, part) in [
            ("https://a:1", Some("TLS")),
            ("HTTPS://a:1", Some("TLS")),
            ("unixs://a", Some("TLS")),
            ("unix://a:1", Some("TCP")),
            ("http://:2380", Some("no host")),
            ("http://a:1", None),
            ("http://[::1]:1", None),
            ("a:1", None),
        ] {
            let peer_ur_ls = vec!["http://b:1".to_owned(), url.to_owned()];
            let add = Command::MemberAdd(MemberAddRequest {
                peer_ur_ls: peer_ur_ls.clone(),
                is_learner: true,
            });
            let update = Command::MemberUpdate(MemberUpdateRequest { id: 1, peer_ur_ls });
            for command in [add, update] {
                let refusal = unusable_url(&command);
                match part {
                    None => assert_eq!(refusal, None, "{url}"),
                    Some(part) => {
                        let refusal = refusal.unwrap();
                        assert!(refusal.contains(url) && refusal.contains(part), "{refusal}");
                    }
                }
            }
        }
    }
}
