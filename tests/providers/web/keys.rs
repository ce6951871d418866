//! Keys at the offsets where texts of servers are cut.

use agentcore::tools::web::{SearchProvider, SearchResults, Source, internet_search};
use agentcore::{BoxError, Secret, async_trait};
use serde_json::{Value, json};

use super::site::{Site, call, page, redirect, reply};
use crate::kit::keys::assert_no_leak;

const KEY: &str = "qjzwvxkqzhgjwyxqvzkwjqxzgkvqwzxhqjkzvbwtpd";

/// Returns everything that a call returns, or its error.
async fn output(site: &Site, mut args: Value) -> String {
    args["url"] = site.url("/").into();
    match call(&site.tool(), args).await {
        Ok(output) => format!("{}\n{:?}", output.content.text(), output.details),
        Err(error) => error,
    }
}

/// A text with the key after `before` characters.
fn text_with_key(before: usize) -> String {
    format!("{}{KEY}{}", ".".repeat(before), ",".repeat(3_000))
}

#[tokio::test]
async fn quote_of_an_error_page_shows_no_part_of_a_key() {
    let _known = Secret::new(KEY);
    for content_type in ["text/plain", "text/html"] {
        for before in (950..1_000).step_by(6) {
            let headers = format!("content-type: {content_type}\r\n");
            let site = Site::start(move |_| {
                reply("500 Internal Server Error", &headers, text_with_key(before))
            })
            .await;
            let error = output(&site, json!({})).await;
            assert!(error.contains("returned 500"), "{error}");
            assert_no_leak(&error, KEY, &format!("{content_type} {before}"));
        }
    }
}

#[tokio::test]
async fn no_part_of_a_page_shows_a_part_of_a_key() {
    let _known = Secret::new(KEY);
    let site = Site::start(|_| page("text/plain", text_with_key(500))).await;
    for edge in (500..545).step_by(4) {
        let start = output(&site, json!({"max_chars": edge})).await;
        assert_no_leak(&start, KEY, &format!("to {edge}"));
        let rest = output(&site, json!({"offset": edge})).await;
        assert_no_leak(&rest, KEY, &format!("from {edge}"));
    }

    // Offsets count characters of the redacted page.
    let part = output(&site, json!({"offset": 498, "max_chars": 15})).await;
    assert!(part.contains("\n\n..[redacted],,,\n\n"), "{part}");
}

#[tokio::test]
async fn page_beyond_the_byte_limit_shows_no_part_of_a_key_at_its_cut() {
    let _known = Secret::new(KEY);
    for content_type in ["text/plain", "text/html"] {
        let site = Site::start(move |_| page(content_type, text_with_key(500))).await;
        for limit in (504..542).step_by(4) {
            let tool = site.tool().max_bytes(limit);
            let output = call(&tool, json!({"url": site.url("/")})).await.unwrap();
            let text = output.content.text().into_owned();
            assert!(text.contains("[redacted]"), "{text}");
            assert_no_leak(&text, KEY, &format!("{content_type} {limit}"));
        }
    }
}

#[tokio::test]
async fn cut_title_and_attribute_show_no_part_of_a_key() {
    let _known = Secret::new(KEY);
    for before in (255..300).step_by(4) {
        let html = format!("<title>{}</title><p>Hello", text_with_key(before));
        let site = Site::start(move |_| page("text/html", &html)).await;
        let output = output(&site, json!({})).await;
        assert!(output.contains("Title: "), "{output}");
        assert_no_leak(&output, KEY, &format!("title {before}"));
    }

    for before in (8_192 - 40..8_192).step_by(4) {
        let html = format!("<p><img alt='{}' src='/x.png'>", text_with_key(before));
        let site = Site::start(move |_| page("text/html", &html)).await;
        let output = output(&site, json!({})).await;
        assert!(output.contains("!["), "{output}");
        assert_no_leak(&output, KEY, &format!("attribute {before}"));
    }
}

#[tokio::test]
async fn quoted_headers_show_no_part_of_a_key() {
    let _known = Secret::new(KEY);
    for before in (255..300).step_by(4) {
        let filler = "x".repeat(before);
        let value = format!("{filler}{KEY}{}", "y".repeat(300));
        let location = format!("http://[{value}");
        let coding = format!("content-type: text/html\r\ncontent-encoding: {value}\r\n");
        let media = format!("content-type: {value}\r\n");
        let answers = [
            redirect("302 Found", &location),
            reply("200 OK", &coding, ""),
            reply("200 OK", &media, ""),
        ];
        for answer in answers {
            let site = Site::start(move |_| answer.clone()).await;
            let error = output(&site, json!({})).await;
            assert!(error.contains("xxxx"), "{error}");
            assert_no_leak(&error, KEY, &format!("{before}"));
        }
    }
}

#[tokio::test]
async fn refused_url_shows_no_part_of_a_key() {
    let _known = Secret::new(KEY);
    for before in (60..100).step_by(4) {
        let url = format!("ftp://a.test/{}{KEY}/more", "x".repeat(before - 13));
        let site = Site::start(move |_| redirect("302 Found", &url)).await;
        let error = output(&site, json!({})).await;
        assert!(error.contains("is not http or https"), "{error}");
        assert_no_leak(&error, KEY, &format!("{before}"));
    }
}

#[tokio::test]
async fn cut_texts_of_a_search_show_no_part_of_a_key() {
    struct Long(usize);

    #[async_trait]
    impl SearchProvider for Long {
        async fn search(&self, query: &str, _limit: usize) -> Result<SearchResults, BoxError> {
            let text = |limit: usize| format!("{}{KEY},,,,", ".".repeat(limit - self.0));
            if query == "fail" {
                return Err(text(10_000).into());
            }
            let field = text(2_000);
            let source = Source::new(field.clone(), field.clone(), field);
            Ok(SearchResults::new(vec![source]).with_answer(text(10_000)))
        }
    }

    let _known = Secret::new(KEY);
    for shown in (4..42).step_by(5) {
        let tool = internet_search(Long(shown));
        let output = call(&tool, json!({"query": "q"})).await.unwrap();
        let all = format!("{}\n{:?}", output.content.text(), output.details);
        assert_no_leak(&all, KEY, &format!("result {shown}"));
        let error = call(&tool, json!({"query": "fail"})).await.unwrap_err();
        assert_no_leak(&error, KEY, &format!("error {shown}"));
    }
}
