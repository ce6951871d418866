//! The lifetime of checkpoints: forks, removal, damage and other versions.

use std::fs;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

use agentcore::ErrorKind;
use agentcore::SessionStore;
use agentcore::backend::LocalBackend;
use agentcore::hooks::{FileCheckpoints, RewindMode};
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, FuncTool};
use serde_json::json;

use super::{Place, change, rewind, tree};
use crate::kit::any_object;

#[tokio::test]
async fn fork_is_rewound_independently() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    for text in ["1", "2", "3"] {
        place.changes(&files, json!([["write", "a", text]])).await;
    }

    // The conversation and the files return to the state before the third message.
    rewind(&files, 8).await;
    place.store.fork_at("s", "t", 8).await.unwrap();
    files.fork_at("s", "t", 8).await.unwrap();
    let model = ScriptedModel::new()
        .call("change", json!({"ops": [["write", "a", "other"]]}))
        .say("done");
    let agent = AgentBuilder::new(model)
        .tool(change())
        .hook(files.clone())
        .backend(files.clone())
        .store(place.store.clone())
        .build()
        .unwrap();
    let output = agent.session("t").run("Otherwise").await.unwrap();
    assert_eq!(output.messages.len(), 12);
    let files = place.files();
    let places = |list: Vec<agentcore::hooks::Checkpoint>| -> Vec<usize> {
        list.iter().map(|one| one.message).collect()
    };

    assert_eq!(places(files.checkpoints("t").await.unwrap()), [0, 4, 8]);
    for (message, text) in [(8, "2"), (4, "1"), (0, "0")] {
        let report = files
            .rewind("t", message, RewindMode::SkipChanged)
            .await
            .unwrap();
        assert!(report.is_complete(), "{report}");
        assert_eq!(place.get("a").as_deref(), Some(text));
    }

    // The original session cannot undo a change of its fork.
    place.put("a", "other");
    assert_eq!(rewind(&files, 0).await, ["change a: conflict"]);
    let error = files.fork("s", "t").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    files.fork("s", "u").await.unwrap();
    assert_eq!(places(files.checkpoints("u").await.unwrap()), [0, 4, 8]);
    files.fork("nobody", "v").await.unwrap();
    assert_eq!(
        files.sessions().await.unwrap(),
        ["s", "t", "u"].map(Arc::from)
    );
}

/// The fork has only the messages since, and cannot undo earlier changes.
#[tokio::test]
async fn fork_of_a_shortened_history_starts_at_its_first_message() {
    let (place, files, at) = Place::with_shorter_history().await;
    for (id, messages, left) in [("t", at, "3"), ("u", usize::MAX, "2")] {
        files.fork_at("s", id, messages).await.unwrap();
        let report = files.rewind(id, 0, RewindMode::SkipChanged).await.unwrap();
        assert!(report.is_complete(), "{report}");
        assert_eq!(place.get("a").as_deref(), Some(left), "{id}");
    }
}

#[tokio::test]
async fn interrupted_fork_is_completed_on_retry() {
    let place = Place::new();
    let files = place.files();
    place.changes(&files, json!([["write", "a", "1"]])).await;
    let copy = place.folder().join("t.copy");
    fs::write(&copy, "half of it, and more than all of it was").unwrap();
    assert!(files.checkpoints("t").await.unwrap().is_empty());
    files.fork("s", "t").await.unwrap();
    assert!(!copy.exists());
    assert_eq!(
        fs::read(place.folder().join("s.files")).unwrap(),
        fs::read(place.folder().join("t.files")).unwrap()
    );

    // The fork was interrupted just before the copy was removed.
    let content = fs::read(place.folder().join("t.files")).unwrap();
    fs::hard_link(place.folder().join("t.files"), &copy).unwrap();
    let error = files.fork("s", "t").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(fs::read(place.folder().join("t.files")).unwrap(), content);
    assert!(!copy.exists());
    fs::write(&copy, "half").unwrap();
    assert!(files.forget("t").await.unwrap());
    assert!(!copy.exists());
}

#[tokio::test]
async fn fork_in_memory_is_visible_after_an_earlier_listing() {
    let place = Place::new();
    let files = FileCheckpoints::new(LocalBackend::new(place.root()).unwrap());
    place.changes(&files, json!([["write", "a", "1"]])).await;
    assert!(files.checkpoints("t").await.unwrap().is_empty());
    files.fork("s", "t").await.unwrap();
    assert_eq!(files.checkpoints("t").await.unwrap().len(), 1);
}

