//! `internet_search` with Brave and DuckDuckGo.

use std::time::Duration;

use agentcore::ErrorKind;
use agentcore::testing::Reply;
use agentcore::tools::web::{Brave, DuckDuckGo, SearchProvider, Tavily, internet_search};
use serde_json::{Value, json};

use super::site::call;
use crate::kit::serving::{last, serve, status, text};

const KEY: &str = "BSA-canary-0123456789";

/// Returns the text for the model, or the error.
async fn search(provider: impl SearchProvider, args: Value) -> Result<String, String> {
    let output = call(&internet_search(provider), args).await?;
    Ok(output.content.text().into_owned())
}

async fn brave(reply: Reply) -> Result<String, String> {
    let server = serve([reply]).await;
    let brave = Brave::new(KEY).base_url(&server.url()).unwrap();
    search(brave, json!({"query": "x"})).await
}

async fn duck(html: &str) -> Result<String, String> {
    let server = serve([status(200, "", html).close()]).await;
    let duck = DuckDuckGo::new().base_url(&server.url()).unwrap();
    search(duck, json!({"query": "x", "max_results": 2})).await
}

#[tokio::test]
async fn brave_returns_the_pages_of_the_web() {
    let body = json!({
        "type": "search",
        "query": {"original": "rust & go", "more_results_available": true},
        "mixed": {"type": "mixed", "main": [{"type": "web", "index": 0, "all": false}]},
        "web": {"type": "search", "family_friendly": true, "results": [
            {"title": "Rust", "url": "https://rust.test/", "description": "A\nlanguage.",
             "meta_url": {"hostname": "rust.test"}, "language": "en"},
            {"title": null, "url": "https://go.test/"},
        ]},
    });
    let reply = status(200, "content-type: application/json\r\n", &body.to_string());
    let server = serve([reply.close()]).await;
    let brave = Brave::new(KEY).base_url(&server.url()).unwrap();
    let output = search(brave, json!({"query": "rust & go", "max_results": 2})).await;
    assert_eq!(
        output.unwrap(),
        "Sources:\n- [Rust](https://rust.test/)\n  A language.\n\n\
         - [https://go.test/](https://go.test/)\n  \n\n"
    );
    let request = last(&server);
    assert_eq!(request.method, "GET");
    let path = "/res/v1/web/search?q=rust+%26+go&count=2&result_filter=web&text_decorations=false";
    assert_eq!(request.path, path);
    assert_eq!(request.header("x-subscription-token"), Some(KEY));
    assert!(!text(&request).contains("canary"));
}

#[tokio::test]
async fn brave_without_pages_finds_nothing() {
    for body in [
        r#"{"type":"search"}"#,
        r#"{"web":null}"#,
        r#"{"web":{"results":[]}}"#,
    ] {
        let output = brave(status(200, "", body).close()).await;
        assert_eq!(output.as_deref(), Ok("Nothing was found."), "{body}");
    }
    for body in [
        "",
        r#"{"web":{}}"#,
        r#"{"web":{"results":[{"title":"t"}]}}"#,
    ] {
        let error = brave(status(200, "", body).close()).await.unwrap_err();
        assert!(
            error.starts_with("Brave: the reply cannot be read: "),
            "{error}"
        );
    }
}

#[tokio::test]
async fn error_statuses_of_brave_have_a_hint_and_no_key() {
    let detail = |text: &str| {
        let error = json!({"id": "1", "status": 422, "code": "INVALID", "detail": text});
        json!({"type": "ErrorResponse", "error": error}).to_string()
    };
    for (code, headers, body, expected) in [
        (
            401,
            "",
            detail(&format!("The token {KEY} is wrong.")),
            "status 401: the key is not accepted; check BRAVE_API_KEY (The token [redacted] is wrong.)",
        ),
        (
            422,
            "",
            detail("The provided subscription token is invalid."),
            "status 422: the search was refused (The provided subscription token is invalid.)",
        ),
        (
            429,
            "retry-after: 1\r\n",
            String::new(),
            "status 429: too many searches; try again in 1 seconds",
        ),
        (
            302,
            "location: http://127.0.0.1:1/\r\n",
            String::new(),
            "status 302: the search was refused",
        ),
    ] {
        let error = brave(status(code, headers, &body).close())
            .await
            .unwrap_err();
        assert_eq!(error, format!("Brave: {expected}"));
    }

    let brave = Brave::new(format!("{KEY}\n"));
    assert!(!format!("{brave:?}").contains("canary"));
    let error = search(brave, json!({"query": "x"})).await.unwrap_err();
    assert_eq!(
        error,
        "Brave: the key has characters that no header may have"
    );
}

