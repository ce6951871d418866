//! Files that define types of subagents.

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::subagent::{SubagentDefinition, SubagentRegistry};

async fn files(files: &[(&str, &str)]) -> MemoryBackend {
    let backend = MemoryBackend::new();
    for (name, text) in files {
        let path = format!("agents/{name}");
        backend.write(&path, text.as_bytes()).await.unwrap();
    }
    backend
}

#[tokio::test]
async fn files_of_a_folder_define_types() {
    let text = "---\nname: reviewer\ndescription: Reviews a change\ntools: [Read, Grep]\n\
        disallowed_tools: Bash, Write\nmodel: haiku\nmax_turns: 7\n---\n\nBe strict.\n\nAnd kind.\n";
    let backend = files(&[
        ("reviewer.md", text),
        (
            "plain.md",
            "---\nname: plain\ndescription: Plain\n---\nWork.",
        ),
        ("notes.txt", "not a subagent"),
    ])
    .await;
    let mut agents = SubagentRegistry::new();
    let warnings = agents.load_dir(&backend, "agents").await.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(agents.names(), ["plain", "reviewer"]);
    let mut expected = SubagentDefinition::new("Reviews a change", "Be strict.\n\nAnd kind.")
        .with_tools(["Read", "Grep"])
        .with_disallowed_tools(["Bash", "Write"])
        .with_model("haiku");
    expected.max_turns = Some(7);
    assert_eq!(agents.get("reviewer"), Some(&expected));
    let plain = SubagentDefinition::new("Plain", "Work.");
    assert_eq!(agents.get("plain"), Some(&plain));
}

#[tokio::test]
async fn files_of_the_root_define_types() {
    let backend = MemoryBackend::new();
    let text = "---\nname: plain\ndescription: Plain\n---\nWork.";
    backend.write("plain.md", text.as_bytes()).await.unwrap();
    let mut agents = SubagentRegistry::new();
    assert_eq!(agents.load_dir(&backend, "").await.unwrap(), [""; 0]);
    assert_eq!(agents.names(), ["plain"]);
}

#[tokio::test]
async fn restrictions_in_camel_case_are_read() {
    let text = "---\nname: reader\ndescription: Reads\ndisallowedTools: Bash\nmaxTurns: 3\n---\n";
    let backend = files(&[("reader.md", text)]).await;
    let mut agents = SubagentRegistry::new();
    assert_eq!(agents.load_dir(&backend, "agents").await.unwrap(), [""; 0]);
    let reader = agents.get("reader").unwrap();
    assert_eq!(reader.disallowed_tools, ["Bash"]);
    assert_eq!(reader.max_turns, Some(3));
}

#[tokio::test]
async fn broken_file_is_a_warning_and_an_earlier_name_wins() {
    let long = "x".repeat(300_000);
    let long = format!("---\nname: long\ndescription: Long\n---\n{long}");
    let backend = files(&[
        ("a.md", "---\nname: scout\ndescription: First\n---\nOne."),
        ("b.md", "---\nname: scout\ndescription: Second\n---\nTwo."),
        ("c.md", "no front matter"),
        ("d.md", "---\nname: open\n"),
        ("e.md", "---\nname: no_description\n---\nText."),
        ("f.md", "---\nname: ../up\ndescription: Up\n---\nText."),
        ("g.md", "---\nname: [\n---\nText."),
        ("h.md", &long),
    ])
    .await;
    let mut agents = SubagentRegistry::new();
    agents
        .register("own", SubagentDefinition::new("Own", "Own."))
        .unwrap();
    let warnings = agents.load_dir(&backend, "agents").await.unwrap();
    assert_eq!(agents.names(), ["own", "scout"]);
    assert_eq!(agents.get("scout").unwrap().description, "First");
    let expected = [
        "already a subagent",
        "must begin with a line ---",
        "has no end",
        "has no description",
        "not a name",
        "not understood",
        "more than 262144 bytes",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, text) in warnings.iter().zip(expected) {
        assert!(warning.contains(text), "{warning}");
    }
}

#[tokio::test]
async fn missing_folder_has_no_types() {
    let mut agents = SubagentRegistry::new();
    let backend = MemoryBackend::new();
    let warnings = agents.load_dir(&backend, "agents").await.unwrap();
    assert!(warnings.is_empty() && agents.names().is_empty());
}

#[tokio::test]
async fn long_description_is_cut_with_a_warning() {
    let text = format!(
        "---\nname: long\ndescription: {}\n---\nWork.",
        "é".repeat(600)
    );
    let backend = files(&[("long.md", &text)]).await;
    let mut agents = SubagentRegistry::new();
    let warnings = agents.load_dir(&backend, "agents").await.unwrap();
    let description = &agents.get("long").unwrap().description;
    assert_eq!(*description, "é".repeat(512));
    let expected =
        r#""agents/long.md": its description has 1200 bytes, more than 1024; the rest is left out"#;
    assert_eq!(warnings, [expected]);
}

