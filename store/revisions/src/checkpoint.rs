//! The checkpoint's state (docs/formats/state.md): everything that is
//! remembered besides keys, as one blob.
//!
//! The checkpoint keeps the outcome of all records before it, so that a
//! restart need not read old values to know which keys hang on a lease.

use bytes::{BufMut, Bytes, BytesMut};

use crate::Error;
use crate::apply::AppliedState;
use crate::auth_record;
use crate::fields::{Fields, put_alarm, put_count, put_source, put_text, put_texts};
use crate::member::{Member, Members};

/// Stands for the checkpoint's state in errors.
const CHECKPOINT: u8 = 0;
const FORMAT: u32 = 2;
/// The format with users and roles behind the leases. It is written only when there is something
/// of theirs, so that an earlier release reads a directory in which they were never used.
const FORMAT_WITH_USERS: u32 = 3;
/// The format with a downgrade behind the users, while one is enabled.
const FORMAT_WITH_DOWNGRADE: u32 = 4;
/// The format with the followed cluster at the end, while one is followed. Its downgrade may be empty.
const FORMAT_WITH_SOURCE: u32 = 5;

/// How the state of an embedded map begins (docs/formats/ordered-map.md).
const OF_A_MAP: &[u8] = b"ordered-map ";

/// Everything that is remembered besides keys, for a checkpoint.
pub(crate) fn encode(applied: &AppliedState, revision: i64) -> Vec<u8> {
    let mut blob = BytesMut::new();
    let has_users = !applied.auth.is_untouched() || !applied.renewals.is_empty();
    let format = match (&applied.source, &applied.downgrade, has_users) {
        (Some(_), _, _) => FORMAT_WITH_SOURCE,
        (None, Some(_), _) => FORMAT_WITH_DOWNGRADE,
        (None, None, true) => FORMAT_WITH_USERS,
        (None, None, false) => FORMAT,
    };
    blob.put_u32_le(format);
    blob.put_i64_le(revision);
    blob.put_i64_le(applied.compacted);
    put_count(&mut blob, applied.alarms.0.len());
    applied
        .alarms
        .0
        .iter()
        .for_each(|&alarm| put_alarm(&mut blob, alarm));
    put_members(&mut blob, &applied.members);
    put_leases(&mut blob, applied);
    if format >= FORMAT_WITH_USERS {
        auth_record::put_state(&mut blob, &applied.auth, &applied.renewals);
    }
    if format >= FORMAT_WITH_DOWNGRADE {
        put_text(&mut blob, applied.downgrade.as_deref().unwrap_or_default());
    }
    if let Some(source) = &applied.source {
        put_source(&mut blob, source);
    }
    blob.into()
}

/// Takes over what [`encode`] wrote.
pub(crate) fn decode(blob: &[u8], applied: &mut AppliedState) -> Result<(), Error> {
    let mut fields = Fields::of(CHECKPOINT, blob);
    if blob.starts_with(OF_A_MAP) {
        return Err(fields.unfit("it belongs to an embedded map of crate ordered-map"));
    }
    let format = fields.u32()?;
    if !(FORMAT..=FORMAT_WITH_SOURCE).contains(&format) {
        return Err(fields.unfit("unknown format"));
    }
    let _revision = fields.i64()?;
    applied.compacted = fields.i64()?;
    for _ in 0..fields.u32()? {
        applied.alarms.change(fields.alarm()?, true);
    }
    applied.members = members(&mut fields)?.into();
    leases(&mut fields, applied)?;
    if format >= FORMAT_WITH_USERS {
        let (auth, renewals) = auth_record::state(&mut fields)?;
        (applied.auth, applied.renewals) = (auth.into(), renewals);
    }
    if format >= FORMAT_WITH_DOWNGRADE {
        let target = Some(fields.text()?).filter(|target| !target.is_empty());
        applied.downgrade = target;
    }
    if format == FORMAT_WITH_DOWNGRADE && applied.downgrade.is_none() {
        return Err(fields.unfit("a downgrade without a target"));
    }
    if format == FORMAT_WITH_SOURCE {
        applied.source = Some(fields.source()?);
    }
    fields.end()
}

fn put_members(blob: &mut BytesMut, members: &Members) {
    put_count(blob, members.len());
    for member in members.iter() {
        blob.put_u64_le(member.id);
        blob.put_u8(u8::from(member.is_learner));
        put_text(blob, &member.name);
        put_texts(blob, &member.peer_urls);
        put_texts(blob, &member.client_urls);
    }
    put_count(blob, members.removed().len());
    members.removed().for_each(|id| blob.put_u64_le(id));
}

fn members(fields: &mut Fields<'_>) -> Result<Members, Error> {
    let mut members = Members::default();
    for _ in 0..fields.u32()? {
        let member = Member {
            id: fields.u64()?,
            is_learner: fields.bool()?,
            name: fields.text()?,
            peer_urls: fields.texts()?,
            client_urls: fields.texts()?,
        };
        members.enter(member).map_err(|what| fields.unfit(what))?;
    }
    for _ in 0..fields.u32()? {
        let removed = members.enter_removed(fields.u64()?);
        removed.map_err(|what| fields.unfit(what))?;
    }
    Ok(members)
}

fn put_leases(blob: &mut BytesMut, applied: &AppliedState) {
    let leases: Vec<_> = applied.lessor.all().collect();
    put_count(blob, leases.len());
    for (id, ttl_seconds, keys) in leases {
        blob.put_i64_le(id);
        blob.put_i64_le(ttl_seconds);
        put_count(blob, keys.len());
        for key in keys {
            put_count(blob, key.len());
            blob.put_slice(key);
        }
    }
}

