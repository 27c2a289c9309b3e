//! The state: users, roles, whether calls are checked at all, and the revision.
//!
//! ```text
//!   user ──holds──► role ──has──► permission: read, write or both, on a key or a range
//! ```
//!
//! The intervals of all of a user's roles are merged when the user is looked up for the first
//! time after a change, so that a check is one search in a sorted list.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use etcd_api::Error as Refusal;
use etcd_api::authpb::Permission;

use crate::identity::{Identity, Proof};
use crate::interval::{Interval, Intervals, Span};
use crate::permission_tree::PermissionTree;
use crate::token::Secret;

/// Name of the user and of the role that may do everything.
pub const ROOT: &str = "root";

/// Values of a permission's type (`authpb.Permission.Type`).
const READ: i32 = 0;
const WRITE: i32 = 1;
pub const READ_AND_WRITE: i32 = 2;

/// Kind of access to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// A user. Printing it does not show the hash.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct User {
    /// bcrypt's text; empty if there is none to compare with.
    pub hash: Vec<u8>,
    /// Whether the user was added without a password, and proves its name by a certificate.
    pub no_password: bool,
    /// Names of its roles, ascending.
    pub roles: Vec<String>,
    /// Revision at which the user got its password. No other user and no other password has it.
    pub generation: u64,
}

/// A role: its permissions, in the order of their first keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    pub permissions: Vec<Permission>,
}

/// A user with the intervals that its roles permit.
#[derive(Debug)]
struct Account {
    user: User,
    reach: OnceLock<Reach>,
    /// For reading and for writing; for ranges that end before they begin.
    trees: [OnceLock<PermissionTree>; 2],
}

/// The keys that a user may read and write.
#[derive(Debug)]
struct Reach {
    read: Intervals,
    write: Intervals,
}

/// Users and roles. Cheap to clone: users and roles are shared.
#[derive(Clone, Debug)]
pub struct Auth {
    /// Key of the tokens while calls are checked; `None` while they are not.
    secret: Option<Arc<Secret>>,
    revision: u64,
    accounts: BTreeMap<String, Arc<Account>>,
    /// Name of the user with each generation.
    generations: BTreeMap<u64, String>,
    roles: BTreeMap<String, Arc<Role>>,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth {
            secret: None,
            revision: Auth::FIRST_REVISION,
            accounts: BTreeMap::new(),
            generations: BTreeMap::new(),
            roles: BTreeMap::new(),
        }
    }
}

impl PartialEq for Auth {
    fn eq(&self, other: &Auth) -> bool {
        self.secret == other.secret
            && self.revision == other.revision
            && self.roles == other.roles
            && self.users().eq(other.users())
    }
}

impl Eq for Auth {}

impl Auth {
    /// Revision of a state that was never changed.
    pub const FIRST_REVISION: u64 = 1;

    /// Whether calls are checked.
    pub fn is_enabled(&self) -> bool {
        self.secret.is_some()
    }

    /// The key of tokens, while calls are checked and it is picked.
    pub fn secret(&self) -> Option<&Arc<Secret>> {
        self.secret.as_ref().filter(|secret| !secret.is_missing())
    }

    /// The key of tokens as the state has it: it may be missing.
    pub fn stored_secret(&self) -> Option<&Arc<Secret>> {
        self.secret.as_ref()
    }

    /// Whether calls are checked, and the key of tokens is still to be picked by
    /// [`crate::AuthRequest::Enable`].
    pub fn lacks_secret(&self) -> bool {
        self.secret
            .as_ref()
            .is_some_and(|secret| secret.is_missing())
    }

    /// Number of changes, beginning with 1.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether nothing was ever changed, so that nothing has to be stored.
    pub fn is_untouched(&self) -> bool {
        *self == Auth::default()
    }

