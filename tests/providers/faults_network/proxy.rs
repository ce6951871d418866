//! Proxies that environment variables set.

use super::*;

/// The variable of the child process that [`n29_proxy_from_the_environment_is_used`] starts.
const ADDRESS: &str = "AGENTCORE_TEST_UNREACHABLE";

/// The header of the user `u` with the password `pw`.
const AUTHORIZATION: &str = "Basic dTpwdw==";

/// Runs in a process of its own, because the variables are read when the first client is built.
#[tokio::test(flavor = "multi_thread")]
async fn n29_proxy_from_the_environment_is_used() {
    if let Ok(url) = std::env::var(ADDRESS) {
        return in_child(&url).await;
    }

    let proxy = FaultServer::start().await.unwrap();
    for api in ALL {
        proxy.reply(api.text("through"));
    }

    for _ in ALL {
        let echo = format!("who are you? Proxy-Authorization: {AUTHORIZATION}");
        proxy.reply(Reply::new(407).send(echo));
    }

    let name = concat!(module_path!(), "::n29_proxy_from_the_environment_is_used");
    let url = proxy.url().replace("://", "://u:pw@");
    let variables = [
        (ADDRESS, "http://model.invalid"),
        ("HTTP_PROXY", &url),
        ("http_proxy", &url),
        ("NO_PROXY", ""),
        ("no_proxy", ""),
    ];
    run_alone(name, &variables).await;
    assert_eq!(proxy.requests().len(), 2 * ALL.len());
    for request in proxy.requests() {
        assert_eq!(request.header("host"), Some("model.invalid"));
        assert_eq!(request.header("proxy-authorization"), Some(AUTHORIZATION));
    }
}

async fn in_child(url: &str) {
    for api in ALL {
        let model = api.model(url, PATIENCE);
        let answer = model.call(api.request()).await.unwrap();
        assert_eq!(answer.text(), "through", "{api:?}");
    }
    for api in ALL {
        let model = api.model(url, PATIENCE);
        let error = model.call(api.request()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Proxy, "{api:?}: {error}");
        assert!(error.to_string().contains("who are you?"), "{error}");
        assert!(!format!("{error} {error:?}").contains("dTpw"), "{error:?}");
        assert_no_key(&error);
    }
}
