//! From names to addresses.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

/// Finds the addresses of a host. What it answers is checked before anything is connected to.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of `host`, those to try first in front.
    ///
    /// # Errors
    ///
    /// When the name cannot be resolved. No addresses are an error to the caller, too.
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
