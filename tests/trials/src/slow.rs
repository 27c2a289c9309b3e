//! Clients that read and write a few bytes a second, or never read.
//!
//! ```text
//!   readers    ask for ranges of 10 MiB, and take 8 bytes a second
//!   watchers   watch all that is written, and take nothing
//!   writers    send a put of 1 MiB, 8 bytes a second
//!   bystander  puts and gets all the time, and must be served
//! ```
//!
//! The memory that they take is bounded: by twice their answers and an
//! event for each watcher, and never above `GROWTH_BYTES_MAX`. Once they have left, the
//! server must free it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest, WatchCreateRequest, WatchRequest};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::bystander::{Bystander, PATIENCE};
use crate::peaks::{Idle, KEPT_BYTES_MAX, mebibytes, peak_during};
use crate::servers::{Servers, channel};
use crate::wire::{self, CONNECTION, frame, kind};
use crate::{Length, Outcome, Report, Subject, requests};

/// Number of values that one range reads.
const VALUES: u64 = 10;
const VALUE_BYTES: usize = 1 << 20;
/// Bytes that a slow client reads or sends at a time.
const PIECE_BYTES: usize = 8;
const PIECE_EVERY: Duration = Duration::from_secs(1);
/// The socket's receive buffer: so small that the answer waits in the server.
const RECEIVED_BYTES_MAX: u32 = 4 << 10;
/// A quarter of 16 GiB: the server's default limit of answers on a machine of that size.
const GROWTH_BYTES_MAX: u64 = 4 << 30;
/// Interval of the writes that the watchers watch.
const WRITE_EVERY: Duration = Duration::from_millis(200);

/// Numbers of slow clients by kind.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Crowd {
    /// Clients that ask for 10 MiB and take 8 bytes a second
    #[arg(long, default_value_t = Crowd::USUAL.readers)]
    pub readers: u64,
    /// Watches of values of 1 MiB that are never read
    #[arg(long, default_value_t = Crowd::USUAL.watchers)]
    pub watchers: u64,
    /// Clients that put 1 MiB, 8 bytes a second
    #[arg(long, default_value_t = Crowd::USUAL.writers)]
    pub writers: u64,
}

impl Crowd {
    pub const USUAL: Crowd = Crowd {
        readers: 200,
        watchers: 100,
        writers: 100,
    };

    /// Bound of the memory: each answer twice, and for each watcher an event with its previous
    /// value, as it was read and encoded.
    fn bytes_max(&self) -> u64 {
        (2 * self.readers * VALUES + 4 * self.watchers) * VALUE_BYTES as u64
    }
}

/// Runs the trial against Inkstone, and then against etcd if the subject has it.
pub async fn run(subject: &Subject, length: Length, crowd: Crowd) -> Outcome<Report> {
    let mut report = against(&subject.inkstone, length, crowd, true).await?;
    if let Some(etcd) = &subject.etcd {
        match against(etcd, length, crowd, false).await {
            Ok(theirs) => {
                let rows = theirs.rows.into_iter();
                let rows = rows.map(|(name, value)| (format!("etcd: {name}"), value));
                report.rows.extend(rows);
            }
            Err(error) => report.add("etcd", error),
        }
    }
    Ok(report)
}

async fn against(binary: &Path, length: Length, crowd: Crowd, bounded: bool) -> Outcome<Report> {
    let mut servers = Servers::start(binary, 1)?;
    fill(&servers).await?;
    let annoyed = annoy(&servers, length, crowd, bounded).await;
    // If a process ended, that explains every other failure.
    servers.check().and(annoyed)
}

async fn annoy(servers: &Servers, length: Length, crowd: Crowd, bounded: bool) -> Outcome<Report> {
    let idle = Idle::of(servers)?;
    let bystander = Bystander::start(servers.first(), PATIENCE).await?;
    let ((), peak) = peak_during(servers, all_at_once(servers, length, crowd)).await?;
    let mut report = Report::default();
    report.add("readers", crowd.readers);
    report.add("watchers", crowd.watchers);
    report.add("writers", crowd.writers);
    report.add("most memory", mebibytes(peak));
    bystander.stop(&mut report).await?;
    if bounded {
        let growth_max = crowd.bytes_max().clamp(KEPT_BYTES_MAX, GROWTH_BYTES_MAX);
        let growth = peak.saturating_sub(idle.resident_bytes);
        if growth > growth_max {
            let (growth, bound) = (mebibytes(growth), mebibytes(growth_max));
            return Err(format!("slow clients cost {growth} of memory, more than {bound}").into());
        }
        idle.wait_for(servers, &mut report).await?;
    }
    Ok(report)
}

