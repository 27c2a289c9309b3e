//! Random changes of a store.

use std::collections::BTreeSet;

use environment::randomness::Random;
use etcd_api::authpb::Permission;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::*;

use crate::store::Store;

/// Random changes, the same ones for a seed.
pub struct Changes {
    pub random: Random,
    pub leases: Vec<i64>,
    pub accounts: u64,
    /// Whether history is compacted now and then.
    pub compacts: bool,
}

impl Changes {
    pub fn of_seed(seed: u64) -> Changes {
        Changes {
            random: Random::from_seed(seed),
            leases: Vec::new(),
            accounts: 0,
            compacts: true,
        }
    }

    /// Makes this number of changes.
    pub async fn make(&mut self, store: &Store, count: u64) {
        for _ in 0..count {
            self.make_one(store).await;
        }
    }

    pub fn key(&mut self) -> String {
        format!("key/{}", self.random.below(60))
    }

    pub fn put(&mut self) -> PutRequest {
        let lease = match self.random.below(5) {
            0 if !self.leases.is_empty() => {
                self.leases[self.random.below(self.leases.len() as u64) as usize]
            }
            _ => 0,
        };
        let bytes = match self.random.below(40) {
            0 => self.random.below(200_000),
            _ => self.random.below(400),
        };
        PutRequest {
            key: self.key().into(),
            value: vec![b'v'; bytes as usize].into(),
            lease,
            ..PutRequest::default()
        }
    }

    pub fn deletion(&mut self) -> DeleteRangeRequest {
        let key = self.key();
        let range_end = match self.random.below(4) {
            0 => format!("{key}~"),
            _ => String::new(),
        };
        DeleteRangeRequest {
            key: key.into(),
            range_end: range_end.into(),
            prev_kv: false,
        }
    }

    /// Deletions first, then puts of other keys or of the same.
    pub fn transaction(&mut self) -> TxnRequest {
        let mut keys = BTreeSet::new();
        let mut success = Vec::new();
        for _ in 0..self.random.below(3) {
            let range = DeleteRangeRequest {
                range_end: "".into(),
                ..self.deletion()
            };
            if keys.insert(range.key.clone()) {
                success.push(Operation::RequestDeleteRange(range));
            }
        }
        for _ in 0..1 + self.random.below(4) {
            let put = self.put();
            if keys.insert(put.key.clone()) {
                success.push(Operation::RequestPut(put));
            }
        }
        let operation = |request| RequestOp {
            request: Some(request),
        };
        TxnRequest {
            success: success.into_iter().map(operation).collect(),
            ..TxnRequest::default()
        }
    }

    pub async fn make_one(&mut self, store: &Store) {
        match self.random.below(200) {
            0..10 => self.change_lease(store).await,
            10..16 => self.change_accounts(store).await,
            16 if self.compacts => {
                let revision = store.revision().await;
                let back = self.random.below(300) as i64;
                let request = CompactionRequest {
                    revision: revision - back,
                    physical: true,
                };
                // Refused if it is compacted already.
                let _ = store.kv().compact(request).await;
            }
            17..60 => {
                store.kv().delete_range(self.deletion()).await.unwrap();
            }
            60..100 => {
                store.kv().txn(self.transaction()).await.unwrap();
            }
            _ => {
                store.kv().put(self.put()).await.unwrap();
            }
        }
    }

    pub async fn change_lease(&mut self, store: &Store) {
        if self.leases.len() > 5 {
            let id = self.leases.remove(0);
            let revoke = LeaseRevokeRequest { id };
            store.leases().lease_revoke(revoke).await.unwrap();
            return;
        }
        let grant = LeaseGrantRequest {
            id: 0,
            ttl: 10_000 + self.random.below(100) as i64,
        };
        let granted = store.leases().lease_grant(grant).await.unwrap();
        self.leases.push(granted.into_inner().id);
    }

    pub async fn change_accounts(&mut self, store: &Store) {
        let number = self.accounts;
        self.accounts += 1;
        let (user, role) = (format!("user{number}"), format!("role{number}"));
        let add = AuthUserAddRequest {
            name: user.clone(),
            password: "secret".to_owned(),
            ..AuthUserAddRequest::default()
        };
        store.users().user_add(add).await.unwrap();
        let add = AuthRoleAddRequest { name: role.clone() };
        store.users().role_add(add).await.unwrap();
        let permission = Permission {
            perm_type: self.random.below(3) as i32,
            key: self.key().into(),
            range_end: "z".into(),
        };
        let grant = AuthRoleGrantPermissionRequest {
            name: role.clone(),
            perm: Some(permission),
        };
        store.users().role_grant_permission(grant).await.unwrap();
        let grant = AuthUserGrantRoleRequest { user, role };
        store.users().user_grant_role(grant).await.unwrap();
    }
}
