//! Evaluation of each kind of command, on the state after all earlier ones (`evaluate.rs` has
//! the part that changes keys).
//!
//! A compaction is checked here and counts for all commands that are evaluated later, although
//! the history is removed only after the batch is applied: the engine decides which versions
//! survive and removes the others step by step (`Applier::compact`); a client that asks for a
//! physical compaction waits until they are removed (`Machine::swept`).

use std::sync::Arc;

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{
    AlarmRequest, AlarmResponse, AlarmType, CompactionRequest, CompactionResponse,
    LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    MemberAddRequest, MemberAddResponse, MemberPromoteRequest, MemberPromoteResponse,
    MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse,
};

use crate::alarm::Alarm;
use crate::evaluate::Evaluation;
use crate::machine::Machine;
use crate::member::MemberChange;
use crate::membership::{MemberPublishRequest, MemberPublishResponse, check_add};
use crate::quota::cost;
use crate::state::StateRecord;
use crate::users::{self, Trust};
use crate::{Command, Error, Response, downgrade, follow, identity, peer_urls};

/// The longest time to live that etcd allows, about 285 years.
pub(crate) const TTL_MAX_SECONDS: i64 = 9_000_000_000;

impl Machine {
    /// Evaluates one command on the state after all earlier ones. On `Ok` its effects, if any,
    /// are in the open batch. On `Err` there are none, except the NOSPACE alarm that a write over
    /// the quota raises.
    ///
    /// Must be called only while this machine leads, and never while the open batch is a change
    /// of the configuration ([`Machine::open_is_membership`]). A command that changes the
    /// configuration ([`Command::changes_configuration`]) needs an empty open batch, and no other
    /// such change may be pending ([`Machine::configuration_is_pending`]).
    pub fn evaluate(&mut self, command: &Command) -> Result<Response, Error> {
        self.evaluate_trusting(command, Trust::Caller)
    }

    /// [`Machine::evaluate`] for a command that this member itself asks for: users are not
    /// checked.
    pub fn evaluate_own(&mut self, command: &Command) -> Result<Response, Error> {
        self.evaluate_trusting(command, Trust::Member)
    }

    fn evaluate_trusting(&mut self, command: &Command, trust: Trust) -> Result<Response, Error> {
        assert!(self.leading, "only the leader decides: {command:?}");
        assert!(
            !self.open_is_membership(),
            "a change of the configuration stays alone in its batch: seal first"
        );
        assert!(
            self.open_is_empty() || !command.changes_configuration(),
            "a change of the configuration has a batch of its own: seal first"
        );
        assert!(
            !(command.changes_configuration() && self.configuration_is_pending()),
            "one change of the configuration at a time: apply the one before first"
        );
        self.check_alarms(command)?;
        // After the alarms, as in etcd, and before the quota: a refused caller raises no alarm.
        users::check_permitted(self, command, trust)?;
        follow::check_may_change(self, command, trust)?;
        self.check_quota(command)?;
        let mut response = self.carry_out(command.plain())?;
        // Answers about members have a header without a revision.
        let header = response.header_mut();
        if !command.is_about_members() {
            header.revision = self.decided.revision;
        }
        Ok(response)
    }

    fn carry_out(&mut self, command: &Command) -> Result<Response, Error> {
        match command {
            Command::Put(request) => self.attempt(|it| it.put(request)).map(Response::Put),
            Command::DeleteRange(request) => self
                .attempt(|it| it.delete_range(request))
                .map(Response::DeleteRange),
            Command::Txn(request) => self.attempt(|it| it.txn(request)).map(Response::Txn),
            Command::Compact(request) => self.compact(request),
            Command::LeaseGrant(request) => self.grant(request),
            Command::LeaseRevoke(request) => self.revoke(request),
            Command::Alarm(request) => Ok(self.alarm(request)),
            Command::MemberAdd(request) => self.member_add(request),
            Command::MemberRemove(request) => self.member_remove(request),
            Command::MemberUpdate(request) => self.member_update(request),
            Command::MemberPromote(request) => self.member_promote(request),
            Command::MemberPublish(request) => self.member_publish(request),
            Command::Auth(command) => users::change(self, command),
            Command::Downgrade(request) => downgrade::change(self, request),
            Command::Follow(change) => follow::change(self, change),
            Command::As(_) => unreachable!("a plain command has no actor"),
        }
    }