    /// Returns the user of this name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.accounts.get(name).map(|account| &account.user)
    }

    /// Returns the name of the user with this generation.
    pub fn user_of_generation(&self, generation: u64) -> Option<&str> {
        self.generations.get(&generation).map(String::as_str)
    }

    /// Iterates over all users, ascending by name.
    pub fn users(&self) -> impl ExactSizeIterator<Item = (&str, &User)> {
        let accounts = self.accounts.iter();
        accounts.map(|(name, account)| (name.as_str(), &account.user))
    }

    /// Returns the role of this name.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name).map(Arc::as_ref)
    }

    /// Iterates over all roles, ascending by name.
    pub fn roles(&self) -> impl ExactSizeIterator<Item = (&str, &Role)> {
        self.roles
            .iter()
            .map(|(name, role)| (name.as_str(), &**role))
    }

    /// Refuses a caller without an identity, and one with a proof that does not count any more.
    pub fn require(&self, caller: Option<&Identity>) -> Result<(), Refusal> {
        if !self.is_enabled() {
            return Ok(());
        }
        self.check_generation(caller.ok_or(Refusal::UserEmpty)?)
    }

    /// Refuses a caller that does not hold the role `root`.
    pub fn check_admin(&self, caller: Option<&Identity>) -> Result<(), Refusal> {
        if !self.is_enabled() {
            return Ok(());
        }
        let caller = caller.filter(|caller| !caller.user.is_empty());
        let caller = caller.ok_or(Refusal::UserEmpty)?;
        self.check_generation(caller)?;
        let user = self.user(&caller.user).ok_or(Refusal::UserNotFound)?;
        match user.holds(ROOT) {
            true => Ok(()),
            false => Err(Refusal::PermissionDenied),
        }
    }

    /// Refuses access to a key (an empty `range_end`) or to a range (`"\0"`: open to the end).
    pub fn check(
        &self,
        caller: Option<&Identity>,
        access: Access,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<(), Refusal> {
        if !self.is_enabled() {
            return Ok(());
        }
        let caller = caller.ok_or(Refusal::UserEmpty)?;
        self.check_revision(caller)?;
        self.check_generation(caller)?;
        let account = self.accounts.get(&caller.user);
        let account = account.ok_or(Refusal::PermissionDenied)?;
        let span = Span::of_request(key, range_end);
        if account.user.holds(ROOT) || self.permits(account, access, span) {
            return Ok(());
        }
        Err(Refusal::PermissionDenied)
    }

    fn permits(&self, account: &Account, access: Access, span: Span<'_>) -> bool {
        match span {
            Span::Range(key, Some(end)) if end < key => {
                self.tree(account, access).permits_reversed(key, end)
            }
            span => self.reach(account).of_access(access).contains(span),
        }
    }

    /// Refuses a caller that is neither an administrator nor this user itself.
    pub fn check_user_get(&self, caller: Option<&Identity>, name: &str) -> Result<(), Refusal> {
        let refused = self.check_admin(caller);
        match caller.map_or("", |caller| &caller.user) == name {
            true => Ok(()),
            false => refused,
        }
    }

    /// Refuses a caller that is neither an administrator nor a holder of the role.
    pub fn check_role_get(&self, caller: Option<&Identity>, role: &str) -> Result<(), Refusal> {
        let refused = self.check_admin(caller);
        let user = caller.and_then(|caller| self.user(&caller.user));
        match user.is_some_and(|user| user.holds(role)) {
            true => Ok(()),
            false => refused,
        }
    }

    /// The revision of a signed token must be the newest.
    fn check_revision(&self, caller: &Identity) -> Result<(), Refusal> {
        match caller.proof {
            Proof::Revision(0) => Err(Refusal::UserEmpty),
            Proof::Revision(revision) if revision < self.revision => Err(Refusal::AuthOldRevision),
            _ => Ok(()),
        }
    }

    /// The user must still have the password with which its token was made.
    fn check_generation(&self, caller: &Identity) -> Result<(), Refusal> {
        match caller.proof {
            Proof::Generation(generation)
                if self.user_of_generation(generation) != Some(caller.user.as_str()) =>
            {
                Err(Refusal::AuthOldRevision)
            }
            _ => Ok(()),
        }
    }

    fn reach<'a>(&self, account: &'a Account) -> &'a Reach {
        account.reach.get_or_init(|| Reach {
            read: Intervals::merged(self.intervals(account, Access::Read).collect()),
            write: Intervals::merged(self.intervals(account, Access::Write).collect()),
        })
    }

    fn tree<'a>(&self, account: &'a Account, access: Access) -> &'a PermissionTree {
        let tree = &account.trees[access as usize];
        tree.get_or_init(|| PermissionTree::of(self.intervals(account, access)))
    }

    /// Returns the ranges that the user's roles permit, role after role.
    fn intervals(&self, account: &Account, access: Access) -> impl Iterator<Item = Interval> {
        let roles = account.user.roles.iter();
        let roles = roles.filter_map(|name| self.role(name));
        let permissions = roles.flat_map(|role| &role.permissions);
        // A type that etcd does not know permits nothing.
        let permits = move |it: &&Permission| match access {
            Access::Read => matches!(it.perm_type, READ | READ_AND_WRITE),
            Access::Write => matches!(it.perm_type, WRITE | READ_AND_WRITE),
        };
        let permissions = permissions.filter(permits);
        permissions.map(|it| Interval::of_permission(&it.key, &it.range_end))
    }

    // What follows carries out changes.

    pub(crate) fn set_secret(&mut self, secret: Option<Secret>) {
        self.secret = secret.map(Arc::new);
    }

    pub(crate) fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
    }

    pub(crate) fn put_user(&mut self, name: String, user: User) {
        self.remove_user(&name);
        self.generations.insert(user.generation, name.clone());
        self.accounts.insert(name, Account::new(user));
    }

    pub(crate) fn remove_user(&mut self, name: &str) {
        if let Some(account) = self.accounts.remove(name) {
            self.generations.remove(&account.user.generation);
        }
    }

    pub(crate) fn put_role(&mut self, name: String, role: Role) {
        self.update_holders(&name, |_| {});
        self.roles.insert(name, Arc::new(role));
    }

    pub(crate) fn remove_role(&mut self, name: &str) {
        self.update_holders(name, |user| user.roles.retain(|role| role != name));
        self.roles.remove(name);
    }

    /// Changes all users that hold a role, and forgets their merged intervals.
    fn update_holders(&mut self, role: &str, change: impl Fn(&mut User)) {
        let accounts = self.accounts.values_mut();
        for account in accounts.filter(|account| account.user.holds(role)) {
            let mut user = account.user.clone();
            change(&mut user);
            *account = Account::new(user);
        }
    }
}