/// A page of results as DuckDuckGo sends it.
fn page(results: &str) -> String {
    format!(
        "<!DOCTYPE html><html><head><title>x at DuckDuckGo</title></head><body class='body--html'>\
         <div><div class='serp__results'><div id='links' class='results'>{results}</div></div></div>"
    )
}

fn result(class: &str, href: &str, title: &str, snippet: &str) -> String {
    format!(
        "<div class='result results_links results_links_deep {class}'>\
         <div class='links_main links_deep result__body'><h2 class='result__title'>\n\
         <a rel='nofollow' class='result__a' href='{href}'>{title}</a></h2>\
         <div class='result__extras'><a class='result__url' href='{href}'> a.test </a></div>\
         <a class='result__snippet' href='{href}'>{snippet}</a></div></div>"
    )
}

#[tokio::test]
async fn duckduckgo_returns_the_pages_without_advertisements() {
    let link = |url: &str| format!("//duckduckgo.com/l/?uddg={url}&amp;rut=0a1b");
    let html = page(
        &[
            result(
                "result--ad",
                &link("https%3A%2F%2Fad.test%2F"),
                "Buy",
                "Now",
            ),
            result(
                "web-result",
                "//duckduckgo.com/y.js?ad_domain=b.test",
                "Buy",
                "Now",
            ),
            result(
                "web-result",
                &link("https%3A%2F%2Fwww.rust.test%2Fa%3Fb%3D1%26c"),
                "The <b>Rust</b> language",
                "Fast &amp; <b>safe</b>\n code.",
            ),
            result("web-result", "https://go.test/", "Go", ""),
            result("web-result", "https://zig.test/", "Zig", "The third"),
        ]
        .concat(),
    );
    let server = serve([status(200, "content-type: text/html\r\n", &html).close()]).await;
    let duck = DuckDuckGo::new().base_url(&server.url()).unwrap();
    let output = search(duck, json!({"query": "rust & go", "max_results": 2})).await;
    assert_eq!(
        output.unwrap(),
        "Sources:\n- [The Rust language](https://www.rust.test/a?b=1&c)\n  Fast & safe code.\n\n\
         - [Go](https://go.test/)\n  \n\n"
    );
    let request = last(&server);
    assert_eq!(
        (&*request.method, &*request.path),
        ("GET", "/html/?q=rust+%26+go")
    );
}

#[tokio::test]
async fn duckduckgo_names_the_pages_that_are_no_results() {
    let none = result("result--no-result", "", "", "No results.");
    for html in [
        page(""),
        page(&none),
        page("<div class='no-results'>No results.</div>"),
    ] {
        assert_eq!(
            duck(&html).await.as_deref(),
            Ok("Nothing was found."),
            "{html}"
        );
    }

    let challenge = "<form id='challenge-form' action='//duckduckgo.com/anomaly.js?a=b'>\
                     <div class='anomaly-modal__modal'><div class='anomaly-modal__title'>Bots use \
                     DuckDuckGo too</div></div></form>";
    let person = "DuckDuckGo: it asks for a person, after too many searches; try again later";
    assert_eq!(duck(challenge).await.unwrap_err(), person);
    let server = serve([status(202, "", "<p>Wait</p>").close()]).await;
    let provider = DuckDuckGo::new().base_url(&server.url()).unwrap();
    assert_eq!(
        search(provider, json!({"query": "x"})).await.unwrap_err(),
        person
    );

    for html in ["", "<p>Welcome</p>", "{}"] {
        let error = duck(html).await.unwrap_err();
        assert_eq!(error, "DuckDuckGo: the reply is no page of results");
    }
    let server = serve([status(403, "", "").close()]).await;
    let provider = DuckDuckGo::new().base_url(&server.url()).unwrap();
    let error = search(provider, json!({"query": "x"})).await.unwrap_err();
    assert_eq!(error, "DuckDuckGo: status 403: the search was refused");
}

