//! State records: what the log holds besides keys.
//!
//! Layout (docs/formats/state.md), little-endian throughout; a text is its
//! length u32 and UTF-8, URLs are their count u32 and texts:
//!
//! ```text
//!  1  lease granted   id i64, ttl_s i64       6  member added      id u64, learner u8, peer URLs
//!  2  lease revoked   id i64                  7  member removed    id u64
//!  3  compacted       revision i64            8  member promoted   id u64
//!  4  alarm raised    type i32, member u64    9  member updated    id u64, peer URLs
//!  5  alarm cleared   type i32, member u64   10  member published  id u64, name, client URLs
//! 11  compacted physically   revision i64
//! 12 to 20  users, roles and tokens: auth_record.rs
//! 21  downgrade enabled, or cancelled if the target is empty   target text
//! 22  users and roles replaced: auth_record.rs
//! 23  follows another cluster   cluster id u64, name text   24  follows none
//! ```
//!
//! Which keys hang on a lease is not recorded: every key version names its
//! lease, so replaying the versions attaches and detaches.

use auth::AuthChange;
use bytes::{BufMut, BytesMut};
use engine::{Batch, Change};

use crate::Error;
use crate::alarm::Alarm;
use crate::auth_record;
use crate::fields::{Fields, put_alarm, put_source, put_text, put_texts};
use crate::member::MemberChange;
use crate::source::SourceCluster;

const GRANTED: u8 = 1;
const REVOKED: u8 = 2;
const COMPACTED: u8 = 3;
const ALARM_RAISED: u8 = 4;
const ALARM_CLEARED: u8 = 5;
const MEMBER_ADDED: u8 = 6;
const MEMBER_REMOVED: u8 = 7;
const MEMBER_PROMOTED: u8 = 8;
const MEMBER_UPDATED: u8 = 9;
const MEMBER_PUBLISHED: u8 = 10;
const COMPACTED_PHYSICALLY: u8 = 11;
const DOWNGRADE: u8 = 21;
const FOLLOWS: u8 = 23;
const FOLLOWS_NONE: u8 = 24;

/// An effect that is not a key version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateRecord {
    /// A lease exists.
    Granted {
        /// Never 0.
        id: i64,
        /// Time to live in seconds, already lengthened to the minimum.
        ttl_seconds: i64,
    },
    /// A lease is gone; its keys were deleted before, in the same batch.
    Revoked {
        /// Id of the lease.
        id: i64,
    },
    /// History below a revision may go.
    Compacted {
        /// The compacted revision.
        revision: i64,
        /// The client waits until the history is removed; every member keeps the hash of this
        /// revision from before.
        physical: bool,
    },
    /// An alarm was raised or cleared.
    Alarm { alarm: Alarm, raised: bool },
    /// Something about the members.
    Member(MemberChange),
    /// Something about users and roles.
    Auth(AuthChange),
    /// A token lives longer than it says.
    TokenRenewed {
        number: u64,
        /// When it ends now, in seconds since 1970.
        until: u64,
        /// The time of the renewal.
        now: u64,
    },
    /// A downgrade was enabled, or cancelled.
    Downgrade {
        /// The version that it goes to; never empty.
        target: Option<String>,
    },
    /// The store begins to follow another cluster, or ends it.
    Follows { source: Option<SourceCluster> },
}

impl StateRecord {
    /// As the engine keeps it.
    pub fn encode(&self) -> Change {
        let mut payload = BytesMut::with_capacity(16);
        let kind = match self {
            StateRecord::Granted { id, ttl_seconds } => {
                payload.put_i64_le(*id);
                payload.put_i64_le(*ttl_seconds);
                GRANTED
            }
            StateRecord::Revoked { id } => {
                payload.put_i64_le(*id);
                REVOKED
            }
            StateRecord::Compacted { revision, physical } => {
                payload.put_i64_le(*revision);
                if *physical {
                    COMPACTED_PHYSICALLY
                } else {
                    COMPACTED
                }
            }
            StateRecord::Alarm { alarm, raised } => {
                put_alarm(&mut payload, *alarm);
                if *raised { ALARM_RAISED } else { ALARM_CLEARED }
            }
            StateRecord::Member(change) => put_member_change(&mut payload, change),
            StateRecord::Auth(change) => auth_record::put_change(&mut payload, change),
            StateRecord::TokenRenewed { number, until, now } => {
                for field in [number, until, now] {
                    payload.put_u64_le(*field);
                }
                auth_record::TOKEN_RENEWED
            }
            StateRecord::Downgrade { target } => {
                put_text(&mut payload, target.as_deref().unwrap_or_default());
                DOWNGRADE
            }
            StateRecord::Follows { source: None } => FOLLOWS_NONE,
            StateRecord::Follows {
                source: Some(source),
            } => {
                put_source(&mut payload, source);
                FOLLOWS
            }
        };
        Change::State {
            kind,
            payload: payload.freeze(),
        }
    }

