//! The network between members: a proxy in front of each, which can hold, delay
//! and break connections.
//!
//! ```text
//!   member a ──dials what b advertises──► proxy of b ──► where b listens
//!                      a → b  ◄── the flow that decides ──►  b → a
//! ```
//!
//! Members dial the advertised addresses, which are those of the proxies. So a proxy finds the
//! dialer by the other end of the connection: the kernel says which process holds that socket.
//! A cut flow keeps its bytes, as TCP would, and delivers them once it is healed,
//! however old they are then; or the connections are reset.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    time::Instant,
};

use super::owner;
use crate::process::Outcome;

/// Places for members: one more than there are members, for a new one.
pub const PLACES: usize = 4;
/// Chunks of a connection's bytes that the proxy may hold.
const PARTS_MAX: usize = 64;
const PART_BYTES: usize = 16 << 10;

/// What happens to the bytes from one member to another.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// How many faults cut it.
    cuts: u32,
    /// Delay of all bytes.
    delay: Duration,
    /// Connections older than this are to be reset.
    resets: u64,
}

/// All flows between members.
pub struct Links {
    flows: [[watch::Sender<Flow>; PLACES]; PLACES],
    /// Tells the process id of each member; 0 if none runs.
    processes: Box<dyn Fn() -> Vec<u32> + Send + Sync>,
    /// Bytes that were forwarded.
    pub carried_bytes: AtomicU64,
}

/// Flows from members to others.
pub type Flows = Vec<(usize, usize)>;

/// Flows that are cut as long as this lives.
pub struct Cut {
    links: Arc<Links>,
    flows: Flows,
}

impl Drop for Cut {
    fn drop(&mut self) {
        for &(from, to) in &self.flows {
            self.links.flows[from][to].send_modify(|flow| flow.cuts -= 1);
        }
    }
}

impl Links {
    pub fn new(processes: impl Fn() -> Vec<u32> + Send + Sync + 'static) -> Arc<Links> {
        Arc::new(Links {
            flows: std::array::from_fn(|_| {
                std::array::from_fn(|_| watch::Sender::new(Flow::default()))
            }),
            processes: Box::new(processes),
            carried_bytes: AtomicU64::new(0),
        })
    }

    /// Holds the bytes from members to others; with `resets`, connections between them break
    /// as well.
    pub fn cut(self: &Arc<Self>, flows: Flows, resets: bool) -> Cut {
        for &(from, to) in &flows {
            self.flows[from][to].send_modify(|flow| {
                flow.cuts += 1;
                flow.resets += u64::from(resets);
            });
        }
        let links = Arc::clone(self);
        Cut { links, flows }
    }

    /// Delays the bytes between any two members.
    pub fn delay(&self, mut delay: impl FnMut() -> Duration) {
        for flow in self.flows.iter().flatten() {
            flow.send_modify(|flow| flow.delay = delay());
        }
    }

    /// Forwards the connections to a member to the address where it listens.
    pub async fn serve(self: Arc<Self>, member: usize, door: TcpListener, behind: u16) {
        loop {
            if let Ok((stream, _)) = door.accept().await {
                let links = Arc::clone(&self);
                // Connections fail often here.
                tokio::spawn(async move { links.carry(member, stream, behind).await.ok() });
            }
        }
    }

    async fn carry(&self, to: usize, near: TcpStream, behind: u16) -> Outcome {
        let (client, door) = (near.peer_addr()?.port(), near.local_addr()?.port());
        let owner = owner::of_socket(client, door, &(self.processes)())?;
        let from = owner.ok_or("the dialer is gone")?;
        let mut there = self.flows[from][to].subscribe();
        let back = self.flows[to][from].subscribe();
        let resets = (there.borrow().resets, back.borrow().resets);
        // A member that cannot send cannot connect.
        there.wait_for(|flow| flow.cuts == 0).await?;
        let far = TcpStream::connect(("127.0.0.1", behind)).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let (near_in, near_out) = near.into_split();
        let (far_in, far_out) = far.into_split();
        let both = async {
            let there = self.pump(near_in, far_out, there.clone());
            let back = self.pump(far_in, near_out, back.clone());
            tokio::try_join!(there, back).map(drop)
        };
        tokio::select! {
            ended = both => ended,
            () = reset(there.clone(), resets.0) => Ok(()),
            () = reset(back.clone(), resets.1) => Ok(()),
        }
    }

    /// Forwards one direction until the sender has closed it and all bytes have arrived.
    async fn pump(
        &self,
        mut from: OwnedReadHalf,
        to: OwnedWriteHalf,
        flow: watch::Receiver<Flow>,
    ) -> Outcome {
        let (parts, waiting) = mpsc::channel(PARTS_MAX);
        let delays = flow.clone();
        let read = async move {
            loop {
                let mut part = vec![0; PART_BYTES];
                let length = from.read(&mut part).await?;
                if length == 0 {
                    return Outcome::Ok(());
                }
                part.truncate(length);
                self.carried_bytes
                    .fetch_add(length as u64, Ordering::Relaxed);
                let due = Instant::now() + delays.borrow().delay;
                parts.send((due, part)).await?;
            }
        };
        tokio::try_join!(read, deliver(waiting, to, flow)).map(drop)
    }
}

async fn deliver(
    mut waiting: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut to: OwnedWriteHalf,
    mut flow: watch::Receiver<Flow>,
) -> Outcome {
    while let Some((due, part)) = waiting.recv().await {
        tokio::time::sleep_until(due).await;
        flow.wait_for(|flow| flow.cuts == 0).await?;
        to.write_all(&part).await?;
    }
    flow.wait_for(|flow| flow.cuts == 0).await?;
    Ok(to.shutdown().await?)
}

/// Waits until connections of this age are reset.
async fn reset(mut flow: watch::Receiver<Flow>, known: u64) {
    if flow.wait_for(|flow| flow.resets > known).await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Member 0 is this process; it dials member 1.
    async fn connection() -> (Arc<Links>, TcpStream, TcpStream) {
        let links = Links::new(|| vec![std::process::id()]);
        let behind = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = door.local_addr().unwrap();
        let port = behind.local_addr().unwrap().port();
        tokio::spawn(Arc::clone(&links).serve(1, door, port));
        let near = TcpStream::connect(address).await.unwrap();
        let (far, _) = behind.accept().await.unwrap();
        (links, near, far)
    }

    #[tokio::test]
    async fn what_is_cut_one_way_arrives_when_it_is_mended() {
        let (links, mut near, mut far) = connection().await;
        let cut = links.cut(vec![(0, 1)], false);
        near.write_all(b"there").await.unwrap();
        far.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        near.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"back");
        let mut there = [0; 5];
        let early = far.read_exact(&mut there);
        assert!(
            tokio::time::timeout(Duration::from_millis(20), early)
                .await
                .is_err()
        );
        drop(cut);
        far.read_exact(&mut there).await.unwrap();
        assert_eq!(&there, b"there");
    }

    #[tokio::test]
    async fn what_was_said_before_the_end_arrives() {
        let (links, mut near, mut far) = connection().await;
        links.delay(|| Duration::from_millis(20));
        far.write_all(b"answer").await.unwrap();
        far.shutdown().await.unwrap();
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"answer");
    }

    #[tokio::test]
    async fn a_reset_ends_connections() {
        let (links, mut near, _far) = connection().await;
        let _cut = links.cut(vec![(1, 0)], true);
        let mut nothing = [0; 1];
        assert!(matches!(near.read(&mut nothing).await, Ok(0) | Err(_)));
    }
}
