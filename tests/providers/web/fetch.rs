//! Results of `web_fetch`.

use std::time::Duration;

use agentcore::tool::{Access, SideEffect};
use agentcore::tools::web::WebFetch;
use agentcore::{Tool, ToolContext};
use serde_json::json;

use super::site::{Answer, Site, call, page, redirect, reply, text};

#[tokio::test]
async fn page_is_returned_with_title_address_and_status() {
    let html = "<html><head><title> A  page </title><style>p{}</style></head><body>\
        <script>alert(1)</script><h1>Hello</h1><p>Some <b>bold</b> <a href='/x'>text</a>.</p>";
    let site = Site::start(move |_| page("text/html; charset=utf-8", html)).await;
    let url = site.url("/a#part");
    let output = call(&site.tool(), json!({"url": url})).await.unwrap();
    let expected = format!(
        "Title: A page\nURL: {}\nStatus: 200 OK\n\n# Hello\n\nSome **bold** [text]({}).",
        site.url("/a"),
        site.url("/x")
    );
    assert_eq!(output.content.text(), expected);
    let details = output.details.unwrap();
    assert_eq!(details["status"], 200);
    assert_eq!(details["content_type"], "text/html");
    assert_eq!(details["title"], "A page");
    assert_eq!(details["bytes"], html.len());
    assert_eq!(details["truncated"], false);

    let heads = site.heads();
    assert!(heads[0].starts_with("get /a http/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains("accept-encoding: identity\r\n"));
    assert!(heads[0].contains("user-agent: agentcore/"));
    for absent in ["cookie", "authorization", "referer"] {
        assert!(!heads[0].contains(&format!("{absent}:")), "{}", heads[0]);
    }

    let raw = call(&site.tool(), json!({"url": url, "raw": true}))
        .await
        .unwrap();
    assert!(raw.content.text().ends_with(html));
}

#[tokio::test]
async fn text_json_and_xml_are_returned_unchanged() {
    for (content_type, body) in [
        ("text/plain", "a\n  b <b>"),
        ("text/markdown; charset=UTF-8", "# a"),
        ("application/json", "{\"a\": [1, 2]}"),
        ("application/ld+json", "{}"),
        ("APPLICATION/XML", "<a><b/></a>"),
        ("application/rss+xml", "<rss/>"),
        ("image/svg+xml", "<svg/>"),
        ("text/csv", "a,b"),
    ] {
        let site = Site::start(move |_| page(content_type, body)).await;
        let output = text(&site.tool(), &site.url("/")).await.unwrap();
        let expected = format!("URL: {}\nStatus: 200 OK\n\n{body}", site.url("/"));
        assert_eq!(output, expected, "{content_type}");
    }
}

#[tokio::test]
async fn other_content_types_are_rejected_unread() {
    for content_type in [
        "application/pdf",
        "image/png",
        "application/octet-stream",
        "nonsense",
    ] {
        let site = Site::start(move |_| page(content_type, "12345")).await;
        let error = text(&site.tool(), &site.url("/")).await.unwrap_err();
        assert!(
            error.contains(&format!("is {content_type} (5 bytes)")),
            "{error}"
        );
        assert!(error.contains("HTML, text, JSON and XML are"), "{error}");
    }

    let gzip = "content-type: text/html\r\ncontent-encoding: gzip\r\n";
    let site = Site::start(move |_| reply("200 OK", gzip, [0x1f, 0x8b])).await;
    let error = text(&site.tool(), &site.url("/")).await.unwrap_err();
    assert!(error.contains("compressed (gzip)"), "{error}");
}

#[tokio::test]
async fn body_without_a_content_type_is_sniffed() {
    for (body, shown) in [
        ("<!DOCTYPE html><p>Hi", "Hi"),
        (" <HTML><p>Hi", "Hi"),
        ("<p>Hi", "<p>Hi"),
    ] {
        let site = Site::start(move |_| reply("200 OK", "", body)).await;
        let output = text(&site.tool(), &site.url("/")).await.unwrap();
        assert!(output.ends_with(&format!("\n\n{shown}")), "{output}");
    }
}

#[tokio::test]
async fn character_encodings_are_detected_as_in_browsers() {
    let cases: [(&str, &[u8]); 7] = [
        ("text/html; charset=iso-8859-1", b"<p>gr\xf6\xdfe"),
        ("text/html; charset=\"windows-1252\"", b"<p>gr\xf6\xdfe"),
        ("text/html", b"<meta charset=latin1><p>gr\xf6\xdfe"),
        (
            "text/html",
            b"<meta http-equiv=content-type content='text/html; charset=latin1'><p>gr\xf6\xdfe",
        ),
        ("text/html", b"<p>gr\xf6\xdfe"),
        ("text/html", "<p>größe".as_bytes()),
        ("text/plain; charset=latin1", "\u{feff}größe".as_bytes()),
    ];
    for (content_type, body) in cases {
        let site = Site::start(move |_| page(content_type, body)).await;
        let output = text(&site.tool(), &site.url("/")).await.unwrap();
        assert!(output.ends_with("\n\ngröße"), "{content_type}: {output}");
    }

    let site = Site::start(|_| page("text/plain; charset=utf-16", b"\xff\xfea\0b\0")).await;
    assert!(
        text(&site.tool(), &site.url("/"))
            .await
            .unwrap()
            .ends_with("\n\nab")
    );
}

#[tokio::test]
async fn error_status_is_an_error_with_an_excerpt_of_the_body() {
    for (status, body) in [
        ("404 Not Found", "<h1>Gone</h1>"),
        ("500 Internal Server Error", "<p>Gone"),
        ("304 Not Modified", ""),
        ("302 Found", "no location: Gone"),
    ] {
        let html = "content-type: text/html\r\n";
        let site = Site::start(move |_| reply(status, html, body)).await;
        let error = text(&site.tool(), &site.url("/")).await.unwrap_err();
        assert!(
            error.contains(&format!("{} returned {status}: ", site.url("/"))),
            "{error}"
        );
        assert_eq!(error.contains("Gone"), !body.is_empty(), "{error}");
    }

    let long = "x".repeat(100_000);
    let site = Site::start(move |_| reply("403 Forbidden", "", &long)).await;
    let error = text(&site.tool(), &site.url("/")).await.unwrap_err();
    assert!(error.len() < 1_300, "{}", error.len());
}

#[tokio::test]
async fn redirects_within_a_host_are_followed_up_to_the_limit() {
    let site = Site::start(|path| match path {
        "/loop" => redirect("302 Found", "/loop"),
        "/5" => page("text/plain", "arrived"),
        path => {
            let next: u32 = path[1..].parse::<u32>().unwrap() + 1;
            redirect("301 Moved Permanently", &format!("{next}?"))
        }
    })
    .await;
    let site5 = Site::start(|path| match path.trim_end_matches('?') {
        "/5" => page("text/plain", "arrived"),
        path => redirect(
            "308 Permanent Redirect",
            &(path[1..].parse::<u32>().unwrap() + 1).to_string(),
        ),
    })
    .await;
    let output = text(&site5.tool(), &site5.url("/0")).await.unwrap();
    assert!(
        output.contains(&format!("URL: {}\n", site5.url("/5"))),
        "{output}"
    );
    let error = text(&site.tool(), &site.url("/loop")).await.unwrap_err();
    assert!(error.contains("redirected more than 5 times"), "{error}");
    assert_eq!(site.heads().len(), 6);
    let none = site5.tool().max_redirects(0);
    let output = text(&none, &site5.url("/4")).await.unwrap();
    assert!(output.contains(&format!(
        "redirects to {}, which was not followed",
        site5.url("/5")
    )));
}

#[tokio::test]
async fn redirect_to_another_host_is_returned_to_the_model() {
    for to in [
        "https://other.test/a?b=c",
        "http://127.0.0.1:80/",
        "//other.test/",
    ] {
        let site = Site::start(move |_| redirect("302 Found", to)).await;
        let tool = site.tool().policy(
            agentcore::tools::web::AddressPolicy::new()
                .allow_address(site.address)
                .allow_address("127.0.0.1:80".parse().unwrap()),
        );
        let output = call(&tool, json!({"url": site.url("/")})).await.unwrap();
        let target = output.details.unwrap()["redirect"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(output.content.text().contains(&target));
        assert!(
            target.contains(to.trim_start_matches("//").trim_end_matches(":80/")),
            "{target}"
        );
    }
}

#[tokio::test]
async fn long_text_is_returned_in_parts() {
    let body: String = (0..120_000)
        .map(|at| char::from(b'a' + (at % 26) as u8))
        .collect();
    let whole = body.clone();
    let site = Site::start(move |_| page("text/plain", &body)).await;
    let (tool, url) = (site.tool(), site.url("/"));
    let mut read = String::new();
    let mut offset = Some(0);
    while let Some(at) = offset {
        let output = call(&tool, json!({"url": url, "offset": at}))
            .await
            .unwrap();
        let page = output.content.text().into_owned();
        let part = page.split_once("\n\n").unwrap().1;
        let (part, next) = match part.split_once("\n\n... (") {
            Some((part, note)) => {
                let next = note.rsplit("continue with offset ").next().unwrap();
                (
                    part,
                    Some(next.trim_end_matches(')').parse::<usize>().unwrap()),
                )
            }
            None => (part, None),
        };

        assert!(part.len() <= 50_000);
        read.push_str(part);
        offset = next;
    }

    assert_eq!(read, whole);
    for args in [
        json!({"url": url, "offset": 3, "max_chars": 4}),
        json!({"url": url, "offset": 3.0, "max_chars": 4.0}),
    ] {
        let output = call(&tool, args).await.unwrap();
        let note = "defg\n\n... (119993 more characters; continue with offset 7)";
        assert!(
            output.content.text().ends_with(note),
            "{}",
            output.content.text()
        );
    }
    let beyond = call(&tool, json!({"url": url, "offset": 900_000}))
        .await
        .unwrap();
    assert!(
        beyond
            .content
            .text()
            .ends_with("(the page has only 120000 characters)")
    );
}

#[tokio::test]
async fn body_is_read_up_to_the_byte_limit() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_vec();
    let site = Site::start(move |_| Answer::Endless(head.clone(), vec![b'x'; 4096])).await;
    let tool = site.tool().max_bytes(10_000);
    let output = call(&tool, json!({"url": site.url("/")})).await.unwrap();
    let page = output.content.text().into_owned();
    assert!(
        page.ends_with("xx\n\n... (the page is larger than what is read; its rest is left out)")
    );
    assert_eq!(page.matches('x').count(), 10_000);
    let details = output.details.unwrap();
    assert_eq!(
        (&details["bytes"], &details["truncated"]),
        (&json!(10_000), &json!(true))
    );
}

#[tokio::test]
async fn byte_limit_of_the_maximum_takes_no_more_than_the_page() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2097152\r\n\r\n";
    let page = [head.as_slice(), &vec![b'x'; 2 << 20]].concat();
    let site = Site::start(move |_| Answer::Bytes(page.clone())).await;
    for limit in [usize::MAX, 1 << 46] {
        let tool = site.tool().max_bytes(limit);
        let output = call(&tool, json!({"url": site.url("/")})).await.unwrap();
        assert_eq!(output.details.unwrap()["bytes"], 2 << 20);
    }
}

#[tokio::test(start_paused = true)]
async fn silent_server_is_a_timeout() {
    for start in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx",
    ] {
        let site = Site::start(move |_| Answer::Stall(start.into())).await;
        let error = text(&site.tool(), &site.url("/")).await.unwrap_err();
        assert_eq!(error, "web_fetch: the page did not arrive within 30s");
        let tool = site.tool().timeout(Duration::from_secs(2));
        let error = text(&tool, &site.url("/")).await.unwrap_err();
        assert!(error.ends_with("within 2s"), "{error}");
    }
}

