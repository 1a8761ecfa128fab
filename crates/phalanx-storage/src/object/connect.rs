//! Clients of the stores, with a limit on every wait.

use crate::location::Scheme;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// How long a request may take, and how often it is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) request: Duration,
    pub(crate) retries: u32,
}

impl Limits {
    const LONGEST_PAUSE: Duration = Duration::from_secs(5);

    /// For requests that move at most some megabytes.
    pub(crate) const USUAL: Self =
        Self { connect: Duration::from_secs(5), request: Duration::from_secs(30), retries: 3 };

    /// For copies inside the store, which take as long as the object is large.
    pub(crate) const COPY: Self =
        Self { connect: Duration::from_secs(5), request: Duration::from_secs(300), retries: 1 };

    /// When one request with all its retries must be over.
    pub(crate) fn total(&self) -> Duration {
        self.request * (self.retries + 1) + Self::LONGEST_PAUSE * self.retries
    }

    fn retry(&self) -> RetryConfig {
        let backoff =
            BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Self::LONGEST_PAUSE, base: 2. };
        RetryConfig { backoff, max_retries: self.retries as usize, retry_timeout: self.total() - self.request }
    }

    fn options(&self) -> [(ClientConfigKey, String); 2] {
        let millis = |limit: Duration| format!("{} ms", limit.as_millis());
        [(ClientConfigKey::Timeout, millis(self.request)), (ClientConfigKey::ConnectTimeout, millis(self.connect))]
    }
}

/// A client for a bucket. Credentials, region and endpoint come from the variables that the stores' own tools use.
pub(crate) fn client(text: &str, scheme: Scheme, bucket: &str, limits: Limits) -> Result<Arc<dyn ObjectStore>> {
    // rustls keeps its cryptography in a slot of the process. It is the same whoever sets it first, so a second one that
    // comes too late is no error.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = match scheme {
        #[cfg(feature = "s3")]
        Scheme::S3 => s3(bucket, limits),
        #[cfg(feature = "gs")]
        Scheme::Gs => gs(bucket, limits),
        #[cfg(feature = "az")]
        Scheme::Az => az(bucket, limits),
        #[cfg(not(all(feature = "s3", feature = "gs", feature = "az")))]
        other => return Err(crate::location::not_built_in(text, other)),
    };
    client.map_err(|error| {
        let ours = Error::new(Code::StorageLocation, format!("cannot make a client for {text:?}"));
        ours.because(error).help(super::fault::credentials(text))
    })
}

#[cfg(feature = "s3")]
fn s3(bucket: &str, limits: Limits) -> object_store::Result<Arc<dyn ObjectStore>> {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(limits.retry());
    for (key, value) in limits.options() {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(feature = "gs")]
fn gs(bucket: &str, limits: Limits) -> object_store::Result<Arc<dyn ObjectStore>> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(limits.retry());
    for (key, value) in limits.options() {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(feature = "az")]
fn az(container: &str, limits: Limits) -> object_store::Result<Arc<dyn ObjectStore>> {
    use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(container).with_retry(limits.retry());
    for (key, value) in limits.options() {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    Ok(Arc::new(builder.build()?))
}