#[tokio::test]
async fn texts_of_all_files_are_limited_together() {
    let prompt = "x".repeat(200 << 10);
    let backend = MemoryBackend::new();
    for number in 0..8 {
        let text = format!("---\nname: a{number}\ndescription: One\n---\n{prompt}");
        let path = format!("agents/a{number}.md");
        backend.write(&path, text.as_bytes()).await.unwrap();
    }
    backend
        .write(
            "agents/z.md",
            b"---\nname: z\ndescription: Small\n---\nWork.",
        )
        .await
        .unwrap();
    let mut agents = SubagentRegistry::new();
    let warnings = agents.load_dir(&backend, "agents").await.unwrap();
    assert_eq!(agents.names(), ["a0", "a1", "a2", "a3", "a4", "z"]);
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert_eq!(
        warnings[0],
        r#""agents/a5.md" is left out: the texts of all files have more than 1048576 bytes"#
    );
}

/// Returns the warnings about one file, and whether it defines a type.
async fn loaded(front_matter: &str) -> (Vec<String>, bool) {
    let text = format!("---\nname: adder\ndescription: Adds\n{front_matter}---\nAdd.");
    let backend = files(&[("adder.md", &text)]).await;
    let mut agents = SubagentRegistry::new();
    let warnings = agents.load_dir(&backend, "agents").await.unwrap();
    (warnings, agents.get("adder").is_some())
}

#[tokio::test]
async fn file_with_a_misspelled_key_of_tools_is_left_out() {
    for key in [
        "tool",
        "Tools",
        "tols",
        "allowed-tools",
        "disallowed_tool",
        "disalowedTools",
        "disallowed-tools",
    ] {
        let (warnings, is_defined) = loaded(&format!("{key}: add\n")).await;
        let expected = format!(
            "\"agents/adder.md\" is left out: the key {key:?} is not known and may be meant to limit \
             its tools; write \"tools\" or \"disallowed_tools\", or remove it"
        );
        assert_eq!((warnings, is_defined), (vec![expected], false), "{key}");
        let (_, is_defined) = loaded(&format!("tools: add\n{key}: add\n")).await;
        assert!(!is_defined, "{key}");
    }
}

#[tokio::test]
async fn other_unknown_key_is_a_warning_with_the_near_key() {
    for (key, text) in [
        ("modle", "unknown key \"modle\"; did you mean \"model\"?"),
        (
            "max_turn",
            "unknown key \"max_turn\"; did you mean \"max_turns\"?",
        ),
        ("color", "the key \"color\" is not read"),
        ("hooks", "the key \"hooks\" is not read"),
        ("permissionMode", "the key \"permissionMode\" is not read"),
        ("skills", "the key \"skills\" is not read"),
    ] {
        let (warnings, is_defined) = loaded(&format!("tools: add\n{key}: 1\n")).await;
        let expected = format!("\"agents/adder.md\": {text}");
        assert_eq!((warnings, is_defined), (vec![expected], true), "{key}");
    }
}

#[tokio::test]
async fn many_unknown_keys_are_counted() {
    let keys: String = (0..20).map(|number| format!("x{number}: 1\n")).collect();
    let (warnings, is_defined) = loaded(&keys).await;
    assert!(is_defined);
    assert_eq!(warnings.len(), 9, "{warnings:?}");
    assert_eq!(
        warnings[8],
        "\"agents/adder.md\": 12 more keys are not read"
    );
}

#[tokio::test]
async fn empty_list_of_tools_is_a_warning() {
    let (warnings, is_defined) = loaded("tools: []\n").await;
    assert!(is_defined);
    let expected = "\"agents/adder.md\": its \"tools\" are empty, so it has all tools of its caller; \
                    name some, or remove the key";
    assert_eq!(warnings, [expected]);
    let (warnings, _) = loaded("tools:\n").await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[tokio::test]
async fn file_that_names_many_tools_is_left_out() {
    let names = "a, ".repeat(200);
    let (warnings, _) = loaded(&format!("tools: {names}\n")).await;
    assert!(warnings.is_empty(), "{warnings:?}");
    let front_matter = format!("tools: {names}\ndisallowed_tools: {names}\n");
    let (warnings, is_loaded) = loaded(&front_matter).await;
    let text = r#""agents/adder.md" is left out: it names 400 tools, more than 256"#;
    assert_eq!(warnings, [text]);
    assert!(!is_loaded);
}

#[tokio::test]
async fn front_matter_without_its_first_line_is_named() {
    let text = "name: adder\ndescription: Adds\ntools: add\n---\nAdd.";
    let backend = files(&[("adder.md", text)]).await;
    let mut agents = SubagentRegistry::new();
    let warnings = agents.load_dir(&backend, "agents").await.unwrap();
    let expected = "\"agents/adder.md\" is left out: it must begin with a line ---, followed by its \
                    name and description and another line ---";
    assert_eq!(warnings, [expected]);
}

#[tokio::test]
async fn key_that_occurs_twice_is_named_with_its_place() {
    let (warnings, is_defined) = loaded("tools: add\ntools: sub\n").await;
    assert!(!is_defined);
    let expected = "\"agents/adder.md\" is left out: its front matter is not understood: the key \
                    \"tools\" occurs twice at line 5, column 1";
    assert_eq!(warnings, [expected]);
}
