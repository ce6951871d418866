//! Names resolved to addresses that were checked.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::util::text::truncate_redacted;

use super::policy::{AddressPolicy, AddressRefused};
use super::resolver::Resolver;

/// The maximum length of a resolver's error in another error, in characters.
const MAX_ERROR_CHARS: usize = 500;

/// Returns the addresses of `host` that the policy allows, all of them if it is trusted.
///
/// # Errors
///
/// Returns an error if no address is left.
pub(crate) async fn addresses(
    policy: &AddressPolicy,
    resolver: &dyn Resolver,
    host: &str,
    port: u16,
    is_trusted: bool,
) -> Result<Vec<SocketAddr>, AddressRefused> {
    let ips = resolver.resolve(host).await.map_err(|error| {
        let error = truncate_redacted(&error.to_string(), MAX_ERROR_CHARS);
        AddressRefused(format!("{host} has no address: {error}"))
    })?;
    let mut addresses: Vec<_> = ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    if is_trusted {
        return Ok(addresses);
    }

    let mut refusal = AddressRefused(format!("{host} has no address"));
    addresses.retain(|address| match policy.check_address(*address) {
        Ok(()) => true,
        Err(refused) => {
            refusal = AddressRefused(format!(
                "{host} resolves to an address that is refused: {refused}"
            ));
            false
        }
    });

    if addresses.is_empty() {
        Err(refusal)
    } else {
        Ok(addresses)
    }
}

/// The resolver of a client for one host: each connection is to an address that was checked when it
/// was made.
pub(crate) struct Checked {
    policy: AddressPolicy,
    resolver: Arc<dyn Resolver>,
    port: u16,
    is_trusted: bool,
}

impl Checked {
    /// Creates the resolver for requests to the host and port of `url`, which has passed the
    /// policy.
    pub(crate) fn new(policy: &AddressPolicy, resolver: Arc<dyn Resolver>, url: &Url) -> Self {
        Self {
            policy: policy.clone(),
            resolver,
            port: url.port_or_known_default().unwrap_or_default(),
            is_trusted: policy.trusts(url),
        }
    }
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy.clone();
        let resolver = self.resolver.clone();
        let port = self.port;
        let is_trusted = self.is_trusted;
        Box::pin(async move {
            let host = name.as_str();
            let checked = addresses(&policy, &*resolver, host, port, is_trusted).await?;
            let checked: Addrs = Box::new(checked.into_iter());
            Ok(checked)
        })
    }
}
