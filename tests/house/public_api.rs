//! The public API, line by line, compared with `tests/public_api.txt`, so that a review shows its
//! changes.
//!
//! `UPDATE_PUBLIC_API=1 cargo test --all-features --test house public_api` writes the file.
//!
//! The list comes from rustdoc's JSON, whose form depends on the compiler: another version skips
//! the test. Signatures are cut out of the source, so that they read as they were written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::tree::sources;

/// The compiler whose JSON this file reads, and the version of the form.
const COMPILER: &str = "rustc 1.95.";
const FORMAT: u64 = 57;

#[test]
fn public_api_is_as_recorded() {
    let version = Command::new("rustc").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(COMPILER) || cfg!(not(unix)) {
        eprintln!("skipped: the list is made by {COMPILER}x on Unix, this is {version}");
        return;
    }

    let listed = Lister::new(document()).list();
    let path = root().join("tests/public_api.txt");
    if std::env::var_os("UPDATE_PUBLIC_API").is_some() {
        fs::write(path, listed).unwrap();
        return;
    }

    let recorded = fs::read_to_string(path).unwrap_or_default();
    let (new, old): (BTreeSet<_>, BTreeSet<_>) =
        (listed.lines().collect(), recorded.lines().collect());
    let added = new.difference(&old).map(|line| format!("+ {line}"));
    let removed = old.difference(&new).map(|line| format!("- {line}"));
    let changes: Vec<String> = removed.chain(added).collect();
    assert!(
        changes.is_empty(),
        "the public API changed. If that is meant, note it in CHANGELOG.md and run\n  \
         UPDATE_PUBLIC_API=1 cargo test --all-features --test house public_api\n{}\n",
        changes.join("\n")
    );
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns rustdoc's description of the crate. Rustdoc writes to the target directory of the tests,
/// which `.ci/run` also uses to build the documentation.
fn document() -> Value {
    let binary = std::env::current_exe().unwrap();
    let target = binary.ancestors().nth(3).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Cargo sets these variables for tests. Build scripts that read them would run again, here and
    // in the next build.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    let output = command
        .args([
            "rustdoc",
            "--lib",
            "--all-features",
            "--locked",
            "--offline",
        ])
        .arg("--target-dir")
        .arg(target)
        .args(["--", "-Zunstable-options", "--output-format=json"])
        .env("RUSTDOC", root().join(".ci/rustdoc"))
        .env_remove("RUSTDOCFLAGS")
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo rustdoc: {errors}");
    let json = fs::read(target.join("doc").join("agentcore.json")).unwrap();
    let document: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(document["format_version"], FORMAT);
    document
}

struct Lister {
    document: Value,
    /// Every public path of an item.
    paths: BTreeMap<u64, BTreeSet<String>>,
    sources: HashMap<String, Vec<String>>,
    lines: BTreeSet<String>,
}

impl Lister {
    fn new(document: Value) -> Self {
        Self {
            document,
            paths: BTreeMap::new(),
            sources: HashMap::new(),
            lines: BTreeSet::new(),
        }
    }

    fn list(mut self) -> String {
        let root = self.document["root"].as_u64().unwrap();
        self.walk(root, "agentcore");
        for (id, paths) in std::mem::take(&mut self.paths) {
            // An item is described under its longest path; the shorter paths refer to that.
            let home = paths
                .iter()
                .max_by_key(|path| (path.matches("::").count(), *path))
                .unwrap();
            for path in paths.iter().filter(|path| *path != home) {
                self.lines.insert(format!("{path} = {home}"));
            }

            self.describe(id, home);
        }

        self.lines.into_iter().map(|line| line + "\n").collect()
    }

    /// Returns the kind and the description of an item of this crate.
    fn item(&self, id: u64) -> Option<(String, Value)> {
        let item = &self.document["index"][id.to_string()];
        let (kind, inner) = item["inner"].as_object()?.iter().next()?;
        let mut item = item.clone();
        item["inner"] = inner.clone();
        Some((kind.clone(), item)).filter(|(_, item)| item["crate_id"] == 0)
    }

    fn walk(&mut self, module: u64, path: &str) {
        let Some((_, item)) = self.item(module) else {
            return;
        };

        for id in ids(&item["inner"]["items"]) {
            let Some((kind, item)) = self.item(id) else {
                continue;
            };

            let inner = &item["inner"];
            if kind != "use" {
                let name = text(&item["name"]);
                self.note(&kind, id, &format!("{path}::{name}"));
                continue;
            }

            let path = format!("{path}::{}", text(&inner["name"]));
            let target = inner["id"].as_u64();
            match target.and_then(|id| Some((id, self.item(id)?.0))) {
                Some((id, kind)) => self.note(&kind, id, &path),
                None => {
                    let source = text(&inner["source"]);
                    self.lines.insert(format!("{path} = {source}"));
                }
            }
        }
    }

    fn note(&mut self, kind: &str, id: u64, path: &str) {
        self.paths.entry(id).or_default().insert(path.to_owned());
        if kind == "module" {
            self.walk(id, path);
        }
    }

    fn describe(&mut self, id: u64, path: &str) {
        let Some((kind, item)) = self.item(id) else {
            return;
        };

        let inner = &item["inner"];
        let head = match kind.as_str() {
            "module" => format!("mod {path}"),
            _ => self.signature(&item),
        };

        self.lines.insert(format!("{path}: {}{head}", marks(&item)));
        let fields = [
            &inner["kind"]["plain"]["fields"],
            &inner["variants"],
            &inner["items"],
        ];
        let members = fields.into_iter().flat_map(ids);
        if matches!(kind.as_str(), "struct" | "enum" | "trait") {
            members.for_each(|member| self.member(member, path, kind != "struct"));
            ids(&inner["impls"]).for_each(|block| self.block(block, path));
        }
    }

    /// Lists a field, a variant, a constant or a method if it is public, or if `open`.
    fn member(&mut self, id: u64, path: &str, open: bool) {
        let Some((_, item)) = self.item(id) else {
            return;
        };
        if open || item["visibility"] == "public" {
            let (marks, signature) = (marks(&item), self.signature(&item));
            let name = text(&item["name"]);
            let line = format!("{path}::{name}: {marks}{signature}");
            self.lines.insert(line);
        }
    }

    fn block(&mut self, id: u64, path: &str) {
        let Some((_, item)) = self.item(id) else {
            return;
        };

        let inner = &item["inner"];
        if inner["is_synthetic"] == true || !inner["blanket_impl"].is_null() {
            return;
        }

        if inner["trait"].is_null() {
            ids(&inner["items"]).for_each(|member| self.member(member, path, false));
            return;
        }

        let name = text(&inner["trait"]["path"]);

        // A derived block has no source of its own.
        let written = self.signature(&item);
        let head = if written.starts_with("impl") {
            written
        } else {
            format!("impl {}", name.rsplit("::").next().unwrap_or_default())
        };

        if !head.ends_with("StructuralPartialEq") {
            self.lines.insert(format!("{path}: {head}"));
        }
    }

    /// Returns the source of an item up to its body, on one line, without comments and attributes.
    fn signature(&mut self, item: &Value) -> String {
        let span = &item["span"];
        let file = text(&span["filename"]).to_owned();
        let lines = self.sources.entry(file).or_insert_with_key(|file| {
            let source = fs::read_to_string(root().join(file)).unwrap_or_default();
            source.lines().map(str::to_owned).collect()
        });

        let at = |end: &str, part: usize| {
            usize::try_from(span[end][part].as_u64().unwrap_or(1)).unwrap_or(1)
        };

        let (first, last) = (at("begin", 0), at("end", 0));
        let mut words = Vec::new();
        for number in first..=last.min(lines.len()) {
            let line = &lines[number - 1];
            let end = if number == last {
                at("end", 1) - 1
            } else {
                line.len()
            };

            let start = if number == first {
                at("begin", 1) - 1
            } else {
                0
            };

            let line = line.get(start..end).unwrap_or(line).trim();
            if !line.starts_with("//") && !line.starts_with("#[") {
                words.extend(line.split_whitespace().map(str::to_owned));
            }
        }

        let mut whole = words.join(" ");
        if let Some((name, _)) = whole.split_once("!(") {
            whole = expanded(name, text(&item["name"])).unwrap_or(whole);
        }

        let variant = item["inner"]["kind"].is_object() || item["inner"]["kind"] == "plain";
        let body = if variant && item["inner"]["impls"].is_null() {
            None
        } else {
            whole.find('{')
        };

        let head = body.map_or(whole.as_str(), |at| &whole[..at]);
        let head = head.trim().trim_end_matches([';', ',']);
        head.replace("( ", "(")
            .replace(", )", ")")
            .replace(",)", ")")
    }
}

/// Returns the signature of a method that the macro `name` makes. Rustdoc only has the place of the
/// macro's call.
fn expanded(name: &str, method: &str) -> Option<String> {
    let (definition, start) = (format!("macro_rules! {name} "), format!("pub fn {method}("));
    let files = sources();
    let file = files.iter().find(|file| file.text.contains(&definition))?;
    let signature = file.text[file.text.find(&start)?..].split(" {").next()?;
    let signature = signature.replace("crate::model::", "");
    Some(signature.replace("std::time::", ""))
}

fn marks(item: &Value) -> String {
    let has = |mark: &str| {
        let attributes = item["attrs"].as_array().into_iter().flatten();
        attributes
            .into_iter()
            .any(|attribute| attribute == mark || attribute.get(mark).is_some())
    };
    ["non_exhaustive", "must_use"]
        .into_iter()
        .filter(|mark| has(mark))
        .map(|mark| format!("#[{mark}] "))
        .collect()
}

fn ids(list: &Value) -> impl Iterator<Item = u64> + use<> {
    let list = list.as_array().cloned().unwrap_or_default();
    list.into_iter().filter_map(|id| id.as_u64())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
