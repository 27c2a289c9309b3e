//! A client with a token of its own, which repeats what clients of etcd repeat.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use environment::randomness::Random;
use etcd_api::etcdserverpb::kv_client::KvClient;
use tokio::time::{sleep, timeout};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::failure::{Failure, text};
use super::tally::{Ended, Tally};
use super::written::{Written, key};
use crate::logins::Login;
use crate::{Outcome, requests};

/// A call without an answer for this long is an error that no client repeats.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause before a call is repeated: that of etcd's client.
const REPEAT_PAUSE: Duration = Duration::from_millis(25);
/// Most repetitions of one call: those of etcd's client.
const REPEATS_MAX: usize = 100;

pub struct Client {
    number: usize,
    /// A channel to each member.
    link: Arc<[Channel]>,
    /// The member that is asked next.
    member: usize,
    login: Login,
    token: MetadataValue<Ascii>,
    tally: Arc<Tally>,
}

impl Client {
    /// Logs in.
    pub async fn open(
        number: usize,
        link: Arc<[Channel]>,
        login: Login,
        tally: Arc<Tally>,
    ) -> Outcome<Client> {
        let member = number % link.len();
        let token = timeout(PATIENCE, login.token(link[member].clone())).await??;
        Ok(Client {
            number,
            link,
            member,
            login,
            token,
            tally,
        })
    }

    /// Puts a new key and gets it, again and again, until the tally has ended.
    pub async fn work(mut self, pause: Duration) -> Written {
        let mut random = Random::from_seed(self.number as u64);
        let mut written = Written::of(self.number);
        while !self.tally.has_ended() {
            let part = random.below(2_000) as u32;
            sleep(pause * part / 1_000).await;
            let number = written.next();
            let acknowledged = self.put(number).await;
            written.note(number, acknowledged);
            if acknowledged {
                self.get(number).await;
            }
        }
        written
    }

    /// Whether the put was acknowledged. If not, its outcome is unknown.
    async fn put(&mut self, number: u64) -> bool {
        let began = Instant::now();
        let name = key(self.number, number);
        let message = requests::put(name.clone(), name);
        let put = |mut kv: KvClient<Channel>, request| async move { kv.put(request).await };
        let done = self
            .call("put", message, put, &[Failure::NotExecuted])
            .await;
        let ended = if done.is_some() {
            Ended::Put
        } else {
            Ended::UnknownPut
        };
        self.tally.note(ended, began.elapsed());
        done.is_some()
    }

    /// Gets a key that was acknowledged.
    async fn get(&mut self, number: u64) {
        let began = Instant::now();
        let name = key(self.number, number);
        let range = requests::range(name.clone());
        let get = |mut kv: KvClient<Channel>, request| async move { kv.range(request).await };
        let repeated = [Failure::NotExecuted, Failure::Away];
        let Some(answer) = self.call("get", range, get, &repeated).await else {
            return;
        };
        self.tally.note(Ended::Get, began.elapsed());
        match answer.into_inner().kvs.first() {
            Some(kv) if kv.value() == name => {}
            _ => self
                .tally
                .note_wrong("an acknowledged put was not read".to_owned()),
        }
    }

    /// Calls members until one answers; repeats only these failures, at the next member. `None`
    /// after any other one, which is counted.
    async fn call<M: Clone, A, F>(
        &mut self,
        what: &str,
        message: M,
        send: impl Fn(KvClient<Channel>, Request<M>) -> F,
        repeated: &[Failure],
    ) -> Option<A>
    where
        F: Future<Output = Result<A, Status>>,
    {
        for _ in 0..REPEATS_MAX {
            let kv = KvClient::new(self.link[self.member].clone());
            let mut request = Request::new(message.clone());
            request.metadata_mut().insert("token", self.token.clone());
            let Ok(answered) = timeout(PATIENCE, send(kv, request)).await else {
                self.tally
                    .note_wrong(format!("{what}: no answer in {PATIENCE:?}"));
                return None;
            };
            let status = match answered {
                Ok(answer) => return Some(answer),
                Err(status) => status,
            };
            self.member = (self.member + 1) % self.link.len();
            let failure = Failure::of(&status);
            if failure == Failure::Wrong {
                self.tally.note_wrong(text(what, &status));
                self.log_in_again(&status).await;
                return None;
            }
            let is_repeated = repeated.contains(&failure);
            self.tally.note_repeatable(text(what, &status), is_repeated);
            if !is_repeated {
                return None;
            }
            sleep(REPEAT_PAUSE).await;
        }
        let given_up = format!("{what}: given up after {REPEATS_MAX} repetitions");
        self.tally.note_wrong(given_up);
        None
    }

    /// Gets a new token, as etcd's client does after this error; the trial has failed anyway.
    async fn log_in_again(&mut self, status: &Status) {
        if status.code() == Code::Unauthenticated {
            let channel = self.link[self.member].clone();
            if let Ok(Ok(token)) = timeout(PATIENCE, self.login.token(channel)).await {
                self.token = token;
            }
        }
    }
}
