//! `internet_search` with Tavily.

use std::time::Duration;

use agentcore::testing::{FaultServer, Reply};
use agentcore::tools::web::{
    SearchProvider, SearchResults, Source, Tavily, internet_search, web_search,
};
use agentcore::{BoxError, ErrorKind, async_trait};
use serde_json::{Value, json};

use super::site::call;
use crate::kit::serving::{last, serve, status, text};

const KEY: &str = "tvly-canary-0123456789";

fn reply(line: &str, headers: &str, body: &str) -> Reply {
    let code = line.split(' ').next().unwrap().parse().unwrap();
    status(code, headers, body).close()
}

async fn search(reply: Reply, args: Value) -> (Result<String, String>, FaultServer) {
    let server = serve([reply]).await;
    let tavily = Tavily::new(KEY).base_url(&server.url()).unwrap();
    let search_output = call(&internet_search(tavily), args).await;
    (
        search_output.map(|output| output.content.text().into_owned()),
        server,
    )
}

async fn error(reply: Reply) -> String {
    let (outcome, _server) = search(reply, json!({"query": "x"})).await;
    let error = outcome.unwrap_err();
    assert!(error.starts_with("Tavily: "), "{error}");
    assert!(!error.contains("canary"), "{error}");
    error
}

#[tokio::test]
async fn answer_is_returned_with_its_sources() {
    let body = json!({
        "query": "tallest mountain",
        "follow_up_questions": null,
        "answer": "Mount Everest, 8,849 m.",
        "images": [],
        "results": [
            {"title": "Everest", "url": "https://a.test/1", "content": "It is\n\n8,849 m  high.", "score": 0.98, "raw_content": null},
            {"title": null, "url": "https://b.test/2", "content": null, "score": 0.5},
        ],
        "response_time": 1.2,
        "request_id": "r",
    });

    let (outcome, server) = search(
        reply(
            "200 OK",
            "content-type: application/json\r\n",
            &body.to_string(),
        ),
        json!({"query": "  tallest mountain ", "max_results": 2}),
    )
    .await;
    assert_eq!(
        outcome.unwrap(),
        "Answer: Mount Everest, 8,849 m.\n\nSources:\n\
         - [Everest](https://a.test/1)\n  It is 8,849 m high.\n\n\
         - [https://b.test/2](https://b.test/2)\n  \n\n"
    );
    let request = last(&server);
    assert_eq!((&*request.method, &*request.path), ("POST", "/search"));
    let key = format!("Bearer {KEY}");
    assert_eq!(request.header("authorization"), Some(key.as_str()));
    let body = request.json();
    assert_eq!(
        (&body["query"], &body["max_results"]),
        (&json!("tallest mountain"), &json!(2))
    );
    assert_eq!(body["include_answer"], true);
    assert!(!text(&request).contains("canary"));
}