    /// Reads a record back.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<StateRecord, Error> {
        let mut fields = Fields::of(kind, payload);
        let record = match kind {
            GRANTED => StateRecord::Granted {
                id: fields.i64()?,
                ttl_seconds: fields.i64()?,
            },
            REVOKED => StateRecord::Revoked { id: fields.i64()? },
            COMPACTED | COMPACTED_PHYSICALLY => StateRecord::Compacted {
                revision: fields.i64()?,
                physical: kind == COMPACTED_PHYSICALLY,
            },
            ALARM_RAISED | ALARM_CLEARED => StateRecord::Alarm {
                alarm: fields.alarm()?,
                raised: kind == ALARM_RAISED,
            },
            auth_record::TOKEN_RENEWED => StateRecord::TokenRenewed {
                number: fields.u64()?,
                until: fields.u64()?,
                now: fields.u64()?,
            },
            DOWNGRADE => StateRecord::Downgrade {
                target: Some(fields.text()?).filter(|target| !target.is_empty()),
            },
            FOLLOWS => StateRecord::Follows {
                source: Some(fields.source()?),
            },
            FOLLOWS_NONE => StateRecord::Follows { source: None },
            auth_record::FIRST.. => StateRecord::Auth(auth_record::change(kind, &mut fields)?),
            _ => StateRecord::Member(member_change(kind, &mut fields)?),
        };
        fields.end()?;
        Ok(record)
    }
}

/// Returns the kind.
fn put_member_change(payload: &mut BytesMut, change: &MemberChange) -> u8 {
    payload.put_u64_le(change.id());
    match change {
        MemberChange::Added {
            is_learner,
            peer_urls,
            ..
        } => {
            payload.put_u8(u8::from(*is_learner));
            put_texts(payload, peer_urls);
            MEMBER_ADDED
        }
        MemberChange::Removed { .. } => MEMBER_REMOVED,
        MemberChange::Promoted { .. } => MEMBER_PROMOTED,
        MemberChange::Updated { peer_urls, .. } => {
            put_texts(payload, peer_urls);
            MEMBER_UPDATED
        }
        MemberChange::Published {
            name, client_urls, ..
        } => {
            put_text(payload, name);
            put_texts(payload, client_urls);
            MEMBER_PUBLISHED
        }
    }
}

fn member_change(kind: u8, fields: &mut Fields<'_>) -> Result<MemberChange, Error> {
    if !(MEMBER_ADDED..=MEMBER_PUBLISHED).contains(&kind) {
        return Err(fields.unfit("unknown kind"));
    }
    let id = fields.u64()?;
    Ok(match kind {
        MEMBER_ADDED => MemberChange::Added {
            id,
            is_learner: fields.bool()?,
            peer_urls: fields.texts()?,
        },
        MEMBER_REMOVED => MemberChange::Removed { id },
        MEMBER_PROMOTED => MemberChange::Promoted { id },
        MEMBER_UPDATED => MemberChange::Updated {
            id,
            peer_urls: fields.texts()?,
        },
        _ => MemberChange::Published {
            id,
            name: fields.text()?,
            client_urls: fields.texts()?,
        },
    })
}

