//! Addresses that no page, name or redirect may lead to.

use std::io;
use std::net::IpAddr;

use agentcore::async_trait;
use agentcore::permission::PermissionRules;
use agentcore::testing::ScriptedModel;
use agentcore::tools::web::{AddressPolicy, Resolver, WebFetch};
use serde_json::json;

use super::site::{Names, Site, page, redirect, text};
use crate::kit::{agent, results};

/// A server that must not receive a request.
async fn secret() -> Site {
    Site::start(|_| page("text/plain", "secret")).await
}

#[tokio::test]
async fn loopback_addresses_in_any_spelling_are_refused() {
    let site = secret().await;
    let port = site.address.port();
    let tool = WebFetch::new().policy(AddressPolicy::new().allow_port(port));
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "localhost",
        "[::ffff:7f00:1]",
    ] {
        let error = text(&tool, &format!("http://{host}:{port}/"))
            .await
            .unwrap_err();
        assert!(error.contains("not fetched"), "{error}");
    }

    assert!(site.heads().is_empty());
}

#[tokio::test]
async fn name_that_resolves_to_a_private_address_is_refused() {
    let site = secret().await;
    let port = site.address.port();
    for ip in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
    ] {
        let names = Names::new(&[&[ip]]);
        let policy = AddressPolicy::new().allow_port(port);
        let tool = WebFetch::new().policy(policy).resolver(names.clone());
        let url = format!("http://public.test:{port}/");
        let error = text(&tool, &url).await.unwrap_err();
        assert!(
            error.contains("public.test resolves to an address that is refused"),
            "{error}"
        );
        assert!(error.contains(ip.trim_start_matches("::ffff:")), "{error}");
        assert_eq!(names.asked(), ["public.test"]);
    }

    assert!(site.heads().is_empty());
}

#[tokio::test]
async fn only_allowed_addresses_of_a_name_are_connected() {
    let open = Site::start(|_| page("text/plain", "open")).await;
    let port = open.address.port();
    let hidden = Site::at(&format!("127.0.0.2:{port}"), |_| {
        page("text/plain", "secret")
    })
    .await;
    let names = Names::new(&[&["127.0.0.2", "127.0.0.1", "10.0.0.1"]]);
    let tool = open.tool().resolver(names);
    let output = text(&tool, &format!("http://public.test:{port}/"))
        .await
        .unwrap();
    assert!(output.ends_with("\n\nopen"), "{output}");
    assert!(hidden.heads().is_empty());
}

#[tokio::test]
async fn rebound_name_connects_to_the_checked_address() {
    let open = Site::start(|_| page("text/plain", "open")).await;
    let port = open.address.port();
    let hidden = Site::at(&format!("127.0.0.2:{port}"), |_| {
        page("text/plain", "secret")
    })
    .await;

    // The name resolves to an allowed address first, and to a forbidden one at the next lookup.
    let names = Names::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let tool = open.tool().resolver(names.clone());
    let url = format!("http://rebind.test:{port}/");
    let output = text(&tool, &url).await.unwrap();
    assert!(output.ends_with("\n\nopen"), "{output}");
    assert_eq!(names.asked().len(), 1);

    // The next call resolves the name again, gets the other address, and has no pooled connection
    // to fall back on.
    let error = text(&tool, &url).await.unwrap_err();
    assert!(error.contains("127.0.0.2 is a loopback address"), "{error}");
    assert_eq!(names.asked().len(), 2);
    assert!(hidden.heads().is_empty());
}

#[tokio::test]
async fn each_redirect_target_is_checked() {
    let hidden = secret().await;
    let elsewhere = hidden.url("/");
    let site = Site::start(move |path| match path {
        "/literal" => redirect("302 Found", &elsewhere),
        "/metadata" => redirect("301 Moved", "http://169.254.169.254/latest/"),
        "/name" => redirect("307 Temporary", "http://localhost/"),
        "/file" => redirect("302 Found", "file:///etc/passwd"),
        "/user" => redirect("302 Found", "https://user:pw@public.test/"),
        "/port" => redirect("302 Found", "http://public.test:22/"),
        _ => redirect("302 Found", "gopher://public.test/"),
    })
    .await;
    for path in [
        "/literal",
        "/metadata",
        "/name",
        "/file",
        "/user",
        "/port",
        "/gopher",
    ] {
        let error = text(&site.tool(), &site.url(path)).await.unwrap_err();
        assert!(
            error.contains("redirects to a URL that is refused"),
            "{error}"
        );
        assert!(!error.contains("user:pw"), "{error}");
    }

    assert!(hidden.heads().is_empty());
}

