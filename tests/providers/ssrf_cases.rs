//! Addresses that may or may not be fetched, one per row of `tests/data/ssrf_cases.tsv`.
//!
//! A row is an address; or `resolves IP | ADDRESS`, where the host name resolves to that IP; or
//! `rule RULE | ADDRESS`, the decision of permissions about the call, and with ` -> 302 ADDRESS`
//! about the call that a redirect to another host makes.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use agentcore::message::ToolCall;
use agentcore::permission::{Behavior, PermissionRules};
use agentcore::tools::web::{AddressPolicy, WebFetch};
use serde_json::json;

const ROWS: &str = include_str!("../data/ssrf_cases.tsv");

fn address(url: &str) -> Result<(), String> {
    let policy = AddressPolicy::new();
    policy.check_url(url).map_err(|refused| refused.to_string())
}

fn resolved(ip: &str, url: &str) -> Result<(), String> {
    address(url)?;
    let port = if url.starts_with("https") { 443 } else { 80 };
    let to = SocketAddr::new(ip.parse().unwrap(), port);
    let checked = AddressPolicy::new().check_address(to);
    checked.map_err(|refused| refused.to_string())
}

fn rule(rule: &str, way: &str) -> Behavior {
    let permissions = PermissionRules::new()
        .allow(&format!("WebFetch({rule})"))
        .unwrap();
    let url = way.rsplit(" -> 302 ").next().unwrap();
    let call = ToolCall::new("c", "web_fetch", json!({"url": url}));
    permissions.explain(&call, &WebFetch::new()).decision
}

fn decision(row: &str) -> &'static str {
    let outcome = match row.split_once(" | ") {
        Some((kind, url)) => match kind.split_once(' ').unwrap() {
            ("resolves", ip) => resolved(ip, url),
            ("rule", text) => match rule(text, url) {
                Behavior::Allow => return "allow",
                Behavior::Ask => return "ask",
                Behavior::Deny => return "deny",
            },
            other => panic!("unknown kind of row {other:?}"),
        },
        None => address(row),
    };

    if outcome.is_ok() { "allow" } else { "deny" }
}

