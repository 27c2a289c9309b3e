//! The calls of the client port, by name.
//!
//! A call's counters live in an array at the call's place in this table, so
//! that counting is one addition and never a look-up of labels.

/// Number of messages in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One request, one answer.
    Unary,
    /// One request, many answers.
    ServerStream,
    /// Many requests, many answers.
    BidiStream,
}

impl Shape {
    /// The label in gRPC's metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Shape::Unary => "unary",
            Shape::ServerStream => "server_stream",
            Shape::BidiStream => "bidi_stream",
        }
    }
}

macro_rules! methods {
    ($($variant:ident: $service:literal $name:literal $shape:ident;)*) => {
        /// A call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Method {
            $($variant),*
        }

        impl Method {
            /// All methods, each at the index that is its number.
            pub(crate) const ALL: &'static [Method] = &[$(Method::$variant),*];

            /// Service, name and shape.
            pub(crate) const fn about(self) -> (&'static str, &'static str, Shape) {
                match self {
                    $(Method::$variant => ($service, $name, Shape::$shape)),*
                }
            }

            /// The method of a request's path, `/service/name`.
            pub(crate) fn of_path(path: &str) -> Option<Method> {
                Some(match path {
                    $(concat!("/", $service, "/", $name) => Method::$variant,)*
                    _ => return None,
                })
            }

            /// Whether a learner answers it. A learner answers ranges only if they are
            /// serializable; so with children.
            pub(crate) const fn serves_at_learners(self) -> bool {
                matches!(
                    self,
                    Method::Range
                        | Method::Status
                        | Method::Snapshot
                        | Method::SnapshotCompressed
                        | Method::HealthCheck
                        | Method::HealthList
                        | Method::HealthWatch
                        | Method::ViewChildren
                        | Method::ViewOverview
                )
            }
        }
    };
}

methods! {
    Range: "etcdserverpb.KV" "Range" Unary;
    RangeStream: "etcdserverpb.KV" "RangeStream" ServerStream;
    Put: "etcdserverpb.KV" "Put" Unary;
    DeleteRange: "etcdserverpb.KV" "DeleteRange" Unary;
    Txn: "etcdserverpb.KV" "Txn" Unary;
    Compact: "etcdserverpb.KV" "Compact" Unary;
    Watch: "etcdserverpb.Watch" "Watch" BidiStream;
    LeaseGrant: "etcdserverpb.Lease" "LeaseGrant" Unary;
    LeaseRevoke: "etcdserverpb.Lease" "LeaseRevoke" Unary;
    LeaseKeepAlive: "etcdserverpb.Lease" "LeaseKeepAlive" BidiStream;
    LeaseTimeToLive: "etcdserverpb.Lease" "LeaseTimeToLive" Unary;
    LeaseLeases: "etcdserverpb.Lease" "LeaseLeases" Unary;
    MemberAdd: "etcdserverpb.Cluster" "MemberAdd" Unary;
    MemberRemove: "etcdserverpb.Cluster" "MemberRemove" Unary;
    MemberUpdate: "etcdserverpb.Cluster" "MemberUpdate" Unary;
    MemberList: "etcdserverpb.Cluster" "MemberList" Unary;
    MemberPromote: "etcdserverpb.Cluster" "MemberPromote" Unary;
    Alarm: "etcdserverpb.Maintenance" "Alarm" Unary;
    Status: "etcdserverpb.Maintenance" "Status" Unary;
    Defragment: "etcdserverpb.Maintenance" "Defragment" Unary;
    Hash: "etcdserverpb.Maintenance" "Hash" Unary;
    HashKv: "etcdserverpb.Maintenance" "HashKV" Unary;
    Snapshot: "etcdserverpb.Maintenance" "Snapshot" ServerStream;
    MoveLeader: "etcdserverpb.Maintenance" "MoveLeader" Unary;
    Downgrade: "etcdserverpb.Maintenance" "Downgrade" Unary;
    AuthEnable: "etcdserverpb.Auth" "AuthEnable" Unary;
    AuthDisable: "etcdserverpb.Auth" "AuthDisable" Unary;
    AuthStatus: "etcdserverpb.Auth" "AuthStatus" Unary;
    Authenticate: "etcdserverpb.Auth" "Authenticate" Unary;
    UserAdd: "etcdserverpb.Auth" "UserAdd" Unary;
    UserGet: "etcdserverpb.Auth" "UserGet" Unary;
    UserList: "etcdserverpb.Auth" "UserList" Unary;
    UserDelete: "etcdserverpb.Auth" "UserDelete" Unary;
    UserChangePassword: "etcdserverpb.Auth" "UserChangePassword" Unary;
    UserGrantRole: "etcdserverpb.Auth" "UserGrantRole" Unary;
    UserRevokeRole: "etcdserverpb.Auth" "UserRevokeRole" Unary;
    RoleAdd: "etcdserverpb.Auth" "RoleAdd" Unary;
    RoleGet: "etcdserverpb.Auth" "RoleGet" Unary;
    RoleList: "etcdserverpb.Auth" "RoleList" Unary;
    RoleDelete: "etcdserverpb.Auth" "RoleDelete" Unary;
    RoleGrantPermission: "etcdserverpb.Auth" "RoleGrantPermission" Unary;
    RoleRevokePermission: "etcdserverpb.Auth" "RoleRevokePermission" Unary;
    HealthCheck: "grpc.health.v1.Health" "Check" Unary;
    HealthList: "grpc.health.v1.Health" "List" Unary;
    HealthWatch: "grpc.health.v1.Health" "Watch" ServerStream;
    Lock: "v3lockpb.Lock" "Lock" Unary;
    Unlock: "v3lockpb.Lock" "Unlock" Unary;
    Campaign: "v3electionpb.Election" "Campaign" Unary;
    Proclaim: "v3electionpb.Election" "Proclaim" Unary;
    Leader: "v3electionpb.Election" "Leader" Unary;
    Observe: "v3electionpb.Election" "Observe" ServerStream;
    Resign: "v3electionpb.Election" "Resign" Unary;
    FollowChange: "inkstonepb.Follow" "Change" Unary;
    FollowSource: "inkstonepb.Follow" "Source" Unary;
    SnapshotCompressed: "inkstonepb.Snapshots" "Compressed" ServerStream;
    ViewChildren: "inkstonepb.View" "Children" Unary;
    ViewOverview: "inkstonepb.View" "Overview" Unary;
}

