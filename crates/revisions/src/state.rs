//! State records and the checkpoint's state: what the log holds besides keys.
//!
//! Layout (docs/formats/state.md), little-endian throughout:
//!
//! ```text
//!  record, by kind                         checkpoint state
//!  1  lease granted  id i64, ttl_s i64     format u32 = 1
//!  2  lease revoked  id i64                revision i64, compacted i64
//!  3  compacted      revision i64          alarms u32, then each: type i32, member u64
//!  4  alarm raised   type i32, member u64  leases u32, then each:
//!  5  alarm cleared  type i32, member u64    id i64, ttl_s i64,
//!                                            keys u32, then each: length u32, bytes
//! ```
//!
//! Which keys hang on a lease is not recorded: every key version names its
//! lease, so replaying the versions attaches and detaches. The checkpoint
//! keeps the outcome, so that a restart need not read old values.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use engine::Change;

use crate::Error;
use crate::alarm::{Alarm, AlarmChange};
use crate::apply::Applied;

const GRANTED: u8 = 1;
const REVOKED: u8 = 2;
const COMPACTED: u8 = 3;
const ALARM_RAISED: u8 = 4;
const ALARM_CLEARED: u8 = 5;
/// Stands for the checkpoint's state in errors.
const CHECKPOINT: u8 = 0;
const CHECKPOINT_FORMAT: u32 = 1;

/// An effect that is not a key version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        /// Whose.
        id: i64,
    },
    /// History below a revision may go.
    Compacted {
        /// Which.
        revision: i64,
    },
    /// An alarm was raised or cleared.
    Alarm(AlarmChange),
}

impl StateRecord {
    /// As the engine keeps it.
    pub fn encode(&self) -> Change {
        let mut payload = BytesMut::with_capacity(16);
        let kind = match *self {
            StateRecord::Granted { id, ttl_seconds } => {
                payload.put_i64_le(id);
                payload.put_i64_le(ttl_seconds);
                GRANTED
            }
            StateRecord::Revoked { id } => {
                payload.put_i64_le(id);
                REVOKED
            }
            StateRecord::Compacted { revision } => {
                payload.put_i64_le(revision);
                COMPACTED
            }
            StateRecord::Alarm(AlarmChange { alarm, raised }) => {
                put_alarm(&mut payload, alarm);
                if raised { ALARM_RAISED } else { ALARM_CLEARED }
            }
        };
        Change::State {
            kind,
            payload: payload.freeze(),
        }
    }

    /// Reads a record back.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<StateRecord, Error> {
        let mut fields = Fields {
            kind,
            rest: payload,
        };
        let record = match kind {
            GRANTED => StateRecord::Granted {
                id: fields.i64()?,
                ttl_seconds: fields.i64()?,
            },
            REVOKED => StateRecord::Revoked { id: fields.i64()? },
            COMPACTED => StateRecord::Compacted {
                revision: fields.i64()?,
            },
            ALARM_RAISED | ALARM_CLEARED => StateRecord::Alarm(AlarmChange {
                alarm: fields.alarm()?,
                raised: kind == ALARM_RAISED,
            }),
            _ => {
                return Err(Error::State {
                    kind,
                    reason: "unknown kind",
                });
            }
        };
        fields.end()?;
        Ok(record)
    }
}

/// Everything that is remembered besides keys, for a checkpoint.
pub(crate) fn encode_checkpoint(applied: &Applied, revision: i64) -> Vec<u8> {
    let mut blob = BytesMut::new();
    blob.put_u32_le(CHECKPOINT_FORMAT);
    blob.put_i64_le(revision);
    blob.put_i64_le(applied.compacted);
    blob.put_u32_le(count(applied.alarms.0.len()));
    applied
        .alarms
        .0
        .iter()
        .for_each(|&alarm| put_alarm(&mut blob, alarm));
    let leases: Vec<_> = applied.lessor.all().collect();
    blob.put_u32_le(count(leases.len()));
    for (id, ttl_seconds, keys) in leases {
        blob.put_i64_le(id);
        blob.put_i64_le(ttl_seconds);
        blob.put_u32_le(count(keys.len()));
        for key in keys {
            blob.put_u32_le(count(key.len()));
            blob.put_slice(key);
        }
    }
    blob.into()
}

/// Takes over what [`encode_checkpoint`] wrote.
pub(crate) fn decode_checkpoint(blob: &[u8], applied: &mut Applied) -> Result<(), Error> {
    let mut fields = Fields {
        kind: CHECKPOINT,
        rest: blob,
    };
    if fields.u32()? != CHECKPOINT_FORMAT {
        return Err(fields.unfit("unknown format"));
    }
    let _revision = fields.i64()?;
    applied.compacted = fields.i64()?;
    for _ in 0..fields.u32()? {
        let alarm = fields.alarm()?;
        applied.alarms.change(AlarmChange {
            alarm,
            raised: true,
        });
    }
    for _ in 0..fields.u32()? {
        let (id, ttl_seconds) = (fields.i64()?, fields.i64()?);
        applied.lessor.grant(id, ttl_seconds);
        for _ in 0..fields.u32()? {
            let length = fields.u32()? as usize;
            applied
                .lessor
                .attach(Bytes::copy_from_slice(fields.bytes(length)?), id);
        }
    }
    fields.end()
}

fn put_alarm(target: &mut BytesMut, alarm: Alarm) {
    target.put_i32_le(alarm.kind);
    target.put_u64_le(alarm.member_id);
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a key has at most 4 GiB, and so many leases do not fit memory")
}

/// Reads field after field and never beyond the end.
struct Fields<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn unfit(&self, reason: &'static str) -> Error {
        Error::State {
            kind: self.kind,
            reason,
        }
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| self.unfit("too short"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn i64(&mut self) -> Result<i64, Error> {
        self.bytes(8).map(|mut bytes| bytes.get_i64_le())
    }

    fn u32(&mut self) -> Result<u32, Error> {
        self.bytes(4).map(|mut bytes| bytes.get_u32_le())
    }

    fn alarm(&mut self) -> Result<Alarm, Error> {
        let kind = self.bytes(4)?.get_i32_le();
        let member_id = self.bytes(8)?.get_u64_le();
        Ok(Alarm { kind, member_id })
    }

    fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.unfit("too long"))
        }
    }
}
