//! HTML as Markdown, ordinary and hostile.

use std::time::Duration;

use super::site::{Site, page, text};

async fn markdown(html: String) -> Result<String, String> {
    let site = Site::start(move |_| page("text/html", &html)).await;
    let tool = site.tool().timeout(Duration::from_secs(600));
    let output = text(&tool, &site.url("/dir/")).await?;
    let output = output.replace(&site.url(""), "http://host");
    Ok(output.split_once("\n\n").unwrap().1.to_owned())
}

#[tokio::test]
async fn visible_content_is_converted_to_markdown() {
    for (html, expected) in [
        (
            "<h2>A</h2><p>b <em>c</em> <code>d</code></p>",
            "## A\n\nb *c* `d`",
        ),
        ("<ul><li>a<li>b<ul><li>c</ul></ul>", "- a\n- b\n  - c"),
        ("<ol><li>a<li>b</ol>", "1. a\n2. b"),
        (
            "<pre><code>fn a() {\n  b\n}</code></pre>",
            "```\nfn a() {\n  b\n}\n```",
        ),
        ("<a href='b?c=1'>x</a>", "[x](http://host/dir/b?c=1)"),
        (
            "<base href='/other/'><a href=b>x</a>",
            "[x](http://host/other/b)",
        ),
        ("<a href='javascript:alert(1)'>x</a>", "[x](javascript:)"),
        (
            "<img alt=a src='data:image/png;base64,AAAA'>",
            "![a](data:)",
        ),
        (
            "a<script>b</script><style>c</style><noscript>d</noscript><template>e</template>f",
            "af",
        ),
        ("<p>a &amp; b &lt;c&gt;", "a & b <c>"),
        ("<!-- x --><?php y ?><p>a", "a"),
        ("<body></body>", "(the page has no text)"),
        ("", "(the page has no text)"),
    ] {
        let text = markdown(html.to_owned()).await.unwrap();
        let plain = text.replace("\\<", "<").replace("\\>", ">");
        assert_eq!(plain, expected, "{html}");
    }

    let table = "<table><tr><th>a<th>b<tr><td>1<td>2</table>";
    let text = markdown(table.to_owned()).await.unwrap();
    assert!(text.contains("| a") && text.contains("| 1"), "{text}");
}

#[tokio::test]
async fn deep_nesting_is_cut_and_never_overflows_the_stack() {
    let deep = |open: &str, close: &str| {
        format!("<p>start{}x{}", open.repeat(100_000), close.repeat(100_000))
    };

    for (open, close) in [
        ("<div>", "</div>"),
        ("<b>", ""),
        ("<ul><li>", ""),
        ("<blockquote>", ""),
        ("<table><tr><td>", ""),
        ("<table><div>", ""),
        ("<span><div>", "</div></span>"),
        ("<svg><g>", ""),
        ("<select><option>", ""),
        ("<template>", ""),
        ("<div><marquee></div>", ""),
    ] {
        let text = markdown(deep(open, close)).await.unwrap();
        assert!(text.starts_with("start"), "{open}: {text:.200}");
        assert!(
            text.ends_with("(the page is larger than what is read; its rest is left out)"),
            "{open}"
        );
    }
}

#[tokio::test]
async fn moderate_nesting_is_kept() {
    let html = format!("{}here{}", "<div>".repeat(400), "</div>".repeat(400));
    assert_eq!(markdown(html).await.as_deref(), Ok("here"));
    let quotes = format!("{}here", "<blockquote>".repeat(100));
    assert!(markdown(quotes).await.unwrap().ends_with("> here"));
}

#[tokio::test]
async fn expensive_pages_are_cut() {
    let rest = "(the page is larger than what is read; its rest is left out)";
    for (piece, count) in [
        ("<i>a</i>", 150_000),
        ("<table>a<a>", 150_000),
        ("<!---->", 200_000),
        ("<p><b><i>x</p>", 60_000),
        ("<a href=x>", 100_000),
    ] {
        let text = markdown(format!("<p>start</p>{}", piece.repeat(count)))
            .await
            .unwrap();
        assert!(text.starts_with("start"), "{piece}: {text:.200}");
        // The text may also be longer than what one call returns.
        assert!(
            text.ends_with(rest) || text.contains("more characters; continue"),
            "{piece}"
        );
    }

    // A long plain text is cheap, and is not cut.
    let text = "word ".repeat(9_000);
    assert_eq!(markdown(text.clone()).await.as_deref(), Ok(text.trim()));
}

#[tokio::test]
async fn titles_are_cut_and_in_one_line() {
    let html = format!(
        "<title>a\n\nURL: x {}</title><title>b</title>",
        "y".repeat(9_000)
    );
    let site = Site::start(move |_| page("text/html", &html)).await;
    let output = text(&site.tool(), &site.url("/")).await.unwrap();
    let title = output.lines().next().unwrap();
    assert!(
        title.starts_with("Title: a URL: x yyy") && title.ends_with("..."),
        "{title}"
    );
    assert_eq!(title.len(), "Title: ".len() + 300);
}