#[tokio::test]
async fn redirect_within_a_host_is_resolved_and_checked_again() {
    let site = Site::start(|path| match path {
        "/" => redirect("302 Found", "/next"),
        _ => page("text/plain", "arrived"),
    })
    .await;
    let port = site.address.port();
    let names = Names::new(&[&["127.0.0.1"], &["10.0.0.1"]]);
    let tool = site.tool().resolver(names);
    let error = text(&tool, &format!("http://rebind.test:{port}/"))
        .await
        .unwrap_err();
    assert!(error.contains("10.0.0.1 is"), "{error}");
    assert_eq!(site.heads().len(), 1);
}

#[tokio::test]
async fn permission_rules_apply_to_the_redirect_target() {
    let site = Site::start(|_| redirect("302 Found", "https://evil.test/page")).await;
    let first = site.url("/");
    let model = ScriptedModel::new()
        .call("web_fetch", json!({"url": first}))
        .call("web_fetch", json!({"url": "https://evil.test/page"}))
        .say("done");
    let rules = PermissionRules::new()
        .allow("WebFetch(domain:127.0.0.1)")
        .unwrap()
        .deny("WebFetch(domain:evil.test)")
        .unwrap();
    let agent = agent(model)
        .tool(site.tool())
        .permissions(rules)
        .build()
        .unwrap();
    let output = agent.run("Read it.").await.unwrap();
    let results = results(&output.messages);
    let error = results[0].content.text();
    assert!(
        error.contains("redirects to https://evil.test/page, which was not followed"),
        "{error}"
    );
    assert!(!results[0].is_error);
    assert!(results[1].is_error, "{:?}", results[1]);
    assert!(
        results[1].content.text().contains("evil.test"),
        "{:?}",
        results[1]
    );
}

#[tokio::test]
async fn name_without_an_address_is_an_error() {
    struct Nowhere(String);

    #[async_trait]
    impl Resolver for Nowhere {
        async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
            Err(io::Error::other(self.0.clone()))
        }
    }

    let tool = WebFetch::new().resolver(Nowhere("no such name".to_owned()));
    let error = text(&tool, "https://public.test/").await.unwrap_err();
    assert_eq!(error, "web_fetch: public.test has no address: no such name");
    let tool = WebFetch::new().resolver(Nowhere("x".repeat(1_000_000)));
    let error = text(&tool, "https://public.test/").await.unwrap_err();
    assert!(error.len() < 1_000, "{} bytes", error.len());
    let tool = WebFetch::new().resolver(Names::new(&[&[]]));
    let error = text(&tool, "https://public.test/").await.unwrap_err();
    assert_eq!(error, "web_fetch: public.test has no address");
}

#[tokio::test]
async fn allowed_host_may_have_any_address() {
    let site = Site::start(|_| page("text/plain", "hello")).await;
    let port = site.address.port();
    let policy = AddressPolicy::new()
        .allow_host(&format!("wiki.corp:{port}"))
        .unwrap();
    let tool = WebFetch::new()
        .policy(policy)
        .resolver(Names::new(&[&["127.0.0.1"]]));
    let output = text(&tool, &format!("http://wiki.corp:{port}/"))
        .await
        .unwrap();
    assert!(output.ends_with("\n\nhello"), "{output}");
    for other in [
        format!("http://a.wiki.corp:{port}/"),
        "http://wiki.corp/".to_owned(),
    ] {
        let error = text(&tool, &other).await.unwrap_err();
        assert!(error.contains("not fetched"), "{error}");
    }
}