/// Whether this release understands every state record of a batch: to be asked
/// before a batch of another member is taken over, because what is in the log
/// must be applied.
pub fn check_records(batch: &Batch) -> Result<(), Error> {
    for change in &batch.changes {
        if let Change::State { kind, payload } = change {
            let record = StateRecord::decode(*kind, payload)?;
            let alone = batch.changes.len() == 1;
            if !alone
                && matches!(record, StateRecord::Member(change) if change.changes_configuration())
            {
                let reason = "a change of the configuration that is not alone in its entry";
                return Err(Error::State {
                    kind: *kind,
                    reason,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::Alarm;
    use environment::randomness::Random;

    fn records() -> Vec<StateRecord> {
        let urls = || {
            vec![
                "http://a:1".to_owned(),
                String::new(),
                "http://ä:2".to_owned(),
            ]
        };
        let alarm = Alarm {
            kind: -1,
            member_id: u64::MAX,
        };
        let raised = [true, false].map(|raised| StateRecord::Alarm { alarm, raised });
        let changes = [
            MemberChange::Added {
                id: 1,
                is_learner: true,
                peer_urls: urls(),
            },
            MemberChange::Removed { id: u64::MAX },
            MemberChange::Promoted { id: 2 },
            MemberChange::Updated {
                id: 3,
                peer_urls: Vec::new(),
            },
            MemberChange::Published {
                id: 4,
                name: "näme".into(),
                client_urls: urls(),
            },
        ];
        let mut records = vec![
            StateRecord::Granted {
                id: -5,
                ttl_seconds: 60,
            },
            StateRecord::Revoked { id: 5 },
            StateRecord::Compacted {
                revision: 9,
                physical: false,
            },
        ];
        records.extend(raised);
        records.extend(changes.map(StateRecord::Member));
        records.push(StateRecord::Compacted {
            revision: 9,
            physical: true,
        });
        records.extend(auth_record::tests::changes().map(StateRecord::Auth));
        records.push(StateRecord::TokenRenewed {
            number: u64::MAX,
            until: 2,
            now: 1,
        });
        let target = Some("3.6.0".to_owned());
        records.push(StateRecord::Downgrade { target });
        let auth = Box::new(auth_record::tests::users());
        records.push(StateRecord::Auth(AuthChange::Replaced { auth }));
        let source = SourceCluster {
            cluster_id: u64::MAX,
            name: "http://ä:2379".into(),
        };
        for source in [Some(source), None] {
            records.push(StateRecord::Follows { source });
        }
        records
    }

    fn parts(record: &StateRecord) -> (u8, Vec<u8>) {
        match record.encode() {
            Change::State { kind, payload } => (kind, payload.to_vec()),
            Change::Key(_) => unreachable!("state records are no keys"),
        }
    }

    #[test]
    fn every_kind_comes_back_and_no_other_length_does() {
        for (number, record) in records().iter().enumerate() {
            let (kind, payload) = parts(record);
            assert_eq!(usize::from(kind), number + 1);
            assert_eq!(&StateRecord::decode(kind, &payload).unwrap(), record);
            for length in 0..payload.len() {
                assert!(StateRecord::decode(kind, &payload[..length]).is_err());
            }
            let longer = [&payload[..], b"x"].concat();
            assert!(StateRecord::decode(kind, &longer).is_err());
        }
    }

    #[test]
    fn unknown_kinds_and_odd_contents_are_refused() {
        for kind in [0, 25, 255] {
            let refused = StateRecord::decode(kind, &[0; 16]).unwrap_err();
            assert!(refused.to_string().contains("unknown kind"), "{refused}");
        }
        let (kind, mut payload) = parts(&records()[5]);
        payload[8] = 2;
        assert!(StateRecord::decode(kind, &payload).is_err(), "a bool of 2");
        payload[8] = 1;
        payload[17] = 0xff;
        assert!(StateRecord::decode(kind, &payload).is_err(), "no UTF-8");
    }

    #[test]
    fn random_bytes_are_refused_or_read_but_never_more() {
        let mut random = Random::from_seed(1);
        for _ in 0..20_000 {
            let mut payload = vec![0; random.below(64) as usize];
            random.fill(&mut payload);
            // Small counts and lengths get further.
            payload
                .iter_mut()
                .for_each(|byte| *byte &= random.next_u64() as u8 & 3);
            let kind = random.below(26) as u8;
            if let Ok(record) = StateRecord::decode(kind, &payload) {
                assert_eq!(parts(&record), (kind, payload));
            }
        }
    }

    #[test]
    fn a_configuration_change_stands_alone() {
        let batch = |records: &[StateRecord]| Batch {
            changes: records.iter().map(StateRecord::encode).collect(),
            ..Batch::default()
        };
        let records = records();
        check_records(&batch(&records[..5])).unwrap();
        check_records(&batch(&records[5..6])).unwrap();
        check_records(&batch(&records[8..])).unwrap();
        assert!(check_records(&batch(&records[4..6])).is_err());
    }
}
