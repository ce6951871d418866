//! Users and passwords as `Basic` authentication sends them.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::redact::percent_decoded;
use super::secret::Secret;

/// The variables with the addresses of proxies.
const PROXIES: [&str; 6] = [
    "ALL_PROXY",
    "all_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
];

/// The maximum length of the address of a proxy, in bytes.
const MAX_LEN: usize = 4 * 1024;

/// The credentials of the proxies, which stay registered until the process ends.
static OF_PROXIES: OnceLock<Vec<Secret>> = OnceLock::new();

/// Returns `user:password` of an address, with escapes decoded, as text and in base64. Returns
/// nothing if the address has neither.
pub(crate) fn credentials(user: &str, password: Option<&str>) -> Vec<String> {
    if user.is_empty() && password.is_none() {
        return Vec::new();
    }
    let (user, password) = (percent_decoded(user), password.map(percent_decoded));
    let pair = format!("{user}:{}", password.unwrap_or_default());
    let encoded_pair = STANDARD.encode(&pair);
    vec![pair, encoded_pair]
}

/// Returns the credentials of the proxies in the environment that the process began with. A proxy
/// may repeat them in its reply, which is read as that of the peer behind it.
pub(super) fn of_proxies() -> &'static [Secret] {
    OF_PROXIES.get_or_init(|| {
        let addresses = PROXIES
            .into_iter()
            .filter_map(|name| std::env::var(name).ok());
        let secrets = addresses.flat_map(|address| of_address(&address));
        secrets.map(Secret::from).collect()
    })
}

/// Returns the credentials in an address, which may be without a scheme.
fn of_address(address: &str) -> Vec<String> {
    if address.len() > MAX_LEN {
        return Vec::new();
    }
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user_info, _)) = authority.rsplit_once('@') else {
        return Vec::new();
    };
    match user_info.split_once(':') {
        Some((user, password)) => credentials(user, Some(password)),
        None => credentials(user_info, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_proxy_are_found_in_any_address() {
        for (address, pair, encoded_pair) in [
            ("http://u:pw@proxy.test:3128", "u:pw", "dTpwdw=="),
            ("u:pw@proxy.test:3128/?@", "u:pw", "dTpwdw=="),
            ("socks5h://u:p%40ss@proxy.test", "u:p@ss", "dTpwQHNz"),
            ("http://token@proxy.test/", "token:", "dG9rZW46"),
        ] {
            assert_eq!(of_address(address), [pair, encoded_pair], "{address}");
        }
        for address in ["", "http://proxy.test/@", "http://@proxy.test"] {
            assert!(of_address(address).is_empty(), "{address}");
        }
    }
}
