//! `inkstone snapshot restore`: a new data directory from a file of etcd.

use std::path::Path;

use bolt::{Checksum, DatabaseFile};
use server::config::{Config, Request, Surroundings, resolve};
use server::{RestoreError, RevisionBump};

use super::opened::{Opened, failure, open};
use crate::client::signals::Interruption;
use crate::failure::Failure;
use crate::progress::Progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    opened: Opened,
    /// Name of this member
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    name: Option<String>,
    /// All members of the new cluster, as name=peer-url separated by commas, this one included
    #[arg(long, value_name = "MEMBERS", help_heading = "Cluster")]
    initial_cluster: Option<String>,
    /// A text that only this cluster has, so that no member joins another by mistake
    #[arg(long, value_name = "TOKEN", help_heading = "Cluster")]
    initial_cluster_token: Option<String>,
    /// This member's URLs for the other members
    #[arg(long, value_name = "URLS", help_heading = "Cluster")]
    initial_advertise_peer_urls: Option<String>,
    /// The directory to make; it appears when it is complete [default: NAME.inkstone]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Bytes of a segment of the log, as for `inkstone serve`
    #[arg(long, value_name = "BYTES")]
    segment_bytes: Option<String>,
    /// Add this to the newest revision, so that no client sees a revision twice if the old cluster
    /// went on behind the snapshot; needs --mark-compacted
    #[arg(
        long,
        value_name = "REVISIONS",
        value_parser = clap::value_parser!(i64).range(1..),
        requires = "mark_compacted"
    )]
    bump_revision: Option<i64>,
    /// Compact all revisions up to the raised one, so that watches that would miss changes end;
    /// needs --bump-revision
    #[arg(long, requires = "bump_revision")]
    mark_compacted: bool,
}

impl Arguments {
    /// The flags of `inkstone serve` that mean the same.
    fn words(&self) -> Vec<String> {
        let flags = [
            ("name", &self.name),
            ("initial-cluster", &self.initial_cluster),
            ("initial-cluster-token", &self.initial_cluster_token),
            (
                "initial-advertise-peer-urls",
                &self.initial_advertise_peer_urls,
            ),
            ("data-dir", &self.data_dir),
            ("segment-bytes", &self.segment_bytes),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| {
            let value = value.as_ref()?;
            Some(format!("--{flag}={value}"))
        });
        given.collect()
    }

    fn config(&self) -> Result<Box<Config>, Failure> {
        let surroundings = Surroundings {
            variables: &[],
            read_file: &|_: &Path| Err("not read by this verb".to_owned()),
        };
        match resolve(&self.words(), &surroundings) {
            Ok(Request::Serve(config)) => Ok(config),
            Ok(Request::Help(_) | Request::Version) => {
                unreachable!("no word asks for help or versions")
            }
            Err(error) => Err(Failure::wrong_use(error, "")),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = arguments.config()?;
    let (path, file) = (&arguments.opened.file, open(&arguments.opened)?);
    check_pages(&arguments.opened, &file)?;
    let bump = RevisionBump {
        revisions: arguments.bump_revision.unwrap_or(0),
    };
    let interruption = Interruption::catch()?;
    let mut progress = Progress::new("restoring", 2 * file.size_bytes());
    let restored = server::restore(&config, &file, bump, &mut |bytes| {
        progress.advance(bytes);
        interruption.goes_on()
    });
    drop(progress);
    let restored = restored.map_err(|error| restore_failure(path, error))?;
    let (directory, revision) = (config.node.directory.display(), restored.revision);
    println!(
        "Restored {}: {} versions of keys, newest revision {revision}",
        path.display(),
        restored.versions
    );
    println!(
        "Start the member:  inkstone serve --data-dir={directory}, and the other flags of this member"
    );
    if bump.revisions == 0 {
        println!(
            "If the old cluster went on behind this snapshot, its clients have seen later revisions\n\
             than {revision}, which this one gives out again. Then restore with\n\
             --bump-revision=1000000000 --mark-compacted instead."
        );
    }
    Ok(())
}

/// Checks all pages of a file that has no checksum, which must be asked for.
fn check_pages(opened: &Opened, file: &DatabaseFile) -> Result<(), Failure> {
    let path = &opened.file;
    let sum = file.checksum(|_, _| ());
    let sum = sum.map_err(|error| Failure::failed(error, ""))?;
    if sum == Checksum::Whole {
        return Ok(());
    }
    if !opened.skip_hash_check {
        return Err(Failure::failed(
            format_args!("{} has no SHA-256 at its end", path.display()),
            "If it is member/snap/db of an etcd that has stopped, make a snapshot of the whole directory,\n\
             which has the entries of its write-ahead log, too:\n  \
             inkstone snapshot save FILE --data-dir DIR\n\
             or add --skip-hash-check to restore this file alone.",
        ));
    }
    let mut progress = Progress::new("checking pages", file.size_bytes());
    let checked = file.check(|bytes| progress.advance(bytes));
    checked.map_err(|error| Failure::failed(error, ""))
}

fn restore_failure(path: &Path, error: RestoreError) -> Failure {
    match error {
        RestoreError::File(error) => failure(path, error),
        error => Failure::failed(error, ""),
    }
}
