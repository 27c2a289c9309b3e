//! `inspect` for programs: one object per line; its field `type` names its kind.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use engine::inspect::{Checkpoint, CheckpointFile, Contents, Damage, contents};
use serde_json::{Value, json};
use value_log::inspect::{Frame, FrameRecord};

use super::text::{kind_name, name_of};
use super::{Report, value_bytes};
use crate::directory::DataDirectory;
use crate::survey::Survey;

/// Lines on an output.
pub(super) struct Json {
    output: Box<dyn Write>,
}

impl Json {
    pub(super) fn new(output: Box<dyn Write>) -> Json {
        Json { output }
    }

    fn line(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.output, "{value}")
    }
}

impl Report for Json {
    fn directory(&mut self, directory: &DataDirectory) -> io::Result<()> {
        self.line(&json!({
            "type": "directory",
            "path": directory.path.to_string_lossy(),
            "in_use_by": directory.holder,
            "spares": directory.files.spares.len(),
        }))
    }

    fn group(&mut self, frame: &Frame, shown: &[FrameRecord]) -> io::Result<()> {
        self.line(&json!({
            "type": name_of(frame.kind),
            "offset": frame.start,
            "bytes": frame.end - frame.start,
            "sequence": frame.link.sequence,
            "epoch": frame.link.epoch,
            "term": frame.tag.term,
            "index": frame.tag.index,
            "first_revision": frame.tag.first,
            "last_revision": frame.tag.last,
            "records": frame.records.len(),
        }))?;
        let mut shown = shown.iter().map(record_json);
        shown.try_for_each(|record| self.line(&record))
    }

    fn segment(&mut self, survey: &Survey) -> io::Result<()> {
        let (first, last) = survey.revisions.unzip();
        self.line(&json!({
            "type": "segment",
            "id": survey.file.id,
            "file": survey.file.path.file_name().map(|name| name.to_string_lossy()),
            "kind": kind_name(survey.file.kind),
            "epoch": survey.header.as_ref().ok().map(|header| header.epoch),
            "file_bytes": survey.file_bytes,
            "used_bytes": survey.used_bytes,
            "groups": survey.groups,
            "records": survey.records,
            "first_revision": first,
            "last_revision": last,
            "state": survey.state(),
        }))
    }

    fn checkpoint(
        &mut self,
        file: &CheckpointFile,
        found: &Result<Checkpoint, Damage>,
    ) -> io::Result<()> {
        self.line(&match found {
            Ok(checkpoint) => checkpoint_json(file, checkpoint),
            Err(damage) => json!({
                "type": "checkpoint",
                "number": file.number,
                "damaged_at": damage.offset,
                "damage": damage.what,
            }),
        })
    }

    fn end(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn checkpoint_json(file: &CheckpointFile, checkpoint: &Checkpoint) -> Value {
    json!({
        "type": "checkpoint",
        "number": file.number,
        "file_bytes": checkpoint.file_bytes,
        "revision": checkpoint.revision,
        "compacted": checkpoint.compacted,
        "applied_term": checkpoint.applied_term,
        "applied_index": checkpoint.applied_index,
        "keys": checkpoint.keys,
        "old_versions": checkpoint.superseded,
        "state_bytes": checkpoint.state_bytes,
        "replay_segment": checkpoint.replay_position.segment(),
        "replay_offset": checkpoint.replay_position.offset(),
    })
}

fn record_json(record: &FrameRecord) -> Value {
    let mut object = json!({
        "type": "record",
        "offset": record.position.offset(),
        "bytes": record.record_bytes,
    });
    match contents(record.kind, &record.payload) {
        Contents::Key(stored) => {
            object["change"] = if stored.tombstone { "delete" } else { "put" }.into();
            object["revision"] =
                json!({ "main": stored.revision.main, "sub": stored.revision.sub });
            object["key"] = STANDARD.encode(&stored.key).into();
            object["value_bytes"] = value_bytes(stored.kv).into();
            object["create_revision"] = stored.created.into();
            object["version"] = stored.version.into();
            object["lease"] = stored.lease.into();
        }
        Contents::State {
            kind,
            payload_bytes,
        } => {
            object["change"] = "state".into();
            object["kind"] = kind.into();
            object["value_bytes"] = payload_bytes.into();
        }
        Contents::HardState(state) => {
            object["change"] = "hard state".into();
            object["term"] = state.term.into();
            object["vote"] = state.vote.into();
            object["commit"] = state.commit.into();
        }
        Contents::Unreadable(what) => object["unreadable"] = what.into(),
    }
    object
}
