//! Which log the segments of a directory are of.
//!
//! All segments of a log show one salt; one that was copied here from another
//! log shows another. Where they differ, most segments are taken to be of this log.

use crate::format::Salt;

/// The log that most segments of a directory are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    salt: Salt,
    /// Segments of that log.
    at_home: usize,
    /// All segments.
    segments: usize,
}

impl Home {
    /// Judges by the salts of all segments: those of the log by id, then the
    /// sorted ones by id. Of two salts equally frequent the first one counts.
    /// `None` without any segment.
    pub fn of(salts: &[Salt]) -> Option<Home> {
        let of_salt = |salt| salts.iter().filter(|&&other| other == salt).count();
        let mut candidates = salts.to_vec();
        candidates.dedup();
        // The last of equals is the first of the reversed.
        let salt = candidates
            .into_iter()
            .rev()
            .max_by_key(|&salt| of_salt(salt))?;
        Some(Home {
            salt,
            at_home: of_salt(salt),
            segments: salts.len(),
        })
    }

    /// Why a segment with that salt is refused; `None` if it is of this log.
    pub fn complaint(&self, salt: Salt) -> Option<String> {
        let Home {
            at_home, segments, ..
        } = self;
        (salt != self.salt).then(|| {
            format!("it was written by another log than {at_home} of {segments} segments here")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(salts: &[u64]) -> Salt {
        let salts: Vec<Salt> = salts.iter().map(|&salt| Salt(salt)).collect();
        Home::of(&salts).expect("there are segments").salt
    }

    #[test]
    fn most_segments_are_at_home_wherever_the_odd_one_stands() {
        assert_eq!(home(&[7, 7, 9]), Salt(7));
        assert_eq!(home(&[9, 7, 7]), Salt(7));
        assert_eq!(home(&[7, 9, 7]), Salt(7));
    }

    #[test]
    fn of_equally_many_the_first_is_at_home() {
        assert_eq!(home(&[9, 7]), Salt(9));
        assert_eq!(home(&[7, 7, 9, 9]), Salt(7));
    }

    #[test]
    fn only_those_of_another_log_are_complained_about() {
        let home = Home::of(&[Salt(7), Salt(9), Salt(7)]).expect("there are segments");
        assert_eq!(home.complaint(Salt(7)), None);
        let complaint = home.complaint(Salt(9)).expect("another log");
        assert!(complaint.contains("2 of 3"), "{complaint}");
    }
}