#[test]
fn every_address_case_is_decided_as_listed() {
    let mut wrong = Vec::new();
    let mut rows = BTreeSet::new();
    for line in ROWS.lines().skip(1) {
        let (row, expected) = line.split_once('\t').unwrap();
        assert!(rows.insert(row), "{row} is repeated");
        let actual = decision(row);
        if actual != expected {
            wrong.push(format!("{row}: expected {expected}, got {actual}"));
        }
    }

    assert!(rows.len() > 300, "{} rows", rows.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn control_characters_in_addresses_are_rejected() {
    for url in [
        "http://public.test/\n",
        "http://public\t.test/",
        "http://public.test/\r\nHost: x",
        "http://pub\u{0}lic.test/",
        "http://public.test/\u{a0}x",
        "http://public\u{3000}.test/",
    ] {
        // Only whitespace around an address is removed.
        assert_eq!(
            address(url).is_ok(),
            url.trim() == "http://public.test/",
            "{url:?}"
        );
    }

    let long = format!("http://public.test/{}", "a".repeat(10_000));
    assert!(address(&long).unwrap_err().contains("too long"));
    assert!(address(&long).unwrap_err().len() < 300);
}

#[test]
fn policy_additions_allow_only_the_added_hosts_and_ports() {
    let check = |policy: &AddressPolicy, url: &str| policy.check_url(url).is_ok();

    let port = AddressPolicy::new().allow_port(8080);
    assert!(check(&port, "http://public.test:8080/"));
    assert!(!check(&port, "http://public.test:8081/"));
    assert!(!check(&port, "http://127.0.0.1:8080/"));

    let private = AddressPolicy::new().allow_private();
    for url in [
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://[fd00::1]/",
        "http://[fd00:42::43]/",
        "http://[fd00:ec3::1]/",
        "http://[fd00:a9fe:a9fe::2]/",
        "http://intranet/",
        "http://wiki.internal/",
        "http://printer.local/",
    ] {
        assert!(check(&private, url), "{url}");
    }

    for url in [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://a.localhost/",
        "http://[::1]/",
        "http://[fe80::1]/",
        "http://169.254.169.254/",
        "http://100.100.100.200/",
        "http://[fd00:ec2::254]/",
        "http://[fd00:ec2::23]/",
        "http://[fd00:c1::a9fe:a9fe]/",
        "http://[fd00:42::42]/",
        "http://[fd00:a9fe:a9fe::1]/",
        "http://[fd00:100::100:200]/",
        "http://metadata.google.internal/",
        "http://168.63.129.16/",
        "http://0.0.0.0/",
        "http://[::ffff:10.0.0.1]/",
        "http://10.0.0.1:22/",
        "ftp://10.0.0.1/",
        "http://user@10.0.0.1/",
    ] {
        assert!(!check(&private, url), "{url}");
    }

    let host = AddressPolicy::new().allow_host("Wiki.Corp").unwrap();
    assert!(check(&host, "http://wiki.corp/x"));
    assert!(check(&host, "https://WIKI.corp./x"));
    assert!(!check(&host, "http://wiki.corp:8080/"));
    assert!(!check(&host, "http://a.wiki.corp/"));
    assert!(!check(&host, "http://user@wiki.corp/"));
    assert!(!check(&host, "http://other.corp/"));

    let local = AddressPolicy::new().allow_host("localhost:3000").unwrap();
    assert!(check(&local, "http://localhost:3000/"));
    assert!(!check(&local, "http://localhost/"));
    assert!(!check(&local, "http://127.0.0.1:3000/"));
    let local = AddressPolicy::new().allow_host("[::1]:80").unwrap();
    assert!(check(&local, "http://[::1]/"));
    assert!(!check(&local, "https://[::1]/"));

    let exact = AddressPolicy::new().allow_address("127.0.0.1:9000".parse().unwrap());
    assert!(check(&exact, "http://127.1:9000/"));
    assert!(
        check(&exact, "http://public.test:9000/"),
        "the name may resolve to the address"
    );
    assert!(!check(&exact, "http://127.0.0.1:9001/"));
    assert!(!check(&exact, "http://127.0.0.2:9000/"));
    assert!(!check(&exact, "http://localhost:9000/"));
    let at = |text: &str| exact.check_address(text.parse().unwrap()).is_ok();
    assert!(at("127.0.0.1:9000") && at("8.8.8.8:443"));
    assert!(!at("127.0.0.1:80") && !at("127.0.0.2:9000") && !at("8.8.8.8:9000"));
}

#[test]
fn allow_host_rejects_text_that_is_not_a_host() {
    for host in [
        "", "a/b", "http://a", "u@a", "a b", "a:x", "a:99999", "[::1", "a?b", "a\\b",
    ] {
        let error = AddressPolicy::new().allow_host(host).unwrap_err();
        assert!(
            error.to_string().contains("is not a host"),
            "{host}: {error}"
        );
    }
}

#[test]
fn permission_rules_match_the_normalized_address() {
    let deny = PermissionRules::new()
        .allow("WebFetch(domain:example)")
        .unwrap()
        .deny("WebFetch(domain:bücher.example)")
        .unwrap();
    let verdict = |url: &str| {
        let call = ToolCall::new("c", "web_fetch", json!({"url": url}));
        deny.explain(&call, &WebFetch::new()).decision
    };

    assert_eq!(verdict("https://shop.example/"), Behavior::Allow);
    assert_eq!(verdict("https://BÜCHER.example/"), Behavior::Deny);

    // Rules allow no address that the tool would refuse.
    assert_ne!(
        verdict("https://shop.example\\@evil.test/"),
        Behavior::Allow
    );
    assert_ne!(
        verdict("https://evil.test%2f@shop.example/"),
        Behavior::Allow
    );
}
