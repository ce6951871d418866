//! Proxies of the environment.

use std::process::Command;

use super::*;

/// Set for the child process that [`n29_a_proxy_of_the_environment_is_asked`] starts.
const ADDRESS: &str = "AGENTCORE_TEST_UNREACHABLE";

/// The environment is read when the first client is made, so this runs in a process of its own.
#[tokio::test(flavor = "multi_thread")]
async fn n29_a_proxy_of_the_environment_is_asked() {
    if let Ok(url) = std::env::var(ADDRESS) {
        return in_child(&url).await;
    }
    let proxy = FaultServer::start().await.unwrap();
    for api in ALL {
        proxy.reply(api.text("through"));
    }
    for _ in ALL {
        proxy.reply(Reply::new(407).send("who are you?"));
    }
    let name = concat!(module_path!(), "::n29_a_proxy_of_the_environment_is_asked");
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    let (url, name) = (proxy.url(), name.to_owned());
    let child = tokio::task::spawn_blocking(move || {
        Command::new(std::env::current_exe().unwrap())
            .args([&name, "--exact", "--nocapture"])
            .env(ADDRESS, "http://model.invalid")
            .env("HTTP_PROXY", &url)
            .env("http_proxy", &url)
            .env_remove("NO_PROXY")
            .env_remove("no_proxy")
            .output()
            .unwrap()
    });
    let output = child.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("1 passed"), "{said}");
    assert_eq!(proxy.requests().len(), 2 * ALL.len());
    for request in proxy.requests() {
        assert_eq!(request.header("host"), Some("model.invalid"));
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
        assert_no_key(&error);
    }
}
