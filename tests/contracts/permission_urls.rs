//! Rules for addresses, and the spellings of addresses.

use agentcore::permission::{Behavior, PermissionRules, Rule};
use agentcore::{FuncTool, ToolCall};
use serde_json::json;

use crate::kit::any_object;

fn verdict(rules: &[&str], url: &str) -> Behavior {
    let tool = FuncTool::new("WebFetch", "", any_object(), |_, _| async { "" });
    let call = ToolCall::new("c", "WebFetch", json!({"url": url}));
    let rules = rules.iter().map(|rule| rule.parse::<Rule>().unwrap());
    let permissions = rules.fold(PermissionRules::new(), PermissionRules::rule);
    permissions.explain(&call, &tool).decision
}

fn assert_all(rules: &[&str], cases: &[(&str, Behavior)]) {
    for (url, expected) in cases {
        assert_eq!(verdict(rules, url), *expected, "{rules:?} {url}");
    }
}

use Behavior::{Allow, Ask, Deny};

#[test]
fn international_domain_names_are_compared_as_punycode() {
    for rule in [
        "allow:WebFetch(domain:bücher.example)",
        "allow:WebFetch(domain:BÜCHER.example)",
        "allow:WebFetch(domain:xn--bcher-kva.example)",
        "allow:WebFetch(https://bücher.example/*)",
    ] {
        assert_all(
            &[rule],
            &[
                ("https://bücher.example/", Allow),
                ("https://xn--bcher-kva.example/", Allow),
                ("https://XN--BCHER-KVA.example/x", Allow),
                ("https://bucher.example/", Ask),
                // A letter with a combining accent, a wide letter, another full stop.
                ("https://bu\u{308}cher.example/", Ask),
                ("https://ｂücher.example/", Ask),
                ("https://bücher。example/", Ask),
            ],
        );
    }

    let same = [
        ("münchen.example", "xn--mnchen-3ya.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("пример.example", "xn--e1afmkfd.example"),
        ("例え.example", "xn--r8jz45g.example"),
        ("ελλάδα.example", "xn--hxakic4aa.example"),
        ("한국.example", "xn--3e0b707e.example"),
        ("a.ü.example", "a.xn--tda.example"),
    ];
    for (name, ascii) in same {
        let rule = format!("deny:WebFetch(domain:{name})");
        assert_eq!(
            verdict(&[&rule], &format!("https://{ascii}/")),
            Deny,
            "{name}"
        );
        let rule = format!("deny:WebFetch(domain:{ascii})");
        assert_eq!(
            verdict(&[&rule], &format!("https://{name}/")),
            Deny,
            "{name}"
        );
    }
}

#[test]
fn ambiguous_urls_are_denied_and_never_allowed() {
    let rules = [
        "allow:WebFetch(domain:example)",
        "allow:WebFetch(domain:example.com)",
        "deny:WebFetch(domain:evil.test)",
    ];
    for url in [
        "https:evil.test/",
        "https:/evil.test/",
        "http:evil.test",
        "https:///evil.test/",
        "//evil.test/",
        "https://evil.test\\@example.com/",
        "https://evil\u{ff0e}test/",
        "https://ev\u{ad}il.test/",
        "https://evil.te\tst/",
        "https://ev%69l.test/",
        "https://user@evil.test/",
        "https://example.com:evil.test/",
        "https://example..com/",
        "https://exa mple.com/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0177.0.0.1/",
        "https://example.com:99999/",
        "https://[::1/",
        "https://[::1%25lo]/",
    ] {
        assert_eq!(verdict(&rules, url), Deny, "{url}");
    }
}

#[test]
fn domain_rules_accept_ports_and_ip_addresses() {
    assert_all(
        &["allow:WebFetch(domain:example.com:8080)"],
        &[
            ("http://example.com:8080/", Allow),
            ("https://a.example.com:8080/", Allow),
            ("https://example.com/", Ask),
            ("https://example.com:80800/", Ask),
        ],
    );
    assert_all(
        &["deny:WebFetch(domain:example.com:443)"],
        &[
            ("https://example.com/", Deny),
            ("https://example.com:0443/", Deny),
            ("http://example.com/", Ask),
        ],
    );
    assert_all(
        &[
            "deny:WebFetch(domain:[::1])",
            "deny:WebFetch(domain:127.0.0.1)",
        ],
        &[
            ("http://[0:0:0:0:0:0:0:1]/", Deny),
            ("http://[::0001]:8000/", Deny),
            ("http://127.0.0.1./", Deny),
            ("http://1.127.0.0.1.example/", Ask),
            ("http://[::2]/", Ask),
        ],
    );
    for rule in [
        "deny:WebFetch(domain:example.com:x)",
        "deny:WebFetch(domain:example.com:70000)",
        "deny:WebFetch(domain:127.1)",
        "deny:WebFetch(domain:[::x])",
        "deny:WebFetch(domain:a..b)",
        "deny:WebFetch(domain:ｗide.example)",
        "deny:WebFetch(https://exam%70le.com/*)",
        "deny:WebFetch(https://*.bücher.example/)",
    ] {
        assert!(rule.parse::<Rule>().is_err(), "{rule}");
    }
}

#[test]
fn rules_about_whole_addresses_compare_the_host_and_the_port() {
    assert_all(
        &["allow:*", "deny:WebFetch(http://evil.test:8080/**)"],
        &[
            ("http://evil.test:8080/x", Deny),
            ("http://EVIL.test.:8080/x", Deny),
            ("http://evil.test:08080/x", Deny),
            ("http://evil.test:8081/x", Allow),
            ("http://evil.test/x", Allow),
        ],
    );
    for rule in [
        "http://evil.test:80/**",
        "http://Evil.test.:080/**",
        "http://evil.test:/**",
        "http://*vil.test./**",
        "*://evil.test:*/**",
    ] {
        assert_all(
            &["allow:*", &format!("deny:WebFetch({rule})")],
            &[
                ("http://evil.test/x", Deny),
                ("http://evil.test:80/x", Deny),
                ("http://evil.test.:80/x", Deny),
                ("http://other.test/x", Allow),
            ],
        );
    }
    assert_all(
        &[
            "allow:*",
            "deny:WebFetch(http://[::1]/**)",
            "deny:WebFetch(http://[::2]:81/**)",
        ],
        &[
            ("http://[0::1]/x", Deny),
            ("http://[::1]:80/x", Deny),
            ("http://[::1]:81/x", Allow),
            ("http://[0:0::2]:81/x", Deny),
            ("http://[::2]/x", Allow),
        ],
    );
}

#[test]
fn url_paths_are_compared_after_normalization() {
    assert_all(
        &[
            "allow:WebFetch(https://example.com/docs/*)",
            "deny:WebFetch(https://example.com/docs/secret/*)",
        ],
        &[
            ("https://example.com/docs/a", Allow),
            ("https://example.com/docs/a/b?c=%2e%2e/", Allow),
            ("https://example.com/docs/%61", Allow),
            ("https://example.com/docs/%2f", Allow),
            ("https://example.com/docs/../admin", Ask),
            ("https://example.com/docs/%2e%2e/admin", Ask),
            ("https://example.com/docs/%2E./admin", Ask),
            ("https://example.com/docs/.%2e/admin", Ask),
            ("https://example.com/docs/secret/a", Deny),
            ("https://example.com/docs/%73ecret/a", Deny),
            ("https://example.com/docs//secret/a", Deny),
            ("https://example.com/docs/./secret/a", Deny),
            ("https://example.com/docs/x/../secret/a", Deny),
            ("https://example.com:8443/docs/a", Ask),
            ("http://example.com/docs/a", Ask),
            ("https://a.example.com/docs/a", Ask),
            ("https://example.com/docs", Ask),
        ],
    );
}

#[test]
fn doubled_slashes_are_read_in_both_ways() {
    assert_all(
        &["allow:WebFetch(https://example.com/docs/**)"],
        &[
            ("https://example.com/docs//a", Allow),
            ("https://example.com/docs/?next=//b", Allow),
            ("https://example.com//docs/a", Ask),
            ("https://example.com/.//docs/a", Ask),
            ("https://example.com/other//../docs/a", Ask),
            ("https://example.com/docs/a//../../b", Ask),
            ("https://example.com/docs/..;x//../a", Ask),
            ("https://example.com/docs/..%2f..//../a", Ask),
        ],
    );
    assert_all(
        &["allow:*", "deny:WebFetch(https://example.com/other/**)"],
        &[
            ("https://example.com//other/a", Deny),
            ("https://example.com/other//../docs/a", Deny),
            ("https://example.com/docs//../other/a", Deny),
            ("https://example.com//docs/a", Allow),
        ],
    );
    assert_all(
        &["allow:*", "deny:WebFetch(https://example.com/a/key)"],
        &[
            ("https://example.com/a/x//../..//key", Deny),
            ("https://example.com/a//keys", Allow),
        ],
    );
}

#[test]
fn wildcard_of_a_path_may_match_the_query() {
    for (rule, url) in [
        (
            "https://*/*=http://*",
            "https://h.test/go?url=http://evil.test/",
        ),
        (
            "https://*/*redirect=//*",
            "https://h.test/a?redirect=//evil.test",
        ),
        ("https://h.test/.?*", "https://h.test/.git/config"),
        ("https://h.test/*/../*", "https://h.test/a/?p=x/../y"),
    ] {
        let rules = ["allow:*", &format!("deny:WebFetch({rule})")];
        assert_all(&rules, &[(url, Deny), ("https://h.test/x", Allow)]);
    }
}

#[test]
fn address_of_ipv4_in_ipv6_is_the_ipv4_address() {
    assert_all(
        &["allow:WebFetch", "deny:WebFetch(domain:169.254.169.254)"],
        &[
            ("http://[::ffff:169.254.169.254]/", Deny),
            ("http://[::ffff:a9fe:a9fe]/", Deny),
            ("http://[::ffff:169.254.169.253]/", Allow),
        ],
    );
}

#[test]
fn allowed_domain_covers_web_pages_alone() {
    assert_all(
        &["allow:WebFetch(domain:example.com)"],
        &[
            ("http://example.com/", Allow),
            ("file://example.com/etc/passwd", Ask),
            ("gopher://example.com:6379/_FLUSHALL", Ask),
        ],
    );
}

#[test]
fn encoded_slash_after_two_dots_is_not_covered() {
    assert_all(
        &["allow:WebFetch(https://example.com/docs/*)"],
        &[
            ("https://example.com/docs/a%2Fb", Allow),
            ("https://example.com/docs/..%2fadmin", Ask),
            ("https://example.com/docs/%2e%2e%2Fadmin", Ask),
        ],
    );
}