fn leases(fields: &mut Fields<'_>, applied: &mut AppliedState) -> Result<(), Error> {
    for _ in 0..fields.u32()? {
        let (id, ttl_seconds) = (fields.i64()?, fields.i64()?);
        if id == 0 || applied.lessor.contains(id) {
            return Err(fields.unfit("a lease without an id of its own"));
        }
        applied.lessor.grant(id, ttl_seconds);
        for _ in 0..fields.u32()? {
            let length = fields.u32()? as usize;
            let key = Bytes::copy_from_slice(fields.bytes(length)?);
            if key.is_empty() {
                return Err(fields.unfit("an empty key"));
            }
            applied.lessor.attach(key, id);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use environment::randomness::Random;
    use environment::simulated::SimulatedClock;

    use super::*;
    use crate::alarm::Alarm;
    use crate::member::MemberChange;
    use crate::source::SourceCluster;

    fn empty() -> AppliedState {
        AppliedState::new(Arc::new(SimulatedClock::stepped()))
    }

    fn filled() -> AppliedState {
        let mut applied = empty();
        applied.compacted = 7;
        let alarm = Alarm {
            kind: 1,
            member_id: 9,
        };
        applied.alarms.0.insert(alarm);
        applied.lessor.grant(5, 60);
        applied.lessor.attach("a".into(), 5);
        let members = Arc::make_mut(&mut applied.members);
        for (id, is_learner) in [(3, false), (4, true)] {
            let peer_urls = vec![format!("http://h{id}:1"), "http://ä:2".into()];
            let added = MemberChange::Added {
                id,
                is_learner,
                peer_urls,
            };
            members.change(added).unwrap();
        }
        members.enter_removed(8).unwrap();
        applied
    }

    fn filled_with_users() -> AppliedState {
        let mut applied = filled();
        applied.auth = Arc::new(auth_record::tests::users());
        applied.renewals.renew(7, 1_000, 900);
        applied.renewals.renew(8, 1_001, 900);
        applied
    }

    #[test]
    fn users_come_back_and_make_the_newer_format() {
        let (before, mut after) = (filled_with_users(), empty());
        let blob = encode(&before, 9);
        assert_eq!(blob[0], 3);
        decode(&blob, &mut after).unwrap();
        assert_eq!(after.auth, before.auth);
        assert_eq!(after.renewals, before.renewals);
        assert_eq!(encode(&after, 9), blob);
        for length in 0..blob.len() {
            assert!(decode(&blob[..length], &mut empty()).is_err(), "{length}");
        }
        assert!(decode(&[&blob[..], b"x"].concat(), &mut empty()).is_err());
    }

    #[test]
    fn a_downgrade_comes_back_with_and_without_users() {
        for mut before in [filled(), filled_with_users()] {
            before.downgrade = Some("3.6.0".to_owned());
            let mut after = empty();
            let blob = encode(&before, 9);
            assert_eq!(blob[0], 4);
            decode(&blob, &mut after).unwrap();
            assert_eq!(after.downgrade, before.downgrade);
            assert_eq!(after.auth, before.auth);
            assert_eq!(encode(&after, 9), blob);
            for length in 0..blob.len() {
                assert!(decode(&blob[..length], &mut empty()).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn a_followed_cluster_comes_back_with_and_without_a_downgrade() {
        for downgrade in [None, Some("3.6.0".to_owned())] {
            let (mut before, mut after) = (filled_with_users(), empty());
            let name = "http://ä:2379".into();
            before.source = Some(SourceCluster {
                cluster_id: 7,
                name,
            });
            before.downgrade = downgrade;
            let blob = encode(&before, 9);
            assert_eq!(blob[0], 5);
            decode(&blob, &mut after).unwrap();
            assert_eq!(after.source, before.source);
            assert_eq!(after.downgrade, before.downgrade);
            assert_eq!(encode(&after, 9), blob);
            for length in 0..blob.len() {
                assert!(decode(&blob[..length], &mut empty()).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn everything_comes_back() {
        let (before, mut after) = (filled(), empty());
        let blob = encode(&before, 9);
        assert_eq!(blob[0], 2, "an earlier release reads it");
        decode(&blob, &mut after).unwrap();
        assert_eq!(after.members, before.members);
        assert_eq!(encode(&after, 9), blob);
    }

    #[test]
    fn other_formats_and_lengths_are_refused() {
        let blob = encode(&filled(), 9);
        for length in 0..blob.len() {
            assert!(decode(&blob[..length], &mut empty()).is_err(), "{length}");
        }
        assert!(decode(&[&blob[..], b"x"].concat(), &mut empty()).is_err());
        for format in [1, 6] {
            let mut other = blob.clone();
            other[0] = format;
            let refused = decode(&other, &mut empty()).unwrap_err().to_string();
            assert!(refused.contains("unknown format"), "{refused}");
        }
    }

    #[test]
    fn damage_never_panics() {
        let mut whole = filled_with_users();
        whole.downgrade = Some("3.6.0".to_owned());
        whole.source = Some(SourceCluster {
            cluster_id: 7,
            name: "n".into(),
        });
        let blob = encode(&whole, 9);
        let mut random = Random::from_seed(3);
        for _ in 0..20_000 {
            let mut damaged = blob.clone();
            for _ in 0..=random.below(3) {
                let place = random.below(damaged.len() as u64) as usize;
                damaged[place] = random.next_u64() as u8;
            }
            // Refused or not: what matters is that it returns.
            let _ = decode(&damaged, &mut empty());
        }
    }
}
