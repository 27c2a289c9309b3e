//! Continues the walk over a segment behind damage.
//!
//! ```text
//!   ├── sound ──┤ damaged ├── sound ──────┤ damaged ├── sound ──┤
//!    the survey             continued, if a group header behind the damage verifies
//! ```
//!
//! One damaged group must not hide the groups behind it: the report names further damage,
//! or shows that all the rest is sound.

use std::ops::Range;

use environment::real::RealDisk;
use value_log::inspect::{Frame, Why};

use super::finding::{Finding, Findings};
use crate::survey::Survey;

/// The parts of a segment that hold sound groups.
#[derive(Debug)]
pub(super) struct Walked {
    sound: Vec<Range<u64>>,
}

impl Walked {
    /// Continues where `survey` stopped at damage, and adds further groups to
    /// it. `visit` gets each group with what lies before it: damage or another group.
    pub(super) fn on_from(
        survey: &mut Survey,
        findings: &mut Findings,
        visit: &mut dyn FnMut(&Frame, Behind),
    ) -> Walked {
        let mut walked = Walked { sound: Vec::new() };
        walked.sound.push(0..survey.used_bytes);
        if !matches!(survey.stop.why, Why::Damaged(_)) {
            return walked;
        }
        // If the server has released the segment since, its damage does not matter.
        let Ok(bytes) = survey.file.read(&RealDisk) else {
            return walked;
        };
        let (mut end, mut link) = (survey.used_bytes, survey.link);
        while let Some(mut walk) = bytes.walk_behind(end, link) {
            let start = walk.end();
            let mut behind = Behind::Damage;
            for frame in &mut walk {
                visit(&frame, behind);
                behind = Behind::Group;
                survey.count(&frame);
            }
            (end, link) = (walk.end(), walk.link());
            walked.sound.push(start..end);
            let stop = walk.stop().expect("the walk has ended");
            let Why::Damaged(what) = &stop.why else {
                break;
            };
            findings.add(Finding::log(&survey.file.path, stop.offset, what.clone()));
        }
        walked
    }

    /// Whether the offset lies in a group that verifies.
    pub(super) fn is_sound_at(&self, offset: u64) -> bool {
        self.sound.iter().any(|part| part.contains(&offset))
    }
}

/// What lies before a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Group,
    Damage,
}
