//! A prefix as a folder: its keys, and what is below the next separator as one child.
//!
//! ```text
//!   prefix  /app/          keys   /app/a   /app/b/1   /app/b/2  …  /app/b/9   /app/c
//!                                    │         └──── one jump ───────────┘       │
//!   children                      /app/a             /app/b/ (9 keys)          /app/c
//! ```
//!
//! The walk goes from child to child: the first key of a child says its name, and the next child
//! begins behind the last key that can be below it. So the time depends on the children of the answer and
//! not on the keys of the prefix. Steps of the index are bounded for the whole answer: what does
//! not fit is estimated, and says so.

use bytes::Bytes;
use engine::{First, Survey, Surveyor, Version};
use etcd_api::inkstonepb::{Child, ChildrenRequest, ChildrenResponse};

use crate::Error;
use crate::header::header;
use crate::view::View;

const LIMIT_DEFAULT: usize = 200;
const LIMIT_MAX: usize = 1000;
/// Bytes of names after which an answer ends; the last name may exceed it.
const NAMES_BYTES_MAX: usize = 256 << 10;
/// Entries of the index that one answer looks at, at most, to find its children and their sizes: some
/// 5 ms of a core at the newest revision, and some 70 ms at a past one.
const STEPS: u64 = 1 << 20;
const SEPARATOR: &[u8] = b"/";

/// The smallest key that is greater than every key with a prefix; `None` if there is none.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The keys that a request for children asks about, with an exclusive end; `None`: it has no end.
pub struct ChildrenRange {
    pub start: Bytes,
    pub end: Option<Bytes>,
}

impl ChildrenRange {
    /// The part of the prefix that the request's range leaves.
    pub fn of(request: &ChildrenRequest) -> ChildrenRange {
        let range_end = Some(&request.range_end);
        let range_end = range_end.filter(|end| !matches!(end[..], [] | [0]));
        ChildrenRange {
            start: request.prefix.clone().max(request.key.clone()),
            end: earlier(prefix_end(&request.prefix).map(Bytes::from), range_end),
        }
    }

    /// Whether no key can be in it.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// The keys below a prefix that are in this range as well.
    fn below(&self, prefix: &Bytes) -> ChildrenRange {
        ChildrenRange {
            start: self.start.clone().max(prefix.clone()),
            end: earlier(prefix_end(prefix).map(Bytes::from), self.end.as_ref()),
        }
    }

    fn bounds(&self) -> (&[u8], Option<&[u8]>) {
        (&self.start, self.end.as_deref())
    }
}

/// The earlier one of two ends.
fn earlier(one: Option<Bytes>, other: Option<&Bytes>) -> Option<Bytes> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other.clone())),
        (one, other) => one.or_else(|| other.cloned()),
    }
}

/// Answers a request for children.
pub(crate) fn children(
    view: View<'_>,
    request: &ChildrenRequest,
) -> Result<ChildrenResponse, Error> {
    let at = view.resolve(request.revision)?;
    let mut folder = Folder {
        view,
        request,
        at,
        range: ChildrenRange::of(request),
        surveyor: view.engine.surveyor(view.snapshot, at),
        steps: STEPS,
    };
    let (found, next) = folder.find();
    let children = folder.measure(found);
    let (total_count, total_at_least) = folder.total(&children, next.is_empty());
    Ok(ChildrenResponse {
        header: header(view.revision),
        revision: at,
        children,
        next,
        total_count,
        total_at_least,
    })
}

/// A child before its keys are counted. It holds its name alone: the keys below it may be a
/// thousand times as long.
struct Branch {
    name: Bytes,
    /// The entry of the key, if the child is one.
    key: Option<KeyFigures>,
}

struct KeyFigures {
    log_bytes: u64,
    modified: i64,
}

/// The prefix that is listed, and the steps that are left for it.
struct Folder<'a> {
    view: View<'a>,
    request: &'a ChildrenRequest,
    at: i64,
    range: ChildrenRange,
    surveyor: Surveyor<'a>,
    steps: u64,
}

