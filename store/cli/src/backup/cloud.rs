//! Object stores: S3, Google Cloud Storage, Azure. Credentials come from the environment.

mod connector;
mod cryptography;

use std::sync::Arc;
use std::time::Duration;

use backup::BackupPlace;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::HttpConnector;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};

use self::connector::Connections;
use self::cryptography::OwnCryptography;
use crate::failure::Failure;

/// Time for one request, and for its repetitions. The backup repeats it then, and says so.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// The place of a URL.
pub(super) fn open(url: &str) -> Result<BackupPlace, Failure> {
    let unusable = |problem: &dyn std::fmt::Display| {
        Failure::wrong_use(
            format_args!("{url}: {problem}"),
            "Name a folder, s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER.",
        )
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(unusable(&"it is no URL"));
    };
    let root = rest.split_once('/').map_or("", |(_, folder)| folder);
    let root = Path::parse(root.trim_matches('/')).map_err(|error| unusable(&error))?;
    let connections = Connections::new().map_err(|error| unusable(&error))?;
    let store = match scheme {
        "s3" => s3(url, connections),
        "gs" => google(url, connections),
        "az" => azure(url, connections),
        _ => return Err(unusable(&"there is no such kind of place")),
    };
    Ok(BackupPlace::new(
        store.map_err(|error| unusable(&error))?,
        root,
    ))
}

type Opened = object_store::Result<Arc<dyn ObjectStore>>;

fn s3(url: &str, connections: impl HttpConnector) -> Opened {
    let builder = AmazonS3Builder::from_env().with_url(bucket_of(url));
    let value = |key| builder.get_config_value(&key).unwrap_or_default();
    let endpoint = value(AmazonS3ConfigKey::Endpoint);
    let allowed = value(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    // A request would be repeated again and again.
    if endpoint.starts_with("http://") && allowed != "true" {
        return Err(object_store::Error::NotSupported {
            source: format!(
                "{endpoint} is reached without TLS; if that is meant, set AWS_ALLOW_HTTP=true"
            )
            .into(),
        });
    }
    let builder = builder
        .with_http_connector(connections)
        .with_crypto_provider(Arc::new(OwnCryptography));
    Ok(Arc::new(builder.with_retry(retry()).build()?))
}

fn google(url: &str, connections: impl HttpConnector) -> Opened {
    let builder = GoogleCloudStorageBuilder::from_env().with_url(bucket_of(url));
    let builder = builder
        .with_http_connector(connections)
        .with_crypto_provider(Arc::new(OwnCryptography));
    Ok(Arc::new(builder.with_retry(retry()).build()?))
}

fn azure(url: &str, connections: impl HttpConnector) -> Opened {
    let builder = MicrosoftAzureBuilder::from_env().with_url(bucket_of(url));
    let builder = builder
        .with_http_connector(connections)
        .with_crypto_provider(Arc::new(OwnCryptography));
    Ok(Arc::new(builder.with_retry(retry()).build()?))
}

/// The URL without a folder, which the place adds itself.
fn bucket_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let bucket = rest.split('/').next().unwrap_or_default();
    format!("{scheme}://{bucket}")
}

fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: 2,
        retry_timeout: REQUEST_TIME_MAX,
        ..RetryConfig::default()
    }
}

/// Whether a store may be reached without TLS: the variable AWS_ALLOW_HTTP and its like.
fn allows_plain(options: &ClientOptions) -> bool {
    let allowed = options.get_config_value(&ClientConfigKey::AllowHttp);
    allowed.as_deref() == Some("true")
}