#[tokio::test]
async fn partial_search_results_are_formatted() {
    let source = r#"{"title":"t","url":"u","content":"c"}"#;
    for (body, expected) in [
        (r#"{"results":[]}"#.to_owned(), "Nothing was found."),
        (
            r#"{"answer":"a","results":[]}"#.to_owned(),
            "Answer: a\n\nNo sources.",
        ),
        (
            format!(r#"{{"answer":null,"results":[{source}]}}"#),
            "Sources:\n- [t](u)\n  c\n\n",
        ),
        (
            format!(r#"{{"answer":" ","results":[{source}]}}"#),
            "Sources:\n- [t](u)\n  c\n\n",
        ),
    ] {
        let (outcome, _server) = search(reply("200 OK", "", &body), json!({"query": "x"})).await;
        assert_eq!(outcome.as_deref(), Ok(expected));
    }
}

#[tokio::test]
async fn error_statuses_have_a_hint_and_no_key() {
    let detail = format!(r#"{{"detail":{{"error":"Unauthorized: invalid API key {KEY}."}}}}"#);
    for (status, headers, body, expected) in [
        (
            "401 Unauthorized",
            "",
            detail.as_str(),
            "status 401: the key is not accepted; check TAVILY_API_KEY (Unauthorized: invalid API key [redacted].)",
        ),
        (
            "429 Too Many Requests",
            "retry-after: 30\r\n",
            "{}",
            "status 429: too many searches; try again in 30 seconds ({})",
        ),
        (
            "429 Too Many Requests",
            "",
            "",
            "status 429: too many searches; try again later",
        ),
        (
            "432 Plan",
            "",
            r#"{"detail":"limit"}"#,
            "status 432: the plan's limit is reached (limit)",
        ),
        (
            "503 Unavailable",
            "",
            "<html>",
            "status 503: the service has a fault; try again later (<html>)",
        ),
        (
            "400 Bad Request",
            "",
            r#"{"error":"query"}"#,
            "status 400: the search was refused (query)",
        ),
        (
            "302 Found",
            "location: http://127.0.0.1:1/\r\n",
            "",
            "status 302: the search was refused",
        ),
    ] {
        assert_eq!(
            error(reply(status, headers, body)).await,
            format!("Tavily: {expected}")
        );
    }

    let long = "z".repeat(1_000_000);
    assert!(error(reply("500 Oops", "", &long)).await.len() < 500);
}

#[tokio::test]
async fn malformed_search_replies_are_errors() {
    for body in [
        "",
        "not json",
        "[]",
        r#"{"answer":"a"}"#,
        r#"{"results":[{"title":"t"}]}"#,
    ] {
        let error = error(reply("200 OK", "", body)).await;
        assert!(error.contains("the reply cannot be read"), "{error}");
    }

    let huge = format!("[{}]", " ".repeat(3 * 1024 * 1024));
    let error_text = error(reply("200 OK", "", &huge)).await;
    assert!(
        error_text.contains("longer than 2097152 bytes"),
        "{error_text}"
    );
    let incomplete = Reply::raw().send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{");
    error(incomplete.close()).await;
    error(Reply::raw().close()).await;
}

#[tokio::test(start_paused = true)]
async fn silent_search_service_is_a_timeout() {
    assert_eq!(
        error(Reply::raw().stall()).await,
        "Tavily: no reply within 30s"
    );
    let server = serve([Reply::raw().stall()]).await;
    let tavily = Tavily::new(KEY).base_url(&server.url()).unwrap();
    let tool = internet_search(tavily.timeout(Duration::from_secs(3)));
    let late = call(&tool, json!({"query": "x"})).await.unwrap_err();
    assert_eq!(late, "Tavily: no reply within 3s");
}

#[tokio::test]
async fn invalid_search_settings_are_config_errors_without_the_key() {
    for url in ["", "localhost", "ftp://a.test", "file:///x"] {
        let error = Tavily::new(KEY).base_url(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(!error.to_string().contains("canary"));
    }
    let tavily = Tavily::new(KEY);
    assert!(!format!("{tavily:?} {tavily:#?}").contains("canary"));
}

#[tokio::test]
async fn queries_and_results_are_bounded() {
    struct Many;

    #[async_trait]
    impl SearchProvider for Many {
        async fn search(&self, query: &str, limit: usize) -> Result<SearchResults, BoxError> {
            assert!(limit <= 20);
            let page = Source::new(format!("{query}\n- [x](y)"), "u", "s".repeat(100_000));
            Ok(SearchResults::new(vec![page; 100]).with_answer("a".repeat(100_000)))
        }
    }

    let tool = internet_search(Many);
    let output = call(&tool, json!({"query": "q", "max_results": 9_000}))
        .await
        .unwrap();
    let text = output.content.text().into_owned();
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("- [q - [x](y)](u)"))
            .count(),
        20
    );
    assert!(text.len() < 60_000, "{}", text.len());
    for query in ["", " \n", &"q".repeat(1_001)] {
        assert!(call(&tool, json!({"query": query})).await.is_err());
    }
    assert!(call(&tool, json!({})).await.is_err());
}

#[tokio::test]
async fn long_error_of_a_search_provider_is_cut() {
    struct Fails(usize);

    #[async_trait]
    impl SearchProvider for Fails {
        async fn search(&self, _query: &str, _limit: usize) -> Result<SearchResults, BoxError> {
            Err("e".repeat(self.0).into())
        }
    }

    for (len, shown_len) in [(300, 300), (2_000_000, 10_000)] {
        let tool = internet_search(Fails(len));
        let error = call(&tool, json!({"query": "q"})).await.unwrap_err();
        assert_eq!(error.to_string().len(), shown_len);
    }
}

#[tokio::test]
async fn web_search_is_the_same_tool_with_the_argument_count() {
    struct Echo;

    #[async_trait]
    impl SearchProvider for Echo {
        async fn search(&self, query: &str, limit: usize) -> Result<SearchResults, BoxError> {
            Ok(SearchResults::default().with_answer(format!("{limit} times {query}")))
        }
    }

    let tool = web_search(Echo);
    let schema = agentcore::Tool::parameters(&tool);
    assert_eq!(agentcore::Tool::name(&tool), "web_search");
    assert_eq!(schema["properties"]["count"]["maximum"], 20);
    for count in [json!(3), json!(3.0)] {
        let output = call(&tool, json!({"query": "x", "count": count}))
            .await
            .unwrap();
        assert_eq!(output.content.text(), "Answer: 3 times x\n\nNo sources.");
    }
}
