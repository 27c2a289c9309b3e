//! Losses of power where acknowledged writes may be in page caches only.
//!
//! ```text
//!   few lose power     a majority of the voters still has every acknowledged write:
//!                      nothing is lost
//!   too many           writes that are on no device and at no running member may be lost:
//!                      the judge forgets these, and no others
//! ```

use crate::member::Member;
use crate::{Keeping, World};

impl World {
    /// A crash of a member: a loss of power where the run's [`Keeping`] permits it, otherwise
    /// a killed process or a blackout.
    pub(crate) fn crash(&mut self, at: usize) {
        match self.faults.keeping {
            Keeping::Flushed => self.members[at].crash(&mut self.random),
            _ if self.bears_another_lack(at) => self.members[at].crash(&mut self.random),
            Keeping::CachedByMost => self.members[at].kill(&mut self.random),
            Keeping::CachedByAny => self.black_out(&[at]),
        }
    }

    /// Injects killed processes and blackouts, which matter with page caches.
    pub(crate) fn strike_power(&mut self, at: usize) {
        let faults = self.faults;
        if self.random.chance(faults.kill_permille, 1000) && self.members[at].is_up() {
            self.members[at].kill(&mut self.random);
        }
        if self.random.chance(faults.blackout_permille, 1000) {
            let all = self.random.chance(1, 2);
            let random = &mut self.random;
            let struck: Vec<usize> = (0..self.members.len())
                .filter(|_| all || random.chance(2, 3))
                .collect();
            self.black_out(&struck);
        }
    }

    /// Whether the members that may lack acknowledged entries, this one included, are fewer
    /// than half of the voters.
    fn bears_another_lack(&self, at: usize) -> bool {
        let readers = self.members.iter().filter_map(Member::reader);
        let Some(newest) = readers.max_by_key(|reader| reader.engine().applied_index()) else {
            return false;
        };
        let voters = newest.members().voters().count();
        let lacking = |(place, member): &(usize, &Member)| *place != at && member.lacks;
        let lacking = self.members.iter().enumerate().filter(lacking).count();
        2 * (lacking + 1) < voters
    }

    /// Cuts the power of these members and of all that are about to lose it. The judge
    /// forgets the revisions that may be lost.
    fn black_out(&mut self, struck: &[usize]) {
        for (at, member) in self.members.iter_mut().enumerate() {
            let falls = struck.contains(&at) || member.power_fails;
            if falls && member.is_up() {
                member.black_out();
            }
        }
        let kept = self.members.iter().map(|member| match member.reader() {
            Some(reader) => reader.revision(),
            None => member.flushed_revision,
        });
        let kept = kept.max().unwrap_or(0);
        self.judge.forget_after(kept, self.faults.drift_permille);
        for client in &mut self.clients {
            client.give_up(self.now, &mut self.judge);
        }
        self.counts.blackouts += 1;
    }
}
