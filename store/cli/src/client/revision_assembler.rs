//! Events of a watch, put together to whole revisions.

use etcd_api::etcdserverpb::WatchResponse;
use etcd_api::inkstonepb::GivenRevision;
use etcd_api::mvccpb::Event;

/// Bytes of an event besides its pair.
const EVENT_BYTES: usize = 16;

/// Collects the events of one watch, and yields the revisions that are complete.
///
/// All events of a revision come one behind the other, in the order of their sub-revisions. A response
/// ends with a whole revision, unless it says that it is a fragment.
#[derive(Debug, Default)]
pub(crate) struct RevisionAssembler {
    /// The revision that may lack events.
    open: Option<GivenRevision>,
    open_bytes: usize,
}

impl RevisionAssembler {
    /// Takes the events of a response; appends the revisions that are complete now, each with its bytes.
    pub(crate) fn take(
        &mut self,
        response: WatchResponse,
        complete: &mut impl Extend<(GivenRevision, usize)>,
    ) {
        let is_fragment = response.fragment;
        for event in response.events {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision());
            if self
                .open
                .as_ref()
                .is_some_and(|open| open.revision != revision)
            {
                self.close(complete);
            }
            let open = self.open.get_or_insert_with(|| GivenRevision {
                revision,
                events: Vec::new(),
            });
            self.open_bytes += EVENT_BYTES + event.kv.as_ref().map_or(0, |kv| kv.0.len());
            open.events.push(Event {
                prev_kv: None,
                ..event
            });
        }
        if !is_fragment {
            self.close(complete);
        }
    }

    /// The revision that may lack events, and its bytes so far.
    pub(crate) fn open(&self) -> Option<(i64, usize)> {
        let open = self.open.as_ref()?;
        Some((open.revision, self.open_bytes))
    }

    fn close(&mut self, complete: &mut impl Extend<(GivenRevision, usize)>) {
        if let Some(revision) = self.open.take() {
            complete.extend([(revision, std::mem::take(&mut self.open_bytes))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_api::Fields;

    fn response(revisions: &[i64], fragment: bool) -> WatchResponse {
        let event = |&mod_revision| Event {
            kv: Some(
                Fields {
                    key: b"k",
                    mod_revision,
                    ..Fields::default()
                }
                .encode(),
            ),
            ..Event::default()
        };
        WatchResponse {
            events: revisions.iter().map(event).collect(),
            fragment,
            ..WatchResponse::default()
        }
    }

    /// Revision and number of events of each complete revision.
    fn taken(assembler: &mut RevisionAssembler, response: WatchResponse) -> Vec<(i64, usize)> {
        let mut complete = Vec::new();
        assembler.take(response, &mut complete);
        let shown = complete
            .iter()
            .map(|(it, _)| (it.revision, it.events.len()));
        shown.collect()
    }

    #[test]
    fn a_response_ends_with_a_whole_revision() {
        let mut assembler = RevisionAssembler::default();
        let complete = taken(&mut assembler, response(&[2, 2, 3, 4, 4], false));
        assert_eq!(complete, [(2, 2), (3, 1), (4, 2)]);
        assert_eq!(taken(&mut assembler, response(&[], false)), []);
    }

    #[test]
    fn a_revision_goes_on_behind_a_fragment() {
        let mut assembler = RevisionAssembler::default();
        assert_eq!(taken(&mut assembler, response(&[2, 3], true)), [(2, 1)]);
        assert_eq!(taken(&mut assembler, response(&[3, 3], true)), []);
        assert_eq!(taken(&mut assembler, response(&[], false)), [(3, 3)]);
        assert_eq!(taken(&mut assembler, response(&[5], true)), []);
        assert_eq!(
            taken(&mut assembler, response(&[6], false)),
            [(5, 1), (6, 1)]
        );
    }
}