impl Folder<'_> {
    /// The children from where the request begins, and where the next answer begins; empty: nowhere.
    fn find(&mut self) -> (Vec<Branch>, Bytes) {
        // The other half is for the sizes.
        let mut steps = self.steps / 2;
        self.steps -= steps;
        let found = self.find_within(&mut steps);
        self.steps += steps;
        found
    }

    fn find_within(&self, steps: &mut u64) -> (Vec<Branch>, Bytes) {
        let limit = match usize::try_from(self.request.limit) {
            Ok(0) | Err(_) => LIMIT_DEFAULT,
            Ok(limit) => limit.min(LIMIT_MAX),
        };
        let mut from = self.range.start.clone().max(self.request.from.clone());
        let (mut found, mut names_bytes) = (Vec::new(), 0);
        loop {
            let end = self.range.end.as_deref();
            let is_within = end.is_none_or(|end| &from[..] < end);
            let first = match is_within {
                true => self.view.snapshot.first(&from, end, self.at, steps),
                false => First::Empty,
            };
            let version = match first {
                First::Found(version) => version,
                First::Empty => return (found, Bytes::new()),
                First::Stopped(next) => return (found, next),
            };
            if found.len() == limit || names_bytes >= NAMES_BYTES_MAX {
                return (found, version.key);
            }
            let branch = self.branch(&version);
            names_bytes += branch.name.len();
            let next = branch.behind();
            found.push(branch);
            match next {
                Some(next) => from = next,
                None => return (found, Bytes::new()),
            }
        }
    }

    /// The child that a key belongs to.
    fn branch(&self, first: &Version) -> Branch {
        let separator = match self.request.separator.as_bytes() {
            [] => SEPARATOR,
            separator => separator,
        };
        let prefix_bytes = self.request.prefix.len();
        let rest = &first.key[prefix_bytes..];
        let mut places = rest.windows(separator.len());
        let place = places.position(|window| window == separator);
        let name_bytes = place.map(|place| prefix_bytes + place + separator.len());
        let name = &first.key[..name_bytes.unwrap_or(first.key.len())];
        let key = name_bytes.is_none().then(|| KeyFigures {
            log_bytes: first.log_bytes(),
            modified: first.main,
        });
        Branch {
            name: Bytes::copy_from_slice(name),
            key,
        }
    }

    /// The number of keys of the whole range, and whether there may be more.
    fn total(&mut self, children: &[Child], is_last: bool) -> (i64, bool) {
        if self.range.is_empty() {
            return (0, false);
        }
        let range = self.range.bounds();
        if let Some(keys) = self.surveyor.count(range) {
            return (int(keys), false);
        }
        if is_last && self.request.from.is_empty() {
            let count = |child: &Child| if child.is_prefix { child.count } else { 1 };
            let is_lower_bound = children.iter().any(|child| child.count_at_least);
            return (children.iter().map(count).sum(), is_lower_bound);
        }
        let survey = self.surveyor.survey(range, &mut self.steps);
        (int(survey.keys), survey.is_lower_bound)
    }

    /// Counts the keys and bytes of each child. Each may use an equal part of the steps that are
    /// left, and leaves what it does not need to those behind it, and to the total.
    fn measure(&mut self, found: Vec<Branch>) -> Vec<Child> {
        let prefixes = found.iter().filter(|branch| branch.key.is_none());
        let mut branches_left = prefixes.count() as u64;
        let mut children = Vec::with_capacity(found.len());
        for branch in found {
            if let Some(figures) = &branch.key {
                children.push(figures.child(branch.name));
                continue;
            }
            let share = self.steps / branches_left;
            branches_left -= 1;
            let mut steps = share;
            let range = self.range.below(&branch.name);
            let survey = self.surveyor.survey(range.bounds(), &mut steps);
            self.steps -= share - steps;
            children.push(branch.prefix(&survey));
        }
        children
    }
}

impl Branch {
    /// The smallest key that is behind the child; `None` if there is none.
    fn behind(&self) -> Option<Bytes> {
        match self.key.is_some() {
            true => Some([&self.name[..], &[0]].concat().into()),
            false => prefix_end(&self.name).map(Bytes::from),
        }
    }

    fn prefix(self, survey: &Survey) -> Child {
        Child {
            name: self.name,
            is_prefix: true,
            count: int(survey.keys),
            count_at_least: survey.is_lower_bound,
            bytes: int(survey.log_bytes),
            bytes_estimated: survey.is_estimate,
            mod_revision: 0,
        }
    }
}

impl KeyFigures {
    fn child(&self, name: Bytes) -> Child {
        Child {
            name,
            bytes: int(self.log_bytes),
            mod_revision: self.modified,
            ..Child::default()
        }
    }
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_byte_and_a_prefix_of_the_last_byte_never() {
        assert_eq!(prefix_end(b"/a/"), Some(b"/a0".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
