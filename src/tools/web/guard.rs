//! Connections to addresses that were checked, and to no others.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url};

use crate::net::{AddressPolicy, AddressRefused, Resolver, addresses};
use crate::util::http_client::{self, Scheme};

/// A source of clients that connect only to checked addresses.
pub(super) struct Guard {
    pub(super) policy: AddressPolicy,
    pub(super) resolver: Arc<dyn Resolver>,
}

impl Guard {
    /// Returns a client for requests to `url`, which has passed the policy.
    ///
    /// The name is resolved here, once, and the client uses the result: a second lookup could have
    /// another. Each client has its own connections, and none uses a proxy, which would resolve the
    /// name itself.
    pub(super) async fn client(&self, url: &Url) -> Result<Client, AddressRefused> {
        let addresses = self.addresses(url).await?;
        let make_error = |why: String| AddressRefused(why);
        http_client::builder(Scheme::of(url))
            .map_err(|error| make_error(error.to_string()))?
            .no_proxy()
            .pool_max_idle_per_host(0)
            .dns_resolver(Pinned(addresses))
            .build()
            .map_err(|error| make_error(http_client::describe(error)))
    }

    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, AddressRefused> {
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(AddressRefused("the URL names no host".to_owned()));
        };
        if url.domain().is_none() {
            // Clients do not resolve an IP address, and the policy has already checked this one.
            return Ok(Vec::new());
        }
        let is_trusted = self.policy.trusts(url);
        addresses(&self.policy, &*self.resolver, host, port, is_trusted).await
    }
}

/// Resolves every name to the addresses of one host.
struct Pinned(Vec<SocketAddr>);

impl Resolve for Pinned {
    fn resolve(&self, _name: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(ready(Ok(addresses)))
    }
}
