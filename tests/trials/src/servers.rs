//! Clusters of Inkstone or etcd, each in a folder of its own.

use std::path::Path;
use std::time::Duration;

use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{StatusRequest, StatusResponse};
use harness::{Cluster, Member, Program, SecureConfig, readings};
use tonic::transport::{Channel, Endpoint};

use crate::secure::{PAIR, Way};
use crate::{Outcome, Subject, secure};

/// Time within which members become idle after their start.
const IDLE_SECONDS_MAX: u32 = 60;

/// A new folder for servers' data, in this directory or where the system has temporary files.
pub fn folder(directory: Option<&Path>) -> Outcome<tempfile::TempDir> {
    Ok(match directory {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    })
}

/// The members of one cluster; stopped and removed when dropped.
pub struct Servers {
    pub cluster: Cluster,
    /// Directory of their data and logs.
    _folder: tempfile::TempDir,
}

impl Servers {
    /// Starts `count` members of one cluster in a temporary folder; returns when one leads.
    pub fn start(binary: &Path, count: usize) -> Outcome<Servers> {
        Servers::start_in(tempfile::tempdir()?, binary, count, &["--log-level=error"])
    }

    /// An etcd and an Inkstone.
    pub fn pair(subject: &Subject) -> Outcome<(Servers, Servers)> {
        let etcd = Servers::start(subject.etcd()?, 1)?;
        Ok((etcd, Servers::start(&subject.inkstone, 1)?))
    }

    /// The same as [`Servers::start`], in a given folder and with other flags.
    pub fn start_in(
        folder: tempfile::TempDir,
        binary: &Path,
        count: usize,
        flags: &[impl AsRef<str>],
    ) -> Outcome<Servers> {
        let program = Program::new(binary).with(flags);
        Ok(Servers {
            cluster: Cluster::start(&program, folder.path(), count)?,
            _folder: folder,
        })
    }

    /// Starts `count` members with TLS for clients and members, after `change` has changed each.
    /// Their certificates are in a folder of theirs, as [`secure::write_certificates`] makes them.
    pub fn start_secure(
        binary: &Path,
        count: usize,
        mut change: impl FnMut(&mut Member) -> Outcome,
    ) -> Outcome<Servers> {
        let folder = tempfile::tempdir()?;
        secure::write_certificates(folder.path())?;
        let places = vec![folder.path().to_owned(); count];
        let mut cluster = Cluster::prepare(&Program::new(binary), &places)?;
        cluster.secure(folder.path())?;
        cluster.members.iter_mut().try_for_each(&mut change)?;
        cluster.start_all()?;
        Ok(Servers {
            cluster,
            _folder: folder,
        })
    }

    /// Fails if a member has ended or one of its threads panicked.
    pub fn check(&mut self) -> Outcome {
        self.cluster.check_healthy()
    }

    /// The only member, or the first of several.
    pub fn first(&self) -> &Member {
        &self.cluster.members[0]
    }

    /// The most memory that any member has in RAM now.
    pub fn resident_bytes(&self) -> Outcome<u64> {
        self.most(readings::resident_bytes)
    }

    /// The most memory that any member ever had in RAM.
    pub fn resident_bytes_peak(&self) -> Outcome<u64> {
        self.most(readings::resident_bytes_peak)
    }

    /// The most files that any member has open now.
    pub fn open_files(&self) -> Outcome<u64> {
        self.most(readings::open_files)
    }

    fn most(&self, reading: impl Fn(u32) -> Outcome<u64>) -> Outcome<u64> {
        let each = self.cluster.pids().into_iter().map(reading);
        let each = each.collect::<Outcome<Vec<u64>>>()?;
        Ok(each.into_iter().max().unwrap_or(0))
    }

    /// Each member's own status and its view of the cluster.
    pub async fn statuses(&self) -> Outcome<Vec<StatusResponse>> {
        let mut statuses = Vec::new();
        for member in &self.cluster.members {
            let mut client = MaintenanceClient::new(channel(member).await?);
            let status = client.status(StatusRequest::default()).await?;
            statuses.push(status.into_inner());
        }
        Ok(statuses)
    }

    /// Waits until the members are idle, because work after a start (such as making segments
    /// ahead) is no part of what a trial measures.
    pub fn settle(&self) -> Outcome {
        let pids = self.cluster.pids();
        let spent =
            || -> Outcome<f64> { pids.iter().map(|&it| readings::processor_seconds(it)).sum() };
        // Timers and heartbeats cost idle members a little.
        let idle = 0.02 * pids.len() as f64;
        let mut before = spent()?;
        for _ in 0..IDLE_SECONDS_MAX {
            std::thread::sleep(Duration::from_secs(1));
            let now = spent()?;
            if now - before < idle {
                return Ok(());
            }
            before = now;
        }
        Err(format!("idle members are busy after {IDLE_SECONDS_MAX} s").into())
    }
}

/// Opens a new connection to a member, with TLS if the member has it.
pub async fn channel(member: &Member) -> Outcome<Channel> {
    channel_with(member, |endpoint| endpoint).await
}

/// The same with other settings of HTTP/2.
pub async fn channel_with(
    member: &Member,
    set: impl FnOnce(Endpoint) -> Endpoint,
) -> Outcome<Channel> {
    if let Some(way) = way_to(member)? {
        return way.channel_with(None, set).await;
    }
    let endpoint = set(Endpoint::from_shared(member.client_url())?);
    Ok(endpoint.connect().await?)
}

/// The way to a member with TLS; `None` without TLS.
pub fn way_to(member: &Member) -> Outcome<Option<Way>> {
    let secure = member.config.secure.as_ref();
    let way = |secure: &SecureConfig| Way::new(member.client_address(), &secure.certificates, PAIR);
    secure.map(way).transpose()
}