impl Method {
    /// Whether it changes nothing, whatever the request. A call that is not listed counts as one
    /// that may.
    pub(crate) const fn only_reads(self) -> bool {
        matches!(
            self,
            Method::Range
                | Method::RangeStream
                | Method::Watch
                | Method::LeaseTimeToLive
                | Method::LeaseLeases
                | Method::MemberList
                | Method::Status
                | Method::Hash
                | Method::HashKv
                | Method::Snapshot
                | Method::SnapshotCompressed
                | Method::AuthStatus
                | Method::UserGet
                | Method::UserList
                | Method::RoleGet
                | Method::RoleList
                | Method::HealthCheck
                | Method::HealthList
                | Method::HealthWatch
                | Method::Leader
                | Method::Observe
                | Method::FollowSource
                | Method::ViewChildren
                | Method::ViewOverview
        )
    }

    /// Whether its counters are shown before its first call. As in etcd, those of services
    /// that etcd registers after it initializes its counters are not; nor those that etcd does not have.
    pub(crate) fn is_shown_before_its_first_call(self) -> bool {
        let (service, _, _) = self.about();
        !service.starts_with("v3") && !service.starts_with("inkstonepb")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_methods_as_etcd_counts_from_the_start() {
        let shown = |method: &&Method| method.is_shown_before_its_first_call();
        assert_eq!(Method::ALL.iter().filter(shown).count(), 45);
    }

    #[test]
    fn a_path_names_its_method() {
        for method in Method::ALL {
            let (service, name, _) = method.about();
            assert_eq!(
                Method::of_path(&format!("/{service}/{name}")),
                Some(*method)
            );
        }
        for path in [
            "",
            "/",
            "Put",
            "/etcdserverpb.KV",
            "/etcdserverpb.KV/",
            "/v3lockpb.Lock/x",
        ] {
            assert_eq!(Method::of_path(path), None, "{path}");
        }
    }

    #[test]
    fn a_method_s_number_is_its_place() {
        for (place, method) in Method::ALL.iter().enumerate() {
            assert_eq!(*method as usize, place);
        }
    }
}
