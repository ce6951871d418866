//! The crates that are used, the number of crates in a build, and their licenses.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::assert_none;
use super::tree::root;

/// Every direct dependency of the library and its purpose.
const USED: &[(&str, &str)] = &[
    ("async-nats", "the client of NATS (feature `nats`)"),
    (
        "async-trait",
        "traits that are both async and usable as `dyn`",
    ),
    ("axum", "the routes of the server (feature `server`)"),
    ("base64", "images and documents on the wire"),
    ("bpe-openai", "exact token counts (feature `tokens`)"),
    ("bytes", "bodies that are shared, not copied"),
    ("crc32fast", "damaged records of stored sessions"),
    ("encoding_rs", "pages that are not in UTF-8 (feature `web`)"),
    (
        "fastrand",
        "jitter between retries, names of temporary files",
    ),
    ("fend-core", "exact calculations (feature `calc`)"),
    ("futures", "streams and their combinators"),
    ("globset", "patterns of paths (feature `search`)"),
    (
        "grep-matcher",
        "searches that can be interrupted (feature `search`)",
    ),
    ("grep-regex", "searching in files (feature `search`)"),
    ("grep-searcher", "searching in files (feature `search`)"),
    ("htmd", "HTML as Markdown (feature `web`)"),
    ("html5ever", "parsing pages piece by piece (feature `web`)"),
    ("httpdate", "`retry-after` as a date (feature `http`)"),
    (
        "hyper",
        "connections with limits on their heads (feature `server`)",
    ),
    (
        "hyper-util",
        "hyper on tokio, and its graceful end (feature `server`)",
    ),
    (
        "ignore",
        "ignore files and kinds of files (feature `search`)",
    ),
    ("jiff", "time zones (feature `time`)"),
    (
        "landlock",
        "files and ports of confined commands (feature `sandbox`)",
    ),
    (
        "libc",
        "numbers of system calls for the filter (feature `sandbox`)",
    ),
    (
        "markup5ever_rcdom",
        "the document htmd reads (feature `web`)",
    ),
    ("memchr", "line ends in streams"),
    ("opentelemetry", "exporting spans (feature `otel`)"),
    (
        "percent-encoding",
        "session ids as file names (features `jsonl` and `sqlite`)",
    ),
    ("pin-project-lite", "streams that hold streams"),
    (
        "redis",
        "the protocol of Redis and its addresses (feature `redis`)",
    ),
    (
        "regex-syntax",
        "the cost of regular expressions (feature `search`)",
    ),
    ("reqwest", "the HTTP client (feature `http`)"),
    ("rusqlite", "sessions in a database (feature `sqlite`)"),
    (
        "rustix",
        "paths that stay beneath a root, process groups (features `fs` and `process`)",
    ),
    ("rustls", "https (feature `tls`)"),
    (
        "rustls-platform-verifier",
        "the system's certificates (feature `tls`)",
    ),
    ("schemars", "schemas of typed tools (feature `schema`)"),
    (
        "seccompiler",
        "sockets of confined commands (feature `sandbox`)",
    ),
    ("serde", "reading and writing"),
    (
        "serde-saphyr",
        "rules and front matter in YAML (feature `yaml`)",
    ),
    ("serde_json", "JSON, with raw values kept byte for byte"),
    (
        "serde_path_to_error",
        "where typed arguments are wrong (feature `schema`)",
    ),
    (
        "sha2",
        "names of folders for long ids of users (feature `config`)",
    ),
    ("similar", "the difference an edit made (feature `tools`)"),
    (
        "socket2",
        "the options of PostgreSQL's sockets (feature `postgres`)",
    ),
    ("thiserror", "leaf errors"),
    ("tokio", "timers, locks and blocking tasks"),
    (
        "tokio-postgres",
        "the client of PostgreSQL (feature `postgres`)",
    ),
    (
        "tokio-rustls",
        "TLS to PostgreSQL (features `postgres` and `tls`)",
    ),
    ("tokio-stream", "timeouts between items of a stream"),
    ("tracing", "diagnostics"),
    ("uuid", "ids"),
];