impl fmt::Debug for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("User")
            .field("roles", &self.roles)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl User {
    /// Whether the user holds this role.
    pub fn holds(&self, role: &str) -> bool {
        let place = self.roles.binary_search_by(|held| held.as_str().cmp(role));
        place.is_ok()
    }
}

impl Role {
    /// Adds a permission, or changes what the one for the same keys allows.
    pub(crate) fn put(&mut self, permission: Permission) {
        match self.of_keys(&permission.key, &permission.range_end) {
            Some(place) => self.permissions[place].perm_type = permission.perm_type,
            None => {
                let before = |it: &Permission| it.key <= permission.key;
                let place = self.permissions.partition_point(before);
                self.permissions.insert(place, permission);
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8], range_end: &[u8]) {
        if let Some(place) = self.of_keys(key, range_end) {
            self.permissions.remove(place);
        }
    }

    /// The place of the permission for exactly these keys.
    pub(crate) fn of_keys(&self, key: &[u8], range_end: &[u8]) -> Option<usize> {
        let same = |it: &Permission| it.key == key && it.range_end == range_end;
        self.permissions.iter().position(same)
    }
}

impl Account {
    fn new(user: User) -> Arc<Account> {
        Arc::new(Account {
            user,
            reach: OnceLock::new(),
            trees: Default::default(),
        })
    }
}

impl Reach {
    fn of_access(&self, access: Access) -> &Intervals {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }
}