#[tokio::test]
async fn old_checkpoints_are_removed() {
    let place = Place::new();
    let files = place.files();
    place.changes(&files, json!([["write", "a", "1"]])).await;
    assert_eq!(files.prune(Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(files.prune(Duration::ZERO).await.unwrap(), 1);
    assert!(rewind(&files, 0).await.is_empty());
    assert!(tree(&place.folder()).is_empty());
    place.changes(&files, json!([["write", "a", "2"]])).await;
    assert_eq!(rewind(&files, 4).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("1"));
    assert!(files.forget("s").await.unwrap());
    assert!(!files.forget("s").await.unwrap());
}

#[tokio::test]
async fn session_that_cannot_be_removed_does_not_keep_later_ones() {
    let place = Place::new();
    let files = place.files();
    place.changes(&files, json!([["write", "a", "1"]])).await;

    // Sessions are removed in the order of their ids.
    fs::create_dir(place.folder().join("b.files")).unwrap();
    let error = files.prune(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.text().contains("b.files"), "{error}");
    assert_eq!(files.sessions().await.unwrap(), [Arc::<str>::from("b")]);
}

/// The time limit for a thread to reach a lock.
#[cfg(target_os = "linux")]
const LONGEST: Duration = Duration::from_secs(60);

/// Waits until a thread waits for the lock of this file. Returns `false` if `is_over` returns
/// `true` first.
#[cfg(target_os = "linux")]
fn await_waiter(path: &Path, is_over: impl Fn() -> bool) -> bool {
    use std::os::unix::fs::MetadataExt;

    let inode = fs::metadata(path).unwrap().ino();
    // A waiting thread has opened the file for appending; the tests hold the lock through a file
    // opened for reading.
    let is_waiting = |entry: fs::DirEntry| {
        let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
        let is_file = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.ino() == inode);
        let info = fs::read_to_string(info).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        is_file && flags.is_some_and(|flags| flags & 0o2000 != 0)
    };
    let began = Instant::now();
    loop {
        let mut files = fs::read_dir("/proc/self/fd").unwrap().flatten();
        if files.any(is_waiting) {
            return true;
        }

        if is_over() {
            return false;
        }

        assert!(
            began.elapsed() < LONGEST,
            "no thread waits for the lock of {} after {LONGEST:?}",
            path.display()
        );
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn change_during_removal_of_the_checkpoint_file_is_kept_in_a_new_one() {
    let place = Place::new();
    place.put("a", "0");
    place
        .changes(&place.files(), json!([["write", "a", "1"]]))
        .await;
    for gone in ["removed", "put aside"] {
        let path = place.folder().join("s.files");
        let file = fs::File::open(&path).unwrap();
        file.lock().unwrap();
        let before = place.get("a").unwrap();
        let at = std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let ops = json!([["append", "a", "+"]]);
                let changing = async { place.changes(&place.files(), ops).await };
                runtime.unwrap().block_on(changing)
            });

            assert!(await_waiter(&path, || changing.is_finished()));
            match gone {
                "removed" => fs::remove_file(&path).unwrap(),
                _ => fs::rename(&path, path.with_extension("damaged")).unwrap(),
            }

            drop(file);
            changing.join().unwrap()
        });

        assert_eq!(place.get("a"), Some(format!("{before}+")));
        assert_eq!(
            rewind(&place.files(), at).await,
            ["change a: done"],
            "{gone}"
        );
        assert_eq!(place.get("a"), Some(before));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn checkpoint_file_is_not_removed_while_it_is_locked() {
    let place = Place::new();
    place
        .changes(&place.files(), json!([["write", "a", "1"]]))
        .await;
    let path = place.folder().join("s.files");
    let file = fs::File::open(&path).unwrap();
    file.lock().unwrap();
    let files = place.files();
    let was_there = std::thread::scope(|scope| {
        let removing = scope.spawn(|| futures::executor::block_on(files.forget("s")));
        assert!(await_waiter(&path, || removing.is_finished()));
        assert!(path.exists());
        drop(file);
        removing.join().unwrap().unwrap()
    });

    assert!(was_there && !path.exists());
}

#[tokio::test]
async fn damaged_copies_are_removed_with_their_session() {
    let place = Place::new();
    let files = place.files();
    fs::write(place.folder().join("%41.damaged"), "of A").unwrap();
    assert_eq!(files.sessions().await.unwrap(), [Arc::<str>::from("A")]);
    assert_eq!(files.prune(Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(files.prune(Duration::ZERO).await.unwrap(), 1);

    // Both files belong to one session, whose age is that of the newer file.
    place.changes(&files, json!([["write", "a", "1"]])).await;
    let aside = place.folder().join("s.damaged");
    fs::write(&aside, "of s").unwrap();
    let old = std::time::SystemTime::now() - Duration::from_secs(7200);
    fs::File::options()
        .write(true)
        .open(&aside)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert_eq!(files.sessions().await.unwrap(), [Arc::<str>::from("s")]);
    assert_eq!(files.prune(Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(files.prune(Duration::ZERO).await.unwrap(), 1);
    assert!(tree(&place.folder()).is_empty());
}

#[tokio::test]
async fn repeated_damage_is_set_aside_under_numbered_names() {
    let place = Place::new();
    let path = place.folder().join("s.files");
    let mut broken = Vec::new();
    for text in ["1", "2", "3"] {
        place
            .changes(&place.files(), json!([["write", "a", text]]))
            .await;
        fs::write(&path, [text.as_bytes(), &fs::read(&path).unwrap()].concat()).unwrap();
        broken.push(fs::read(&path).unwrap());
    }

    let files = place.files();
    place.changes(&files, json!([["write", "a", "4"]])).await;
    let names = ["s.damaged", "s.2.damaged", "s.3.damaged"];
    for (name, broken) in names.iter().zip(&broken) {
        assert_eq!(
            &fs::read(place.folder().join(name)).unwrap(),
            broken,
            "{name}"
        );
    }

    // The remaining copies belong to the session even if a user has removed the first one.
    fs::remove_file(place.folder().join(names[0])).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(files.sessions().await.unwrap(), [Arc::<str>::from("s")]);
    assert_eq!(files.prune(Duration::ZERO).await.unwrap(), 1);
    assert!(tree(&place.folder()).is_empty());
}

#[tokio::test]
async fn files_with_other_names_are_ignored() {
    let place = Place::new();
    let files = place.files();
    let names = [
        "é.files",
        "é.damaged",
        "aé.files",
        "%C3é.files",
        "%é.files",
        "a.é",
        "é.",
        "a.2.files",
        "a.1.damaged",
        "a.+2.damaged",
        "a.02.damaged",
        "a.b.damaged",
        ".files",
        ".2.damaged",
    ];
    for name in names {
        fs::write(place.folder().join(name), "not a session's").unwrap();
    }

    assert!(files.sessions().await.unwrap().is_empty());
    assert_eq!(files.prune(Duration::ZERO).await.unwrap(), 0);
    assert_eq!(tree(&place.folder()).len(), names.len());
}

#[tokio::test]
async fn symbolic_link_in_place_of_a_checkpoint_file_is_rejected() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    let outside = place.held.path().join("outside");
    fs::write(&outside, "").unwrap();
    std::os::unix::fs::symlink(&outside, place.folder().join("s.files")).unwrap();
    let ops = json!({"ops": [["write", "a", "1"]]});
    let output = place.message(&files, vec![("change", ops)]).await;
    let text = crate::kit::result_texts(&output.messages).pop().unwrap();
    assert!(text.contains("not a regular file"), "{text}");
    assert_eq!(place.get("a").as_deref(), Some("0"));
    assert_eq!(fs::read(&outside).unwrap(), b"");
}

#[tokio::test]
async fn session_ids_of_any_form_have_separate_checkpoints() {
    let place = Place::new();
    let files = place.files();
    let names = ["A", "a", "../a", "ä/ü", "%41", "a b.files"];
    for name in names {
        let model = ScriptedModel::new()
            .call("change", json!({"ops": [["append", "a", name]]}))
            .say("done");
        let agent = AgentBuilder::new(model)
            .tool(change())
            .hook(files.clone())
            .backend(files.clone())
            .build()
            .unwrap();
        agent.session(name).run("Go").await.unwrap();
    }

    let mut expected = names.map(std::sync::Arc::<str>::from);
    expected.sort_unstable();
    assert_eq!(place.files().sessions().await.unwrap(), expected);
    assert_eq!(tree(&place.folder()).len(), names.len());
}

/// Another process has changed the file since, as with `--rewind`.
#[tokio::test]
async fn two_processes_share_checkpoints() {
    let place = Place::new();
    place.put("a", "0");
    let (one, two) = (place.files(), place.files());
    place.changes(&one, json!([["write", "a", "1"]])).await;
    place.changes(&two, json!([["write", "a", "2"]])).await;
    place.changes(&one, json!([["write", "a", "3"]])).await;
    assert_eq!(one.checkpoints("s").await.unwrap().len(), 3);
    assert_eq!(rewind(&two, 4).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("1"));
    assert_eq!(rewind(&one, 0).await, ["change a: done"]);
    assert!(rewind(&two, 0).await.is_empty());
}

/// A session id that is no valid file name is an error of the change, not a lost checkpoint.
#[tokio::test]
async fn change_that_cannot_be_kept_is_rejected() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    let model = ScriptedModel::new()
        .call("change", json!({"ops": [["write", "a", "1"]]}))
        .call("look", json!({}))
        .say("done");
    let look = FuncTool::new("look", "Reads", any_object(), |cx, _args| async move {
        let backend = cx.backend().ok_or("no backend")?;
        let content = backend.read("a").await?;
        Ok::<_, agentcore::BoxError>(String::from_utf8_lossy(&content).into_owned())
    });

    let agent = AgentBuilder::new(model)
        .tool(change())
        .tool(look)
        .hook(files.clone())
        .backend(files.clone())
        .build()
        .unwrap();
    let output = agent.session("x".repeat(300)).run("Go").await.unwrap();
    let texts = crate::kit::result_texts(&output.messages);
    assert!(texts[0].contains("too long for a file name"), "{texts:?}");
    assert_eq!(texts[1], "0");
}

#[tokio::test]
async fn fifo_in_the_place_of_checkpoints_is_refused_at_once() {
    let place = Place::new();
    let files = place.files();
    let fifo = place.folder().join("s.files");
    let status = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(status.unwrap().success());
    let error = files.checkpoints("s").await.unwrap_err();
    assert!(error.text().contains("not a regular file"), "{error}");
    let error = files
        .rewind("s", 0, RewindMode::SkipChanged)
        .await
        .unwrap_err();
    assert!(error.text().contains("not a regular file"), "{error}");
}
