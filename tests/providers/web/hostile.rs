//! Pages that would occupy a thread or fill the memory.

use std::time::Duration;

use agentcore::tools::web::WebFetch;
use serde_json::json;

use super::site::{Site, call, page, text};

/// The time limit of a conversion. One that exceeds it would not end by itself.
const AT_MOST: Duration = Duration::from_secs(600);

const REST: &str = "(the page is larger than what is read; its rest is left out)";

async fn output_of(html: String, tool: impl Fn(WebFetch) -> WebFetch) -> Result<String, String> {
    let site = Site::start(move |_| page("text/html", &html)).await;
    let tool = tool(site.tool().timeout(AT_MOST));
    text(&tool, &site.url("/")).await
}

async fn markdown(html: String) -> String {
    let output = output_of(html, |tool| tool).await.unwrap();
    output.split_once("\n\n").unwrap().1.to_owned()
}

fn attributes(count: usize, between: &str) -> String {
    (0..count).map(|n| format!("{between}a{n}")).collect()
}

#[tokio::test]
async fn element_with_450000_attributes_is_cut() {
    let many = attributes(450_000, " ");
    let html = format!("<p>start</p><!-- <a \" --><p{many}>end");
    let output = markdown(html).await;
    assert!(output.starts_with("start"), "{output:.200}");
    assert!(output.ends_with(REST), "{output:.200}");
}

#[tokio::test]
async fn repeated_attribute_names_end_quickly() {
    let html = format!("<p{}>end", " a".repeat(450_000));
    // Separators without a name are counted like attributes, so the page may be cut.
    let output = output_of(html, |tool| tool).await.unwrap();
    assert!(output.contains("Status: 200"), "{output:.200}");
}

#[tokio::test]
async fn long_comments_and_attribute_values_are_not_cut() {
    let prose = "some words and \"more\" ".repeat(3_200);
    let data: String = (0..3_000)
        .map(|n| format!("\"key{n}\":\"value\","))
        .collect();
    let html = format!("<!-- {prose} --><div data-page='{data}'><p>end</p></div>");
    assert_eq!(markdown(html).await, "end");
}

#[tokio::test]
async fn reopened_formatting_elements_do_not_copy_their_attributes() {
    let many = attributes(10_000, " ");
    let html = format!("<p><b{many}>{}", "<p>x".repeat(25_000));
    let output = markdown(html).await;
    assert!(output.starts_with("**x**"), "{output:.200}");
}

#[tokio::test]
async fn long_attribute_values_of_reopened_elements_are_bounded() {
    let long = "y".repeat(1_000_000);
    let html = format!("<p><a href=u title={long}>{}", "<p>x".repeat(25_000));
    let output = output_of(html, |tool| tool).await.unwrap();
    assert!(output.contains("Status: 200"), "{output:.200}");
}

#[tokio::test]
async fn long_base_is_not_repeated_in_every_link() {
    let long = "A".repeat(1_000_000);
    let links = "<a href=x>y</a>".repeat(40_000);
    let site = Site::start(move |_| {
        page(
            "text/html",
            format!("<base href='http://host/{long}/'>{links}"),
        )
    })
    .await;
    let output = text(&site.tool().timeout(AT_MOST), &site.url("/dir/"))
        .await
        .unwrap();
    assert!(output.contains(&format!("[y]({})", site.url("/dir/x"))));
}

#[tokio::test]
async fn nested_captions_are_not_converted_twice_at_each_level() {
    let levels = 60;
    let html = format!(
        "<p>start</p>{}end{}",
        "<table><caption>".repeat(levels),
        "</caption><thead></thead></table>".repeat(levels)
    );
    let output = markdown(html).await;
    assert!(output.starts_with("start"), "{output:.200}");
}

#[tokio::test]
async fn nested_quotes_and_lists_do_not_multiply_their_content() {
    let lines = "a\n".repeat(400_000);
    for (open, count) in [("<blockquote>", 500), ("<ul><li>", 250), ("<ol><li>", 250)] {
        let html = format!("<p>start</p>{}<pre>{lines}", open.repeat(count));
        let output = markdown(html).await;
        assert!(output.starts_with("start"), "{open}: {output:.200}");
    }
}

#[tokio::test]
async fn wide_tables_are_not_padded() {
    let wide = "w".repeat(1_000_000);
    let rows = "<tr><td>a".repeat(20_000);
    let html = format!("<p>start</p><table><tr><th>{wide}{rows}</table>");
    let output = markdown(html).await;
    assert!(output.starts_with("start"), "{output:.200}");
    let cells = format!(
        "<p>start</p><table><tr>{}{}</table>",
        "<th>a".repeat(20_000),
        "<tr><td>b".repeat(14_000)
    );
    let output = markdown(cells).await;
    assert!(output.starts_with("start"), "{output:.200}");
}

#[tokio::test]
async fn many_inline_elements_are_joined_quickly() {
    let piece = format!("<i>{}</i>", "z".repeat(100));
    let output = markdown(piece.repeat(45_000)).await;
    assert!(output.starts_with("*zzz"), "{output:.200}");
}

/// Returns the number of threads of this process with this name.
#[cfg(target_os = "linux")]
fn busy_threads(name: &str) -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    tasks
        .flatten()
        .filter(|task| read(task.path().join("comm")).trim_end() == name)
        .count()
}

/// The variable of the child process that counts its threads: in this process, other tests convert
/// pages at the same time.
#[cfg(target_os = "linux")]
const ALONE: &str = "AGENTCORE_TEST_ALONE";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_thread_is_left_after_calls_that_timed_out() {
    if std::env::var_os(ALONE).is_none() {
        let name = "web::hostile::no_thread_is_left_after_calls_that_timed_out";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}");
        return;
    }

    let spans = "<i>a</i><b>b</b>".repeat(20_000);
    for html in [
        format!("<p{}>", attributes(450_000, " ")),
        format!("{}{}", "<table><caption>".repeat(200), "x"),
        format!("{}{}", "<blockquote>".repeat(500), "a\n".repeat(1_000_000)),
        "<p><b><i><u>x</p>".repeat(200_000),
        format!("{}{spans}", "<div>".repeat(500)),
    ] {
        let site = Site::start(move |_| page("text/html", &html)).await;
        let tool = site.tool().timeout(Duration::from_millis(250));
        for _ in 0..3 {
            // The call may or may not end in time.
            let _ = call(&tool, json!({"url": site.url("/")})).await;
        }
    }

    // Linux cuts the name of a thread at 15 bytes.
    let busy = || busy_threads("agentcore-compu");
    let begun = std::time::Instant::now();
    while busy() > 0 && begun.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(busy(), 0);
}

#[tokio::test]
async fn quoted_headers_in_errors_are_short() {
    let long = "l".repeat(9_000);
    let location = format!("http://[{long}");
    let kind = format!("nonsense/{long}");
    let site = Site::start(move |path| match path {
        "/redirect" => super::site::redirect("302 Found", &location),
        "/coding" => super::site::reply(
            "200 OK",
            &format!("content-type: text/html\r\ncontent-encoding: {long}\r\n"),
            "",
        ),
        _ => page(&kind, ""),
    })
    .await;
    for path in ["/redirect", "/coding", "/kind"] {
        let error = text(&site.tool(), &site.url(path)).await.unwrap_err();
        assert!(error.len() < 1_000, "{path}: {} bytes", error.len());
    }
}
