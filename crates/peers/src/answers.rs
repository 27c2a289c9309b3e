//! The handler's end of a Request connection.
//!
//! Each request becomes a task, so answers leave in the order in which they
//! are ready. Requests count, and so do their bytes and their answers', until
//! the answer is written; beyond the limits a request is sent back untouched.
//! Reading never waits, so that a cancellation is always heard.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::Lane;
use crate::calls::{numbered, take_number};
use crate::format::{Frame, NUMBER_BYTES, role};
use crate::frames::FrameReader;
use crate::outgoing::Outgoing;
use crate::shared::{Received, Shared};
use crate::socket::{self, ReadHalf, Socket, WriteHalf};
use crate::writer::TURN_BYTES;

struct Answer {
    number: u64,
    kind: u8,
    role: u8,
    body: Bytes,
}

#[derive(Default)]
struct Queue {
    /// Requests that are being handled.
    running: HashMap<u64, AbortHandle>,
    waiting: VecDeque<Answer>,
    /// Of requests that are being handled and answers that wait.
    bytes: usize,
}

impl Queue {
    fn give_back(&mut self, bytes: usize) {
        assert!(self.bytes >= bytes, "more was given back than was taken");
        self.bytes -= bytes;
    }
}

/// One connection.
struct Desk {
    shared: Arc<Shared>,
    from: u64,
    queue: Mutex<Queue>,
    ready: Notify,
}

/// Until the connection breaks: why.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    from: u64,
    received: &Received,
    socket: Socket,
) -> String {
    let (read, write) = socket::split(socket);
    let desk = Arc::new(Desk {
        shared: Arc::clone(shared),
        from,
        queue: Mutex::default(),
        ready: Notify::new(),
    });
    let _running = StopHandling(Arc::clone(&desk));
    tokio::select! {
        reason = desk.read(read, received) => reason,
        reason = desk.write(write) => reason,
    }
}

/// Nobody can hear the answers any more.
struct StopHandling(Arc<Desk>);

impl Drop for StopHandling {
    fn drop(&mut self) {
        let running = std::mem::take(&mut self.0.lock().running);
        running.into_values().for_each(|task| task.abort());
    }
}

impl Desk {
    async fn read(self: &Arc<Desk>, read: ReadHalf, received: &Received) -> String {
        let payload_bytes_max = self.shared.limits.payload_bytes_max + NUMBER_BYTES;
        let gate = self.shared.intake.gate(self.from);
        let mut frames = FrameReader::new(read, payload_bytes_max, Some(gate));
        loop {
            match frames.next().await {
                Ok(Some(frame)) => {
                    received.count(Lane::Request, frame.wire_bytes());
                    if let Err(reason) = self.take(frame) {
                        return reason;
                    }
                }
                Ok(None) => return "the member closed it".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }

    fn take(self: &Arc<Desk>, mut frame: Frame) -> Result<(), String> {
        let number = take_number(&mut frame)?;
        match frame.role {
            role::PLAIN => self.begin(number, frame.kind, frame.payload),
            role::CANCEL => {
                let task = self.lock().running.remove(&number);
                if let Some(task) = task {
                    task.abort();
                }
                Ok(())
            }
            other => Err(format!("a request came with the unknown role {other}")),
        }
    }

    fn begin(self: &Arc<Desk>, number: u64, kind: u8, body: Bytes) -> Result<(), String> {
        let limits = &self.shared.limits;
        let mut queue = self.lock();
        let full = queue.bytes > 0 && queue.bytes + body.len() > limits.request_bytes_max;
        let requests = queue.running.len() + queue.waiting.len();
        if full || requests >= limits.requests_max {
            if queue.waiting.len() > 2 * limits.requests_max {
                return Err("requests keep coming and no answer is taken".to_owned());
            }
            queue.waiting.push_back(Answer {
                number,
                kind,
                role: role::OVERLOAD,
                body: Bytes::new(),
            });
            drop(queue);
            self.ready.notify_one();
            return Ok(());
        }
        if queue.running.contains_key(&number) {
            return Err(format!("request number {number} came twice"));
        }
        queue.bytes += body.len();
        let request = UnderHand {
            desk: Arc::clone(self),
            number,
            kind,
            bytes: body.len(),
            result: None,
        };
        // This is the only thread that polls: the task begins after we return.
        let task = tokio::spawn(request.handle(body));
        queue.running.insert(number, task.abort_handle());
        Ok(())
    }

    async fn write(&self, mut write: WriteHalf) -> String {
        let mut outgoing = Outgoing::default();
        loop {
            let bytes = self.encode(&mut outgoing);
            if outgoing.bytes() == 0 {
                self.ready.notified().await;
                continue;
            }
            if let Err(error) = outgoing.write(&mut write).await {
                return error.to_string();
            }
            self.lock().give_back(bytes);
            tokio::task::yield_now().await;
        }
    }

    /// Bytes of the answers' bodies.
    fn encode(&self, outgoing: &mut Outgoing) -> usize {
        let mut bytes = 0;
        while outgoing.bytes() < TURN_BYTES {
            let Some(answer) = self.lock().waiting.pop_front() else {
                break;
            };
            bytes += answer.body.len();
            outgoing.push(
                answer.kind,
                answer.role,
                &numbered(answer.number, answer.body),
            );
        }
        bytes
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .expect("nobody panics with this lock held")
    }
}

/// A request in the handler's hands. However that ends, an answer is queued:
/// the handler's own, or that there was none.
struct UnderHand {
    desk: Arc<Desk>,
    number: u64,
    kind: u8,
    bytes: usize,
    result: Option<Result<Bytes, Bytes>>,
}

impl UnderHand {
    async fn handle(mut self, body: Bytes) {
        let handler = &self.desk.shared.handler;
        let result = handler.request(self.desk.from, self.kind, body).await;
        self.result = Some(result);
    }

    fn answer(&mut self) -> (u8, Bytes) {
        let bytes_max = self.desk.shared.limits.payload_bytes_max;
        let (role, body) = match self.result.take() {
            Some(Ok(body)) => (role::ANSWER, body),
            Some(Err(body)) => (role::REFUSAL, body),
            None => (role::FAILURE, Bytes::from("the handler ended without one")),
        };
        if body.len() > bytes_max {
            let bytes = body.len();
            let text = format!("its answer has {bytes} bytes, at most {bytes_max} are allowed");
            return (role::FAILURE, Bytes::from(text));
        }
        (role, body)
    }
}

impl Drop for UnderHand {
    fn drop(&mut self) {
        let (role, body) = self.answer();
        let mut queue = self.desk.lock();
        queue.give_back(self.bytes);
        // Cancelled: the caller does not listen.
        if queue.running.remove(&self.number).is_none() {
            return;
        }
        queue.bytes += body.len();
        queue.waiting.push_back(Answer {
            number: self.number,
            kind: self.kind,
            role,
            body,
        });
        drop(queue);
        self.desk.ready.notify_one();
    }
}
