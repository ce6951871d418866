//! Checkpoint files that are damaged, or of which a part is missing.

use std::fs;

use agentcore::hooks::RewindMode;
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, ErrorKind};
use serde_json::json;

use super::{Place, change, rewind, tree};

#[tokio::test]
async fn damaged_checkpoint_file_is_reported_and_new_changes_are_kept() {
    let place = Place::new();
    place.put("a", "0");
    let path = place.folder().join("s.files");
    place
        .changes(&place.files(), json!([["write", "a", "1"]]))
        .await;
    let content = fs::read(&path).unwrap();
    for at in [0, 5, 17, 60] {
        let mut broken = content.clone();
        broken[at] ^= 1;
        fs::write(&path, &broken).unwrap();
        let files = place.files();
        let error = files.rewind("s", 0, RewindMode::DryRun).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{at}");
        assert!(
            error.text().contains("cannot be read; put a copy"),
            "{error}"
        );
    }

    // The content is damaged, so that it cannot be restored.
    let mut broken = content.clone();
    let last = broken.len() - 2;
    broken[last] ^= 1;
    fs::write(&path, &broken).unwrap();
    let mut records = String::from_utf8_lossy(&content).into_owned();
    assert!(records.ends_with("0\n"));
    assert_eq!(rewind(&place.files(), 0).await, ["change a: failed"]);
    assert_eq!(place.get("a").as_deref(), Some("1"));

    fs::write(&path, &content[1..]).unwrap();
    let files = place.files();
    place.changes(&files, json!([["write", "a", "2"]])).await;
    assert_eq!(
        fs::read(path.with_extension("damaged")).unwrap(),
        content[1..]
    );
    assert_eq!(rewind(&files, 0).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("1"));
    assert!(files.forget("s").await.unwrap());
    assert!(!path.with_extension("damaged").exists());

    // A record that a crash has cut off was not acknowledged.
    for len in [content.len() - 1, content.len() / 2, 3] {
        fs::write(&path, &content[..len]).unwrap();
        assert!(rewind(&place.files(), 0).await.is_empty(), "{len}");
        let at = place
            .changes(&place.files(), json!([["write", "a", "3"]]))
            .await;
        assert_eq!(
            rewind(&place.files(), at).await,
            ["change a: done"],
            "{len}"
        );
    }

    // A file of a newer version stays unchanged, and changes that could not be undone are refused.
    records = records.split_once('\n').unwrap().0[17..].replace("{\"v\":2,", "{\"v\":3,");
    assert!(records.starts_with("{\"v\":3,"), "{records}");
    let sum = records
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let newer = format!("{sum:016x} {records}\n0\n");
    fs::write(&path, &newer).unwrap();
    let files = place.files();
    let error = files.checkpoints("s").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionTooNew);
    let before = tree(&place.root());
    let ops = json!({"ops": [["write", "a", "4"]]});
    let output = place.message(&files, vec![("change", ops)]).await;
    let result_text = crate::kit::result_texts(&output.messages).pop().unwrap();
    assert!(
        result_text.contains("which is newer; update"),
        "{result_text}"
    );
    assert_eq!(tree(&place.root()), before);
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

/// The end of the file is missing, as after a copy to a full disk.
#[tokio::test]
async fn checkpoint_file_that_was_cut_is_reported_and_not_overwritten() {
    let place = Place::new();
    place.put("a", "0");
    place.put("b", "0".repeat(1_000));
    let path = place.folder().join("s.files");
    let first = json!([["write", "a", "1"]]);
    place.changes(&place.files(), first).await;
    let first_len = fs::read(&path).unwrap().len();
    let second = json!([["write", "b", "1"]]);
    place.changes(&place.files(), second).await;
    let content = fs::read(&path).unwrap();
    for (count, len, name) in [
        (1, content.len() - 1, "\"b\""),
        (2, content.len() - 500, "\"b\""),
        (3, first_len + 50, "a file"),
        (4, first_len / 2, "a file"),
    ] {
        fs::write(&path, &content[..len]).unwrap();
        let files = place.files();
        let report = files.rewind("s", 0, RewindMode::DryRun).await.unwrap();
        let damage = report.damage.as_deref().unwrap();
        assert!(damage.contains(path.to_str().unwrap()), "{damage}");
        assert!(damage.contains(name), "{damage}");
        assert!(report.to_string().ends_with(&format!("{damage}\n")));
        assert!(!report.is_complete());
        // Complete records are read.
        let is_first_whole = len >= first_len;
        assert_eq!(report.changes.len(), usize::from(is_first_whole), "{len}");
        assert_eq!(fs::read(&path).unwrap(), content[..len]);

        // The run warns, and sets the rest of the record aside.
        let ops = json!({"ops": [["write", "c", count.to_string()]]});
        let (model, say) = (ScriptedModel::new().call("change", ops), "done");
        let agent = AgentBuilder::new(model.say(say))
            .tool(change())
            .hook(files.clone())
            .backend(files.clone())
            .build()
            .unwrap();
        let (messages, output) = crate::kit::watch(agent.session("s").run("Go")).await;
        output.unwrap();
        let warnings = crate::kit::warnings(&messages);
        assert_eq!(warnings, [format!("file checkpoints: {damage}")]);
        let aside = match count {
            1 => "damaged".to_owned(),
            count => format!("{count}.damaged"),
        };
        let start = if is_first_whole { first_len } else { 0 };
        assert_eq!(
            fs::read(path.with_extension(aside)).unwrap(),
            content[start..len]
        );
        assert!(fs::read(&path).unwrap().starts_with(&content[..start]));
        let report = files.rewind("s", 0, RewindMode::DryRun).await.unwrap();
        assert_eq!(report.damage, None);
    }
}
