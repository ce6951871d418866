//! Sessions that are used in several workspaces.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use agentcore::backend::{Backend, LocalBackend};
use agentcore::hooks::{FileCheckpoints, RewindMode};
use serde_json::{Value, json};

use super::{Place, rewind, tree, two_workspace_agent};

/// Creates another workspace, whose checkpoints are in the same folder as those of `place`.
fn other(place: &Place) -> (PathBuf, FileCheckpoints) {
    let root = place.held.path().join("other/ws");
    fs::create_dir_all(&root).unwrap();
    let backend = LocalBackend::new(&root).unwrap();
    let files = FileCheckpoints::open(backend, place.folder()).unwrap();
    (root, files)
}

#[tokio::test]
async fn rewind_changes_its_own_workspace_only() {
    let place = Place::new();
    let (root, there) = other(&place);
    place.put("a", "0");
    fs::write(root.join("a"), "0 there").unwrap();
    let here = place.files();
    let first = json!([["write", "a", "1"], ["write", "b", "1"]]);
    place.changes(&here, first).await;

    // A file with the agent's content in the other workspace is not the agent's.
    fs::write(root.join("b"), "1").unwrap();
    let second = json!([["write", "a", "2"], ["write", "c", "2"]]);
    let at = place.changes(&there, second).await;
    place.put("c", "2");

    let listed = here.checkpoints("s").await.unwrap();
    let own = place.root();
    let names =
        |root: &PathBuf, names: [&str; 2]| names.map(|it| root.join(it).display().to_string());
    assert_eq!(listed[0].files, names(&own, ["a", "b"]));
    assert_eq!(listed[1].files, names(&root, ["a", "c"]));

    let (own, away) = (own.display(), root.display());
    let strange =
        format!("change {away}/a: not of this workspace\ndelete {away}/c: not of this workspace\n");
    let expected = format!("{strange}change {own}/a (+1 -1 lines)\ndelete {own}/b (+0 -1 lines)\n");
    let before = tree(place.held.path());
    let would = here.rewind("s", 0, RewindMode::DryRun).await.unwrap();
    assert_eq!(would.to_string(), expected);
    assert_eq!(tree(place.held.path()), before);
    let there_before = tree(&root);
    for mode in [RewindMode::SkipChanged, RewindMode::Overwrite] {
        let report = here.rewind("s", 0, mode).await.unwrap();
        let expected_report = match mode {
            RewindMode::SkipChanged => &expected,
            _ => &strange,
        };

        assert_eq!(&report.to_string(), expected_report);
        assert!(!report.is_complete());
        assert_eq!(tree(&root), there_before);
        assert_eq!(place.get("a").as_deref(), Some("0"));
        assert_eq!(place.get("b"), None);
        assert_eq!(
            place.get("c").as_deref(),
            Some("2"),
            "the file of a user stays"
        );
    }

    assert_eq!(
        serde_json::to_value(&would).unwrap()[0]["outcome"],
        json!("elsewhere")
    );

    // The other workspace's changes are rewound there, also from a fork.
    there.fork("s", "t").await.unwrap();
    let report = there
        .rewind("t", at, RewindMode::SkipChanged)
        .await
        .unwrap();
    assert_eq!(
        report.to_string(),
        format!("change {away}/a (+1 -1 lines)\ndelete {away}/c (+0 -1 lines)\n")
    );
    assert!(report.is_complete());
    assert_eq!(fs::read(root.join("a")).unwrap(), b"0 there");
    assert_eq!(fs::read(root.join("b")).unwrap(), b"1");
}

/// A change in one workspace is neither stored nor recognized as the agent's in another one.
#[tokio::test]
async fn same_path_in_two_workspaces_is_kept_separately() {
    let place = Place::new();
    let (root, there) = other(&place);
    place.put("a", "0");
    fs::write(root.join("a"), "0 there").unwrap();
    let here = place.files();
    let agent = two_workspace_agent(&here, &there, "a");
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(here.checkpoints("s").await.unwrap()[0].files.len(), 2);
    there.rewind("s", 0, RewindMode::SkipChanged).await.unwrap();
    assert_eq!(fs::read(root.join("a")).unwrap(), b"0 there");
    assert_eq!(place.get("a").as_deref(), Some("x"));
    here.rewind("s", 0, RewindMode::SkipChanged).await.unwrap();
    assert_eq!(place.get("a").as_deref(), Some("0"));
}

#[tokio::test]
async fn workspace_behind_a_link_is_the_same_workspace() {
    let place = Place::new();
    place.put("a", "0");
    let alias = place.held.path().join("alias");
    symlink(place.root(), &alias).unwrap();
    let backend = LocalBackend::new(&alias).unwrap();
    assert_eq!(backend.root(), alias.display().to_string());
    let files = FileCheckpoints::open(backend, place.folder()).unwrap();
    place.changes(&files, json!([["write", "a", "1"]])).await;
    assert_eq!(rewind(&place.files(), 0).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("0"));
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn record(record: &Value, content: &str) -> String {
    let json = record.to_string();
    format!("{:016x} {json}\n{content}\n", sum(json.as_bytes()))
}

/// Checkpoints of the first format do not name a workspace.
#[tokio::test]
async fn checkpoints_without_a_workspace_apply_to_any() {
    let place = Place::new();
    place.put("a", "2");
    let files = place.files();
    let state = |text: &str| json!({"len": text.len(), "hash": sum(text.as_bytes())});
    let lines = [
        record(
            &json!({
                "v": 1, "message": 0, "title": "Go", "path": "a",
                "before": {"kept": {"mode": null, "sum": state("0")}},
                "after": {"content": state("1")}, "len": 1
            }),
            "0",
        ),
        record(
            &json!({
                "v": 1, "message": 4, "title": "Go", "path": "a",
                "before": {"kept": {"mode": null, "sum": state("1")}},
                "after": {"content": state("2")}, "len": 1
            }),
            "1",
        ),
    ];
    fs::write(place.folder().join("s.files"), lines.concat()).unwrap();
    assert_eq!(files.checkpoints("s").await.unwrap().len(), 2);
    assert_eq!(rewind(&files, 4).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("1"));

    // New changes continue the existing checkpoints.
    assert_eq!(rewind(&place.files(), 0).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("0"));
    assert_eq!(rewind(&place.files(), usize::MAX).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("2"));
}