#[tokio::test]
async fn malformed_responses_are_errors() {
    for answer in [
        "",
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
        "HTTP/1.1 302 Found\r\nlocation: http://[\r\ncontent-length: 0\r\n\r\n",
    ] {
        let site = Site::start(move |_| Answer::Bytes(answer.into())).await;
        let error = text(&site.tool(), &site.url("/")).await.unwrap_err();
        assert!(error.starts_with("web_fetch: http://127.0.0.1"), "{error}");
    }
}

#[tokio::test]
async fn web_fetch_checks_arguments_and_declares_accesses() {
    let tool = WebFetch::new();
    for args in [
        json!({}),
        json!({"url": 1}),
        json!({"url": "https://a.test", "offset": -1}),
    ] {
        assert!(tool.execute(ToolContext::detached(), args).await.is_err());
    }

    assert_eq!(tool.side_effect(), SideEffect::Network);
    assert!(tool.is_idempotent());
    assert_eq!(Tool::timeout(&tool), Some(Duration::from_secs(35)));
    let accesses = |url: &str| tool.accesses(&json!({"url": url}));
    let url = |text: &str| Access::Url(text.into());
    assert_eq!(
        accesses("HTTPS://Public.TEST/a/../b#c"),
        [url("https://public.test/b")]
    );
    assert_eq!(accesses("file:///etc/passwd"), [url("file:///etc/passwd")]);
    assert!(tool.accesses(&json!({})).is_empty());
}
