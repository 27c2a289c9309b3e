//! An object store that fails, delays and lies, by a seed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Mutex;
use environment::randomness::Random;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, UploadPart,
};

/// Faults, each as a number of 1,000 requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The request is refused.
    pub fails: u64,
    /// The request is carried out, and an error answered.
    pub fails_late: u64,
    /// The answer takes up to three minutes.
    pub delays: u64,
    /// A shorter object is stored.
    pub truncates: u64,
    /// A shorter object is stored, if it is one that was merged.
    pub truncates_merged: u64,
    /// Nothing is stored.
    pub loses: u64,
    /// A list leaves an object out.
    pub forgets: u64,
    /// Other bytes are read: changed, cut, or those of another object.
    pub alters: u64,
}

pub struct Liar {
    inner: Arc<InMemory>,
    state: Arc<Mutex<(Random, Faults)>>,
}

impl Liar {
    pub fn new(seed: u64) -> Liar {
        let state = (Random::from_seed(seed), Faults::default());
        Liar {
            inner: Arc::default(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub fn set(&self, faults: Faults) {
        self.state.lock().1 = faults;
    }

    fn chance(&self, of: impl Fn(&Faults) -> u64) -> bool {
        chance(&self.state, of)
    }

    async fn trouble(&self) -> Result<()> {
        if self.chance(|faults| faults.delays) {
            let seconds = self.state.lock().0.below(180);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
        refuse_if(self.chance(|faults| faults.fails))
    }

    async fn altered(&self, bytes: Bytes) -> Bytes {
        if !self.chance(|faults| faults.alters) {
            return bytes;
        }
        let kind = self.state.lock().0.below(3);
        if kind == 0 {
            let paths = self.inner.list(None).try_collect::<Vec<_>>().await.unwrap();
            let other = self.state.lock().0.pick(&paths).location.clone();
            return self.inner.get(&other).await.unwrap().bytes().await.unwrap();
        }
        let random = &mut self.state.lock().0;
        if kind == 1 || bytes.is_empty() {
            return random.damaged(&bytes).into();
        }
        bytes.slice(..random.below(bytes.len() as u64) as usize)
    }
}

fn chance(state: &Mutex<(Random, Faults)>, of: impl Fn(&Faults) -> u64) -> bool {
    let (random, faults) = &mut *state.lock();
    let of = of(faults);
    of > 0 && random.chance(of, 1_000)
}

/// Whether the level in an object's name is above 0.
fn is_merged(path: &Path) -> bool {
    let mut parts = path.filename().unwrap_or_default().split('-');
    path.as_ref().ends_with(".changes") && parts.nth(2).is_some_and(|level| level != "0")
}

fn refuse_if(refuses: bool) -> Result<()> {
    match refuses {
        false => Ok(()),
        true => Err(Error::Generic {
            store: "liar",
            source: "refused".into(),
        }),
    }
}

impl fmt::Debug for Liar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Liar")
    }
}

impl fmt::Display for Liar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Liar")
    }
}

#[async_trait]
impl ObjectStore for Liar {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.trouble().await?;
        let (e_tag, version) = (None, None);
        let (mut bytes, done) = (
            Bytes::from(payload.iter().fold(Vec::new(), |mut all, part| {
                all.extend_from_slice(part);
                all
            })),
            PutResult {
                e_tag,
                version,
                extensions: Default::default(),
            },
        );
        if self.chance(|faults| faults.loses) {
            return Ok(done);
        }
        let is_merged = is_merged(location);
        let truncates = |faults: &Faults| match is_merged {
            true => faults.truncates + faults.truncates_merged,
            false => faults.truncates,
        };
        if self.chance(truncates) {
            let length = self.state.lock().0.below(bytes.len() as u64) as usize;
            bytes.truncate(length);
        }
        self.inner.put_opts(location, bytes.into(), options).await?;
        refuse_if(self.chance(|faults| faults.fails_late))?;
        Ok(done)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.trouble().await?;
        let inner = self.inner.put_multipart_opts(location, options).await?;
        let state = Arc::clone(&self.state);
        Ok(Box::new(LyingUpload { inner, state }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.trouble().await?;
        let mut got = self.inner.get_opts(location, options).await?;
        let (meta, range, attributes) =
            (got.meta.clone(), got.range.clone(), got.attributes.clone());
        let extensions = std::mem::take(&mut got.extensions);
        let bytes = self.altered(got.bytes().await?).await;
        let payload = futures_util::stream::once(async move { Ok(bytes) }).boxed();
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            meta,
            range,
            attributes,
            extensions,
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let fails = self.chance(|faults| faults.fails);
        let deleted = self.inner.delete_stream(locations);
        match fails {
            true => futures_util::stream::once(async { refuse_if(true).map(|()| Path::default()) })
                .boxed(),
            false => deleted,
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let state = Arc::clone(&self.state);
        let fails = self.chance(|faults| faults.fails);
        let kept = self.inner.list(prefix).try_filter(move |_| {
            let stays = !chance(&state, |faults| faults.forgets);
            futures_util::future::ready(stays)
        });
        match fails {
            true => futures_util::stream::once(async { Err(refuse_if(true).unwrap_err()) }).boxed(),
            false => kept.boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct LyingUpload {
    inner: Box<dyn MultipartUpload>,
    state: Arc<Mutex<(Random, Faults)>>,
}

#[async_trait]
impl MultipartUpload for LyingUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        if chance(&self.state, |faults| faults.fails) {
            return Box::pin(async { refuse_if(true) });
        }
        match chance(&self.state, |faults| faults.loses) {
            true => Box::pin(async { Ok(()) }),
            false => self.inner.put_part(data),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let done = self.inner.complete().await?;
        refuse_if(chance(&self.state, |faults| faults.fails_late))?;
        Ok(done)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