    /// Runs `work`, which changes keys. All of its changes enter the open batch, or none if it
    /// fails.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Evaluation<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (base, compacted) = (self.decided.revision, self.decided.compacted);
        let mut evaluation = Evaluation::begin(&self.shared, &mut self.overlay, base, compacted);
        let outcome = work(&mut evaluation);
        let (outcome, changes) = evaluation.end(outcome)?;
        self.decided.revision += i64::from(!changes.is_empty());
        self.open.extend(changes);
        Ok(outcome)
    }

    /// Refuses a command that costs space when the quota is used up, and raises the NOSPACE alarm
    /// the first time.
    pub(crate) fn check_quota(&mut self, command: &Command) -> Result<(), Error> {
        let cost_bytes = cost(command);
        if cost_bytes == 0 {
            return Ok(());
        }
        if self.fits_quota(cost_bytes) {
            return Ok(());
        }
        self.raise_no_space();
        Err(Refusal::NoSpace.into())
    }

    /// Returns whether the command fits this member's own quota, even if another member evaluates
    /// it.
    pub fn has_room_for(&self, command: &Command) -> bool {
        let cost_bytes = cost(command);
        cost_bytes == 0 || self.fits_quota(cost_bytes)
    }

    /// Returns whether this member's store exceeds its quota and no member has raised the alarm.
    pub fn is_over_quota(&self) -> bool {
        !self.fits_quota(0) && !self.alarm_is_raised(AlarmType::Nospace)
    }

    fn fits_quota(&self, cost_bytes: u64) -> bool {
        let Some(quota_bytes) = self.shared.options.quota_bytes else {
            return true;
        };
        let used_bytes = self.shared.used_bytes() + self.unapplied_bytes();
        used_bytes.saturating_add(cost_bytes) < quota_bytes
    }

    /// Returns whether an alarm of this type is raised by any member, in the applied state of
    /// this one.
    pub fn alarm_is_raised(&self, kind: AlarmType) -> bool {
        self.shared.applied().alarms.raised(kind)
    }

    fn alarm(&mut self, request: &AlarmRequest) -> Response {
        let alarm = Alarm::of(request);
        let known = self.decided.alarms.0.contains(&alarm);
        let alarms = match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) => self.decided.alarms.members(request.alarm),
            Ok(AlarmAction::Activate) if alarm.kind != AlarmType::None as i32 => {
                self.change_alarm(alarm, true);
                vec![alarm.to_member()]
            }
            Ok(AlarmAction::Deactivate) if known => {
                self.change_alarm(alarm, false);
                vec![alarm.to_member()]
            }
            _ => Vec::new(),
        };
        Response::Alarm(AlarmResponse {
            header: None,
            alarms,
        })
    }

    fn change_alarm(&mut self, alarm: Alarm, raised: bool) {
        if self.decided.alarms.change(alarm, raised) {
            self.open.push_state(&StateRecord::Alarm { alarm, raised });
        }
    }

    /// Raises this member's NOSPACE alarm.
    fn raise_no_space(&mut self) {
        let alarm = Alarm {
            kind: AlarmType::Nospace as i32,
            member_id: self.shared.options.member_id,
        };
        self.change_alarm(alarm, true);
    }

    /// Refuses what a raised alarm forbids.
    fn check_alarms(&self, command: &Command) -> Result<(), Error> {
        let passes = matches!(
            command.plain(),
            Command::Alarm(_) | Command::Auth(_) | Command::Downgrade(_)
        ) || command.is_about_members();
        if !passes && self.decided.alarms.raised(AlarmType::Corrupt) {
            return Err(Refusal::Corrupt.into());
        }
        if cost(command) > 0 && self.decided.alarms.raised(AlarmType::Nospace) {
            return Err(Refusal::NoSpace.into());
        }
        Ok(())
    }

    fn compact(&mut self, request: &CompactionRequest) -> Result<Response, Error> {
        if request.revision <= self.decided.compacted {
            return Err(Refusal::Compacted.into());
        }
        if request.revision > self.decided.revision {
            return Err(Refusal::FutureRevision.into());
        }
        self.decided.compacted = request.revision;
        self.open.push_state(&StateRecord::Compacted {
            revision: request.revision,
            physical: request.physical,
        });
        Ok(Response::Compact(CompactionResponse::default()))
    }

    fn grant(&mut self, request: &LeaseGrantRequest) -> Result<Response, Error> {
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
        Ok(Response::LeaseGrant(LeaseGrantResponse {
            id,
            ttl: ttl_seconds,
            ..Default::default()
        }))
    }

    /// Deletes the lease's keys in key order, all in one revision, then the
    /// lease.
    fn revoke(&mut self, request: &LeaseRevokeRequest) -> Result<Response, Error> {
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
        Ok(Response::LeaseRevoke(LeaseRevokeResponse::default()))
    }

    fn lease_exists(&self, id: i64) -> bool {
        self.shared.lease_exists(&self.overlay, id)
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

    fn member_add(&mut self, request: &MemberAddRequest) -> Result<Response, Error> {
        let mut peer_urls = peer_urls::parse(&request.peer_ur_ls)?;
        peer_urls.sort_unstable();
        let texts: Vec<&str> = peer_urls.iter().map(String::as_str).collect();
        let id = identity::added_member_id(&texts, self.clock.unix_time().as_secs());
        let is_learner = request.is_learner;
        let members = &self.decided.members;
        check_add(members, id, &peer_urls)?;
        if is_learner && members.learners().count() >= self.shared.options.learners_max {
            return Err(Refusal::TooManyLearners.into());
        }
        self.change_members(MemberChange::Added {
            id,
            is_learner,
            peer_urls,
        });
        let members = &self.decided.members;
        let member = members.get(id).expect("it was added a moment ago");
        Ok(Response::MemberAdd(MemberAddResponse {
            header: None,
            member: Some(member.to_message()),
            members: members.to_messages(),
        }))
    }

    fn member_remove(&mut self, request: &MemberRemoveRequest) -> Result<Response, Error> {
        let id = request.id;
        let members = &self.decided.members;
        let member = members.get(id).ok_or(Refusal::MemberNotFound)?;
        // Without a voter the cluster could never commit anything again.
        if !member.is_learner && members.voters().count() == 1 {
            return Err(Refusal::MemberNotEnoughStarted.into());
        }
        self.change_members(MemberChange::Removed { id });
        let members = self.decided.members.to_messages();
        Ok(Response::MemberRemove(MemberRemoveResponse {
            header: None,
            members,
        }))
    }

    fn member_update(&mut self, request: &MemberUpdateRequest) -> Result<Response, Error> {
        let id = request.id;
        let peer_urls = peer_urls::parse(&request.peer_ur_ls)?;
        let members = &self.decided.members;
        members.get(id).ok_or(Refusal::MemberNotFound)?;
        if members.has_peer_url(&peer_urls, Some(id)) {
            return Err(Refusal::PeerUrlExist.into());
        }
        self.change_members(MemberChange::Updated { id, peer_urls });
        let members = self.decided.members.to_messages();
        Ok(Response::MemberUpdate(MemberUpdateResponse {
            header: None,
            members,
        }))
    }

    fn member_promote(&mut self, request: &MemberPromoteRequest) -> Result<Response, Error> {
        let id = request.id;
        let member = self.decided.members.get(id);
        if !member.ok_or(Refusal::MemberNotFound)?.is_learner {
            return Err(Refusal::MemberNotLearner.into());
        }
        self.change_members(MemberChange::Promoted { id });
        let members = self.decided.members.to_messages();
        Ok(Response::MemberPromote(MemberPromoteResponse {
            header: None,
            members,
        }))
    }

    /// Writes no change if the name and the URLs are known already.
    fn member_publish(&mut self, request: &MemberPublishRequest) -> Result<Response, Error> {
        let member = self.decided.members.get(request.id);
        let member = member.ok_or(Refusal::MemberNotFound)?;
        if (&member.name, &member.client_urls) != (&request.name, &request.client_urls) {
            self.change_members(MemberChange::Published {
                id: request.id,
                name: request.name.clone(),
                client_urls: request.client_urls.clone(),
            });
        }
        Ok(Response::MemberPublish(MemberPublishResponse::default()))
    }

    fn change_members(&mut self, change: MemberChange) {
        self.open.push_member_change(&change);
        let changed = Arc::make_mut(&mut self.decided.members).change(change);
        assert_eq!(changed, Ok(()), "the change was checked");
    }
}