#[tokio::test]
async fn hostile_pages_of_duckduckgo_give_only_web_pages() {
    let hrefs = [
        "javascript:alert(1)",
        "//duckduckgo.com/l/?uddg=file%3A%2F%2F%2Fetc%2Fpasswd",
        "//duckduckgo.com/l/?uddg=https%3A%2F%2Fduckduckgo.com%2Fy.js",
        "//duckduckgo.com/l/",
        "http://[",
        "relative",
    ];
    let results = hrefs
        .map(|href| result("web-result", href, "t", "s"))
        .concat();
    assert_eq!(
        duck(&page(&results)).await.as_deref(),
        Ok("Nothing was found.")
    );

    let deep = format!(
        "{}{}",
        "<div>".repeat(100_000),
        result("", "https://a.test/", "t", "s")
    );
    duck(&page(&deep)).await.unwrap();
    let long = result(
        "",
        "https://a.test/",
        &"<b>t</b>".repeat(20_000),
        &"s".repeat(500_000),
    );
    assert!(duck(&page(&long)).await.unwrap().len() < 5_000);
    let huge = duck(&"x".repeat(3 * 1024 * 1024)).await.unwrap_err();
    assert_eq!(huge, "DuckDuckGo: the reply is longer than 2097152 bytes");
}

#[tokio::test(start_paused = true)]
async fn silent_services_are_timeouts() {
    let server = serve([Reply::raw().stall(), Reply::raw().stall()]).await;
    let brave = Brave::new(KEY).base_url(&server.url()).unwrap();
    let error = search(brave, json!({"query": "x"})).await.unwrap_err();
    assert_eq!(error, "Brave: no reply within 30s");
    let duck = DuckDuckGo::new().base_url(&server.url()).unwrap();
    let duck = duck.timeout(Duration::from_secs(3));
    let error = search(duck, json!({"query": "x"})).await.unwrap_err();
    assert_eq!(error, "DuckDuckGo: no reply within 3s");
}

/// A service without a key may repeat the key of another service, in any spelling.
#[tokio::test]
async fn refusal_of_duckduckgo_has_no_key_of_another_service() {
    let _brave = Brave::new(KEY);
    let escaped: String = KEY.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
    for body in [
        format!("bad key {KEY}"),
        format!(r#"{{"detail": {{"error": "bad key {escaped}"}}}}"#),
    ] {
        let server = serve([status(401, "", &body).close()]).await;
        let duck = DuckDuckGo::new().base_url(&server.url()).unwrap();
        let error = search(duck, json!({"query": "x"})).await.unwrap_err();
        assert_eq!(
            error,
            "DuckDuckGo: status 401: the search was refused (bad key [redacted])"
        );
    }
}

#[test]
fn debug_texts_of_services_show_the_host_alone() {
    let url = "https://user-12345:word-67890@h.test/path-12345?key=key-67890";
    let brave = Brave::new(KEY).base_url(url).unwrap();
    let tavily = Tavily::new(KEY).base_url(url).unwrap();
    let duck = DuckDuckGo::new().base_url(url).unwrap();
    for text in [
        format!("{brave:?}"),
        format!("{tavily:?}"),
        format!("{duck:?}"),
    ] {
        assert!(text.contains("h.test"), "{text}");
        for part in ["12345", "67890"] {
            assert!(!text.contains(part), "{text}");
        }
    }
}

#[test]
fn base_urls_are_http_or_https() {
    for url in ["", "localhost", "ftp://a.test"] {
        let error = Brave::new(KEY).base_url(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(
            error.to_string(),
            "Brave: the base URL is not http or https"
        );
        assert!(DuckDuckGo::new().base_url(url).is_err());
    }
}
