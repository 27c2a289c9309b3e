//! Which revision of which history a restore is asked for.

use crate::Error;
use crate::catalog::{BackupHistory, Catalog};
use crate::name::ObjectName;
use crate::place::BackupPlace;
use crate::plan::{Gap, reach};

/// The state that is to be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The newest revision of the newest history.
    Newest,
    /// A revision.
    Revision(i64),
    /// The newest revision that had been received at a time; Unix, in milliseconds.
    Time(u64),
}

/// Which of the histories of a place counts. `None`: the only one that fits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// Id of the cluster.
    pub cluster: Option<u64>,
    /// Id of the history.
    pub history: Option<u64>,
}

impl Catalog {
    /// The history and the revision of a moment.
    pub async fn find(
        &self,
        place: &BackupPlace,
        selection: Selection,
        moment: Moment,
    ) -> Result<(&BackupHistory, i64), Error> {
        let candidates = self.candidates(selection)?;
        match moment {
            Moment::Newest => {
                let newest = candidates.last().expect("there is a candidate");
                Ok((newest, newest.ranges().last().map_or(0, |range| range.1)))
            }
            Moment::Revision(revision) => Ok((of_revision(&candidates, revision)?, revision)),
            Moment::Time(time_ms) => of_time(place, &candidates, time_ms).await,
        }
    }

    /// Histories that have a base, of one cluster; at least one.
    fn candidates(&self, selection: Selection) -> Result<Vec<&BackupHistory>, Error> {
        let unavailable = |text: String| Err(Error::Unavailable(text));
        let with_base = self.histories.iter().filter(|it| !it.bases.is_empty());
        let fits = |wanted: Option<u64>, id| wanted.is_none_or(|wanted| wanted == id);
        let candidates = with_base
            .filter(|it| fits(selection.cluster, it.cluster) && fits(selection.history, it.id));
        let candidates: Vec<&BackupHistory> = candidates.collect();
        let (Some(first), Some(last)) = (candidates.first(), candidates.last()) else {
            return unavailable(
                "there is no backup of that kind; `list` shows what is there".into(),
            );
        };
        if first.cluster != last.cluster {
            let clusters = self.clusters().into_iter().map(|id| format!("{id:x}"));
            let clusters = clusters.collect::<Vec<_>>().join(", ");
            return unavailable(format!(
                "there are backups of several clusters, {clusters}: name one with --cluster"
            ));
        }
        Ok(candidates)
    }
}

fn of_revision<'c>(
    candidates: &[&'c BackupHistory],
    revision: i64,
) -> Result<&'c BackupHistory, Error> {
    let whole = candidates.iter().filter(|it| it.plan(revision).is_ok());
    match whole.collect::<Vec<_>>()[..] {
        [one] => Ok(*one),
        [] => {
            let newest = candidates.last().expect("there is a candidate");
            Err(match (explain(newest, revision), candidates.len()) {
                (Error::Unavailable(text), 2..) => Error::Unavailable(format!(
                    "no history has all of what revision {revision} needs (`list` shows what each has); in \
                     the newest one: {text}"
                )),
                (error, _) => error,
            })
        }
        ref several => {
            let ids = several.iter().map(|it| format!("{:x}", it.id));
            let ids = ids.collect::<Vec<_>>().join(", ");
            Err(Error::Unavailable(format!(
                "revision {revision} is in several histories, {ids}, possibly with other contents in \
                 each: name one with --history"
            )))
        }
    }
}

async fn of_time<'c>(
    place: &BackupPlace,
    candidates: &[&'c BackupHistory],
    time_ms: u64,
) -> Result<(&'c BackupHistory, i64), Error> {
    let begun = |history: &BackupHistory| history.bases.iter().map(|it| it.name.time_ms).min();
    let mut candidates = candidates.iter().rev();
    let history = candidates.find(|it| begun(it).is_some_and(|begun| begun <= time_ms));
    let history = *history.ok_or_else(|| {
        Error::Unavailable("the backup begins later than that; `list` shows when".into())
    })?;
    let received = |name: &ObjectName| name.time_ms <= time_ms;
    let names = history.objects().map(|object| object.name);
    let whole = names.filter(received).map(|name| name.last).max();
    let mut revision = whole.unwrap_or(0);
    // An object that was completed later may begin before.
    let later = history.changes.iter().map(|object| object.name);
    let later = later.filter(|name| !received(name) && name.first <= revision + 1);
    for name in later
        .filter(|name| name.last > revision)
        .collect::<Vec<_>>()
    {
        let batches = place.read(&name).await?.batches;
        let batches = batches.iter().filter(|batch| batch.time_ms <= time_ms);
        revision = batches.map(|it| it.last).max().unwrap_or(0).max(revision);
    }
    Ok((history, revision))
}

/// Why a history does not restore a revision.
pub(crate) fn explain(history: &BackupHistory, revision: i64) -> Error {
    let Err(gap) = history.plan(revision) else {
        return Error::Unavailable(format!("revision {revision} cannot be restored"));
    };
    let text = match gap {
        Gap::BeforeBases { oldest } => {
            let oldest = oldest.unwrap_or(0);
            format!("revision {revision} is not in the backup any more: it begins at {oldest}")
        }
        Gap::Missing { base, .. } if reach(&history.changes, base) == history.newest_revision() => {
            let newest = history.newest_revision();
            format!("revision {revision} is not in the backup: it ends at {newest}")
        }
        Gap::Missing { first, last, base } => format!(
            "no object has the revisions from {first} to {last}, so {revision} cannot be restored: name \
             a revision from {base} to {}, or one behind a later base (`list` shows them)",
            first - 1
        ),
    };
    Error::Unavailable(text)
}
