//! Servers with TLS and certificates that are trusted or not. The child that trusts them is the
//! test itself.

use agentcore::ErrorKind;
use agentcore::session::ServerOptions;

use super::own::{Own, Startable};
use crate::session_stores::crash::{child_with, name, runtime, say};
use crate::session_stores::places::said;

/// The variable with the path of the trusted certificates.
const TRUSTED: &str = "SSL_CERT_FILE";
const URL: &str = "AGENTCORE_TLS_URL";

fn is_trusted_by_its_certificate<K: Startable>(test: &str) {
    if let Ok(url) = std::env::var(URL) {
        let store = K::open(&url, ServerOptions::default()).unwrap();
        return runtime().block_on(async {
            let lease = store.lease("a").await.unwrap();
            store.append(&lease, vec![said("one")]).await.unwrap();
            let session = store.load("a").await.unwrap().unwrap();
            say(&format!("{} stored", session.state.messages.len()));
        });
    }

    let Some(server) = Own::start_secure::<K>() else {
        return;
    };

    let url = K::secure_url_at(server.port());
    let store = K::open(&url, ServerOptions::default()).unwrap();
    let distrusted = runtime().block_on(store.list()).unwrap_err();
    assert_eq!(distrusted.kind(), ErrorKind::Tls, "{distrusted}");
    assert!(distrusted.text().contains("certificate"), "{distrusted}");

    let authority = server.folder().join("ca.pem");
    let run = |url: &str| {
        let child = child_with(
            test,
            [(TRUSTED, authority.as_os_str()), (URL, url.as_ref())],
        );
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };

    let (is_fine, output_text) = run(&url);
    assert!(
        is_fine && output_text.contains("@1 stored"),
        "{output_text}"
    );

    // The certificate is not valid for the address.
    let (is_fine, output_text) = run(&url.replace("localhost", "127.0.0.1"));
    assert!(!is_fine && output_text.contains("[Tls]"), "{output_text}");
}

#[cfg(feature = "postgres")]
#[test]
fn real_postgres_certificate_is_verified() {
    let test = name!("real_postgres_certificate_is_verified");
    is_trusted_by_its_certificate::<agentcore::session::PostgresStore>(test);
}

#[cfg(feature = "redis")]
#[test]
fn real_redis_certificate_is_verified() {
    let test = name!("real_redis_certificate_is_verified");
    is_trusted_by_its_certificate::<agentcore::session::RedisStore>(test);
}
