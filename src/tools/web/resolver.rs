//! Resolving host names.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

/// Finds the addresses of a host. They are checked before anything is connected to.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of `host`, in the order in which to try them.
    ///
    /// # Errors
    ///
    /// When the name cannot be resolved. The caller treats an empty list as an error as well.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}
