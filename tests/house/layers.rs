//! The imports of folders, which may only go to lower layers.

use std::collections::{BTreeMap, BTreeSet};

use super::assert_none;
use super::paths::{mentions, module_of};
use super::tree::sources;

/// The layers from the bottom to the top, each with its groups of modules. A layer may import every
/// layer below; within a layer, a group may import the groups before it. Modules of one group must
/// not import each other.
const LAYERS: &[(&str, &[&[&str]])] = &[
    ("base", &[&["error", "usage"], &["util"], &["net"]]),
    (
        "contracts",
        &[
            &["message", "backend", "trace"],
            &["model", "sdk"],
            &["tool", "providers"],
            &["session"],
        ],
    ),
    ("engine", &[&["run"], &["hook"], &["engine"], &["agent"]]),
    ("rules", &[&["permission", "prompt", "subagent"]]),
    ("parts", &[&["tools"], &["hooks"]]),
    ("edges", &[&["gateway"], &["testing"]]),
    ("server", &[&["config"], &["registry"], &["server"]]),
];

/// Returns the height and the layer of a module.
fn place(module: &str) -> Option<(usize, &'static str)> {
    LAYERS
        .iter()
        .flat_map(|(layer, groups)| groups.iter().map(move |group| (*layer, group)))
        .enumerate()
        .find(|(_, (_, group))| group.contains(&module))
        .map(|(height, (layer, _))| (height, layer))
}

/// Returns the error if one module must not import another. Unit tests of every layer may import
/// the testing kit.
fn complaint(from: &str, to: &str, test: bool) -> Option<String> {
    if from == to || (test && to == "testing") {
        return None;
    }

    let Some((above, upper)) = place(from) else {
        return Some(format!(
            "`{from}` has no place in LAYERS of tests/house/layers.rs"
        ));
    };

    match place(to) {
        None => Some(format!(
            "`crate::{to}` is no module of LAYERS: import from the folder that owns the item"
        )),
        Some((below, lower)) if below >= above => Some(format!(
            "`{from}` ({upper}) must not import `{to}` ({lower})"
        )),
        Some(_) => None,
    }
}

/// Returns the modules of one cycle, in the order of their imports.
fn cycle<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Option<Vec<&'a str>> {
    fn visit<'a>(
        graph: &BTreeMap<&'a str, BTreeSet<&'a str>>,
        module: &'a str,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> bool {
        if let Some(start) = path.iter().position(|seen| *seen == module) {
            path.drain(..start);
            path.push(module);
            return true;
        }

        if done.contains(module) {
            return false;
        }

        path.push(module);
        for next in graph.get(module).into_iter().flatten() {
            if visit(graph, next, path, done) {
                return true;
            }
        }

        path.pop();
        done.insert(module);
        false
    }

    let mut done = BTreeSet::new();
    graph.keys().find_map(|module| {
        let mut path = Vec::new();
        visit(graph, module, &mut path, &mut done).then_some(path)
    })
}

#[test]
fn imports_point_downward() {
    let mut violations = Vec::new();
    for file in sources() {
        let Some(from) = module_of(&file.path) else {
            continue;
        };

        for mention in mentions(&file) {
            if let Some(complaint) = complaint(from, &mention.module, mention.test) {
                violations.push(format!("{}:{}: {complaint}", file.path, mention.line));
            }
        }
    }

    assert_none(
        &violations,
        "a folder may import itself and what lies below it; move the item down, or turn the \
         dependency round with a trait in a lower layer:",
    );
}

#[test]
fn folders_do_not_import_in_a_cycle() {
    let files = sources();
    let mentioned: Vec<_> = files
        .iter()
        .filter_map(|file| Some((module_of(&file.path)?, mentions(file))))
        .collect();
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, mentions) in &mentioned {
        for mention in mentions.iter().filter(|mention| !mention.test) {
            if mention.module != *from {
                graph.entry(from).or_default().insert(&mention.module);
            }
        }
    }

    assert!(graph.len() > 5, "no imports were found");
    if let Some(cycle) = cycle(&graph) {
        panic!(
            "folders import each other in a cycle: {}",
            cycle.join(" -> ")
        );
    }
}

#[test]
fn violations_of_the_layers_are_detected() {
    assert!(complaint("tool", "agent", false).is_some());
    assert!(complaint("model", "sdk", false).is_some());
    assert!(complaint("unheard", "error", false).is_some());
    assert!(complaint("tool", "Error", false).is_some());
    assert!(complaint("tool", "testing", false).is_some());
    assert!(complaint("tool", "agent", true).is_some());
    assert_eq!(complaint("tool", "testing", true), None);
    assert_eq!(complaint("agent", "tool", false), None);

    let edge = |from, to: &[&'static str]| (from, to.iter().copied().collect());
    let graph = BTreeMap::from([edge("a", &["b"]), edge("b", &["c", "d"]), edge("d", &["b"])]);
    assert_eq!(cycle(&graph), Some(vec!["b", "d", "b"]));
    assert_eq!(cycle(&BTreeMap::from([edge("a", &["b"])])), None);
}