/// The maximum number of crates in a build, including this one: for the core, and for the default
/// features.
const MAX_CRATES: [(&[&str], usize); 2] = [(&["--no-default-features"], 45), (&[], 120)];

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the packages of a build for this platform, since those of others may not be downloaded.
fn metadata() -> Value {
    let version = Command::new("rustc").arg("-vV").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap();
    let json = cargo(&[
        "metadata",
        "--format-version=1",
        "--all-features",
        "--filter-platform",
        host,
    ]);
    serde_json::from_str(&json).unwrap()
}

#[test]
fn every_dependency_has_a_reason() {
    let metadata = metadata();
    let package = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .find(|package| package["name"] == env!("CARGO_PKG_NAME"))
        .unwrap();
    let used: BTreeSet<&str> = package["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| dependency["name"].as_str().unwrap())
        .collect();
    let listed: BTreeSet<&str> = USED.iter().map(|(name, _)| *name).collect();
    let mut violations: Vec<String> = used
        .difference(&listed)
        .map(|name| format!("`{name}` is in Cargo.toml without a reason"))
        .collect();
    violations.extend(
        listed
            .difference(&used)
            .map(|name| format!("`{name}` is no longer in Cargo.toml")),
    );
    assert_none(
        &violations,
        "a dependency is a decision; note it in USED of tests/house/dependencies.rs:",
    );
}

#[test]
fn crate_counts_stay_within_their_limits() {
    let mut violations = Vec::new();
    for (features, limit) in MAX_CRATES {
        let mut arguments = vec!["tree", "--edges=normal", "--prefix=none", "--format={p}"];
        arguments.extend(features);
        let tree = cargo(&arguments);
        let crates: BTreeSet<&str> = tree
            .lines()
            .map(|line| line.trim_end_matches(" (*)"))
            .collect();
        assert!(crates.len() > 10, "the tree was not read");
        if crates.len() > limit {
            let count = crates.len();
            violations.push(format!("{features:?}: {count} crates, {limit} allowed"));
        }
    }

    assert_none(
        &violations,
        "do without a dependency, or gate it with a feature:",
    );
}

#[test]
fn licenses_are_permissive() {
    let deny = fs::read_to_string(root().join("deny.toml")).unwrap();
    let (_, list) = deny.split_once("allow = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let allowed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();

    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let violations: Vec<String> = packages
        .iter()
        .filter_map(|package| {
            let license = package["license"].as_str().unwrap_or("none");
            (!permits(license, &allowed)).then(|| {
                let (name, version) = (&package["name"], &package["version"]);
                format!("{} {}: {license}", as_text(name), as_text(version))
            })
        })
        .collect();
    assert_none(
        &violations,
        "these licenses are not in `allow` of deny.toml:",
    );
}

fn as_text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns `true` if the licenses in `allowed` satisfy an SPDX expression. `AND` binds tighter than
/// `OR`; a `/` is an old `OR`.
fn permits(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest, allowed) && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = all_of(rest, allowed);
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        met |= all_of(rest, allowed);
    }
    met
}

fn all_of(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = one(rest, allowed);
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        met &= one(rest, allowed);
    }
    met
}

fn one(rest: &mut &[&str], allowed: &[&str]) -> bool {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let met = any_of(rest, allowed);
            *rest = rest.strip_prefix(&[")"]).unwrap_or_default();
            met
        }
        [name, "WITH", _, tail @ ..] | [name, tail @ ..] => {
            *rest = tail;
            allowed.contains(name)
        }
        [] => false,
    }
}

#[test]
fn license_expressions_are_evaluated() {
    let allowed = ["MIT", "ISC"];
    for good in [
        "MIT",
        "MIT/GPL-3.0",
        "GPL-3.0 OR MIT",
        "(GPL-3.0 OR MIT) AND ISC",
        "MIT WITH Some-exception",
        "GPL-3.0 AND X OR MIT",
    ] {
        assert!(permits(good, &allowed), "{good}");
    }

    for bad in [
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR ISC) AND GPL-3.0",
        "none",
        "",
    ] {
        assert!(!permits(bad, &allowed), "{bad}");
    }
}
