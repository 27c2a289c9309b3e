//! One watch of a recipe.

use std::sync::Arc;

use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use revisions::WatchStream;
use tokio::task::JoinHandle;
use tonic::Status;

use crate::backend::Backend;
use crate::recipes::steps::Steps;
use crate::watch::next_response;

/// A watch, which ends when this is dropped.
pub(super) struct Watching {
    steps: Steps,
    watches: Arc<WatchStream>,
    /// The current read from the log.
    reading: Option<JoinHandle<Option<WatchResponse>>>,
}

impl Watching {
    pub(super) fn open(steps: &Steps, watch: WatchCreateRequest) -> Watching {
        let watches = steps.backend().reader().watch_hub().subscribe();
        watches.create(watch);
        Watching {
            steps: steps.clone(),
            watches: Arc::new(watches),
            reading: None,
        }
    }

    /// The next response with events; `None` if the watch was canceled because the history is
    /// gone that it begins with. The error says that the server stops.
    pub(super) async fn next(&mut self) -> Result<Option<WatchResponse>, Status> {
        loop {
            let arrived = next_response(&self.watches, &mut self.reading);
            let arrived = async { arrived.await.ok_or(etcd_api::Error::Stopped.to_status()) };
            let mut response = self.steps.until_stopped(arrived).await?;
            if response.canceled {
                return Ok(None);
            }
            if !response.events.is_empty() {
                let backend: &Backend = self.steps.backend();
                backend.sign(response.header.get_or_insert_default());
                return Ok(Some(response));
            }
        }
    }
}