async fn fill(servers: &Servers) -> Outcome {
    let mut client = KvClient::new(channel(servers.first()).await?);
    for number in 0..VALUES {
        client.put(large_put(&format!("large/{number}"))).await?;
    }
    Ok(())
}

fn large_put(key: &str) -> PutRequest {
    requests::put(key.to_owned(), vec![b'v'; VALUE_BYTES])
}

async fn all_at_once(servers: &Servers, length: Length, crowd: Crowd) -> Outcome {
    let address: SocketAddr = servers.first().client_address().parse()?;
    let deadline = Instant::now() + length.lasting;
    let mut clients = JoinSet::new();
    for _ in 0..crowd.readers {
        clients.spawn(async move { read_slowly(address, deadline).await });
    }
    for _ in 0..crowd.watchers {
        clients.spawn(async move { never_read(address, deadline).await });
    }
    for number in 0..crowd.writers {
        clients.spawn(async move { write_slowly(address, number, deadline).await });
    }
    let mut client = KvClient::new(channel(servers.first()).await?);
    while Instant::now() < deadline {
        timeout(PATIENCE, client.put(large_put("large/watched"))).await??;
        sleep(WRITE_EVERY).await;
    }
    while let Some(client) = clients.join_next().await {
        // The server may refuse a client or end its connection.
        drop(client?);
    }
    Ok(())
}

async fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVED_BYTES_MAX)?;
    Ok(timeout(PATIENCE, socket.connect(address)).await??)
}

/// The largest possible windows, so that only the socket holds the answer back.
fn wide_open() -> Vec<u8> {
    const WINDOW: u32 = 0x7fff_ffff;
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let mut bytes = wire::PREFACE.to_vec();
    let window = wire::setting(INITIAL_WINDOW_SIZE, WINDOW);
    bytes.extend(frame(kind::SETTINGS, 0, CONNECTION, &window));
    let more = (WINDOW - 65_535).to_be_bytes();
    bytes.extend(frame(kind::WINDOW_UPDATE, 0, CONNECTION, &more));
    bytes
}

async fn read_slowly(address: SocketAddr, deadline: Instant) -> Outcome {
    let mut socket = connect(address).await?;
    let range = RangeRequest {
        range_end: "large0".into(),
        ..requests::range("large/")
    };
    let mut bytes = wide_open();
    bytes.extend(wire::call(
        1,
        "/etcdserverpb.KV/Range",
        &range.encode_to_vec(),
    ));
    socket.write_all(&bytes).await?;
    let mut piece = [0; PIECE_BYTES];
    while Instant::now() < deadline {
        if timeout(PIECE_EVERY, socket.read(&mut piece)).await.is_ok() {
            sleep(PIECE_EVERY).await;
        }
    }
    Ok(())
}

async fn never_read(address: SocketAddr, deadline: Instant) -> Outcome {
    let mut socket = connect(address).await?;
    let create = WatchCreateRequest {
        key: Bytes::from_static(b"large/"),
        range_end: Bytes::from_static(b"large0"),
        start_revision: 1,
        prev_kv: true,
        ..WatchCreateRequest::default()
    };
    let watch = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    let mut bytes = wide_open();
    bytes.extend(wire::open_call(1, "/etcdserverpb.Watch/Watch"));
    bytes.extend(frame(kind::DATA, 0, 1, &wire::grpc(&watch.encode_to_vec())));
    socket.write_all(&bytes).await?;
    sleep(deadline.saturating_duration_since(Instant::now())).await;
    Ok(())
}

async fn write_slowly(address: SocketAddr, number: u64, deadline: Instant) -> Outcome {
    let mut socket = connect(address).await?;
    let put = large_put(&format!("slow/{number}")).encode_to_vec();
    let mut bytes = wire::greeting();
    bytes.extend(wire::call(1, "/etcdserverpb.KV/Put", &put));
    // Most of the request is sent at once; its end is sent slowly.
    let (most, rest) = bytes.split_at(bytes.len() / 2);
    // The window is smaller than that, so the server may stop reading.
    drop(timeout(PIECE_EVERY, socket.write_all(most)).await);
    for piece in rest.chunks(PIECE_BYTES) {
        if Instant::now() >= deadline {
            break;
        }
        drop(timeout(PIECE_EVERY, socket.write_all(piece)).await);
        sleep(PIECE_EVERY).await;
    }
    Ok(())
}
