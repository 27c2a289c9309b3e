//! Calls by the version that clients say they speak.

use std::sync::OnceLock;

use super::Counter;
use crate::methods::Shape;

/// Most versions that are counted separately. A client can send any text: calls with
/// further versions, or with texts too long to be versions, are counted as `other`.
const VERSIONS_MAX: usize = 16;
const VERSION_BYTES_MAX: usize = 32;

/// Counters by version and shape, in a short list that is searched from the front.
#[derive(Debug, Default)]
pub(crate) struct ClientVersions {
    known: [OnceLock<ByShape>; VERSIONS_MAX],
    other: ByShape,
}

#[derive(Debug, Default)]
struct ByShape {
    version: String,
    unary: Counter,
    stream: Counter,
}

impl ClientVersions {
    /// Counts a call.
    pub(crate) fn count(&self, shape: Shape, version: &str) {
        let counters = self.of(version);
        match shape {
            Shape::Unary => counters.unary.add(1),
            Shape::ServerStream | Shape::BidiStream => counters.stream.add(1),
        }
    }

    fn of(&self, version: &str) -> &ByShape {
        if version.len() > VERSION_BYTES_MAX {
            return &self.other;
        }
        let fresh = || ByShape {
            version: version.to_owned(),
            ..ByShape::default()
        };
        self.known
            .iter()
            .map(|slot| slot.get_or_init(fresh))
            .find(|counters| counters.version == version)
            .unwrap_or(&self.other)
    }

    /// Every version with its counts of unary calls and streams.
    pub(super) fn each(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let known = self.known.iter().filter_map(OnceLock::get);
        let known = known.map(|by| (by.version.as_str(), by.unary.get(), by.stream.get()));
        known.chain([("other", self.other.unary.get(), self.other.stream.get())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_counted_separately_up_to_a_limit() {
        let versions = ClientVersions::default();
        versions.count(Shape::Unary, "3.7");
        versions.count(Shape::BidiStream, "3.7");
        versions.count(Shape::Unary, &"x".repeat(100));
        for number in 0..VERSIONS_MAX {
            versions.count(Shape::Unary, &number.to_string());
        }
        let each: Vec<_> = versions.each().collect();
        assert_eq!(each[0], ("3.7", 1, 1));
        assert_eq!(each.last(), Some(&("other", 2, 0)));
    }
}
