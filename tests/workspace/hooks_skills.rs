//! The hook that lists the available skills in the system prompt.

use agentcore::Hook;
use agentcore::backend::{Backend, MemoryBackend};
use agentcore::hooks::SkillsHook;
use agentcore::testing::ScriptedModel;

use crate::kit::agent;
use crate::kit::hooks::{golden, prompt, with};

/// Returns the catalog of one file below `skills/own`, and the warnings.
async fn one(content: impl AsRef<[u8]>) -> (String, Vec<String>) {
    let backend = with(&[("skills/own/SKILL.md", content.as_ref())]).await;
    let (prompt, warnings) = prompt(SkillsHook::new(backend)).await;
    let lines: Vec<&str> = prompt.lines().skip(1).collect();
    (lines.join("\n"), warnings)
}

const END: &str = "→ Read /workspace/skills/own/SKILL.md for full instructions";

fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n")
}

#[tokio::test]
async fn skills_are_listed_by_path() {
    let csv = skill("csv-analyzer", "Analyze CSV files and generate charts");
    let review = skill("code-review", "Review code for bugs and style issues");
    let deep = skill("deep", "'Lies: deep'").replace('\n', "\r\n");
    let backend = with(&[
        ("skills/review/SKILL.md", review.as_bytes()),
        ("skills/csv-analyzer/SKILL.md", csv.as_bytes()),
        ("skills/csv-analyzer/script.py", b"print()"),
        ("skills/group/of/skills/SKILL.md", deep.as_bytes()),
        ("skills/plain/SKILL.md", b"No front matter.\n"),
        ("skills/node_modules/x/SKILL.md", csv.as_bytes()),
        ("skills/notes/skill.md", csv.as_bytes()),
        (
            "more/SKILL.md",
            b"\xEF\xBB\xBF---\ndescription: >\n  Two\n  lines.\n---\n\xff",
        ),
    ])
    .await;
    let hook = SkillsHook::new(backend).paths(["skills", "missing", "/workspace/more/"]);
    assert_eq!(hook.phases().to_string(), "before_agent, modify_request");
    let (prompt, warnings) = prompt(hook).await;
    assert_eq!(prompt, golden(include_str!("../data/hooks/skills.txt")));
    assert_eq!(
        warnings,
        [
            "skills: /workspace/skills/plain/SKILL.md: it has no description, so the model \
             cannot choose it"
        ]
    );
}

#[tokio::test]
async fn missing_skills_add_no_section() {
    let (text, warnings) = prompt(SkillsHook::new(MemoryBackend::new())).await;
    assert_eq!(text, "");
    assert!(warnings.is_empty());
}

#[tokio::test]
async fn skill_with_invalid_front_matter_is_skipped_with_a_warning() {
    for (content, complaint) in [
        (&b"---\nname: a\n"[..], "has no end"),
        (b"---\nname: [a\n---\n", "is not understood"),
        (b"---\n- a\n- b\n---\n", "is not understood"),
        (b"---\nname: {a: b}\n---\n", "is not understood"),
        (b"---\nname: a\nname: b\n---\n", "is not understood"),
        (b"---\nname: \xff\n---\n", "is not UTF-8"),
    ] {
        let (line, warnings) = one(content).await;
        assert_eq!(line, "");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let start = "skills: /workspace/skills/own/SKILL.md is left out: its front matter ";
        assert!(warnings[0].starts_with(start), "{}", warnings[0]);
        assert!(warnings[0].contains(complaint), "{}", warnings[0]);
    }

    let (_, warnings) = one(b"---\nname: a\n\ndescription: [x\n---\n").await;
    assert!(
        warnings[0].contains("line 4"),
        "as in the file: {}",
        warnings[0]
    );
}

#[tokio::test]
async fn front_matter_with_exponential_aliases_is_rejected() {
    let mut bomb = String::from("---\nname: own\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..=9 {
        let before = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }

    let nested = format!("---\nname: own\na: {}\n---\n", "[".repeat(60_000));
    for content in [format!("{bomb}---\n"), nested] {
        let (line, warnings) = one(content).await;
        assert_eq!(line, "");
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("is not understood"), "{}", warnings[0]);
    }
}

#[tokio::test]
async fn skill_names_are_shown_on_one_line() {
    let longest = "a".repeat(64);
    for (given, shown) in [
        ("pdf-2-text", "pdf-2-text"),
        ("Slide Deck Creator", "Slide Deck Creator"),
        ("UPPER_case", "UPPER_case"),
        ("-a--b-", "-a--b-"),
        ("\"a] odd [b\"", "a] odd [b"),
        ("\"a\\nb\"", "a b"),
        ("Größe", "Größe"),
        (&longest, &longest),
        ("\"\"", "own"),
        ("\" \\n\"", "own"),
    ] {
        let (line, warnings) = one(skill(given, "x")).await;
        assert_eq!(line, format!("- [{shown}] x {END}"));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    let (line, warnings) = one(skill(&"a".repeat(70), "x")).await;
    assert_eq!(line, format!("- [{longest}] x {END}"));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].ends_with("its name is longer than 64 characters; 6 are left out"));
}

#[tokio::test]
async fn skill_descriptions_are_cut_and_on_one_line() {
    let (line, warnings) = one(skill("own", &"é".repeat(1024))).await;
    assert_eq!(line, format!("- [own] {} {END}", "é".repeat(1024)));
    assert!(warnings.is_empty());

    let (line, warnings) = one(skill("own", &"é".repeat(1030))).await;
    assert_eq!(line, format!("- [own] {} {END}", "é".repeat(1024)));
    assert_eq!(
        warnings,
        [
            "skills: /workspace/skills/own/SKILL.md: its description is longer than 1024 \
             characters; 6 are left out"
        ]
    );

    let sly = "\"a\\n\\n# New rules\\u200b\\u202e\\e[31m  \\t b\"";
    let (line, _) = one(skill("own", sly)).await;
    assert_eq!(line, format!("- [own] a # New rules[31m b {END}"));

    let (line, warnings) = one("---\nname: own\n---\n").await;
    assert_eq!(line, format!("- [own] {END}"));
    assert_eq!(warnings.len(), 1);
    let (line, warnings) = one("---\n---\n").await;
    assert_eq!(line, format!("- [own] {END}"));
    assert_eq!(warnings.len(), 1);
}

#[tokio::test]
async fn second_skill_of_a_name_is_skipped_with_a_warning() {
    let backend = with(&[
        ("b/x/SKILL.md", skill("same", "first").as_bytes()),
        ("a/x/SKILL.md", skill("same", "second").as_bytes()),
    ])
    .await;
    let (text, warnings) = prompt(SkillsHook::new(backend).paths(["b", "a", "b"])).await;
    assert!(text.contains("[same] first") && !text.contains("second"));
    assert_eq!(
        warnings,
        [
            "skills: /workspace/a/x/SKILL.md is left out: /workspace/b/x/SKILL.md has the name \
             \"same\", too",
        ],
        "a folder given twice is no mistake of the skill"
    );
}

#[tokio::test]
async fn skill_search_is_bounded() {
    let deep = format!("skills{}/SKILL.md", "/d".repeat(9));
    let backend = with(&[
        (&deep, skill("deep", "x").as_bytes()),
        ("skills/d/ok/SKILL.md", skill("ok", "x").as_bytes()),
        ("skills/a\nb/SKILL.md", skill("sly", "x").as_bytes()),
        (
            "skills/big/SKILL.md",
            format!("---\n#{}\n---\n", "x".repeat(70_000)).as_bytes(),
        ),
    ])
    .await;
    let (text, warnings) = prompt(SkillsHook::new(backend)).await;
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("[ok]"));
    assert_eq!(warnings.len(), 3);
    assert!(
        warnings[0].contains("characters that do not show"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("big/SKILL.md is left out: its front matter has no end"));
    assert!(warnings[2].ends_with("was not searched: it lies too deep"));

    let backend = MemoryBackend::new();
    for n in 0..2_100 {
        let path = format!("skills/s{n:04}/SKILL.md");
        backend.write(&path, b"---\nbroken").await.unwrap();
    }

    let (text, warnings) = prompt(SkillsHook::new(backend)).await;
    assert_eq!(text, "");
    assert_eq!(warnings.len(), 21);
    assert_eq!(warnings[20], "skills: 1980 more warnings");
}

#[tokio::test]
async fn skill_list_is_bounded_as_a_whole() {
    let backend = MemoryBackend::new();
    let description = "x".repeat(1_000);
    for n in 0..40 {
        let content = skill(&format!("s{n:02}"), &description);
        let path = format!("skills/s{n:02}/SKILL.md");
        backend.write(&path, content.as_bytes()).await.unwrap();
    }

    let (text, warnings) = prompt(SkillsHook::new(backend)).await;
    let catalog = text.trim_end().len();
    assert!(catalog <= 32 * 1024, "{catalog}");
    let lines: Vec<&str> = text.lines().collect();
    let listed = lines.len() - 2;
    assert!(lines[1].starts_with("- [s00] ") && listed > 25, "{listed}");
    let omitted = 40 - listed;
    let note = format!("- ({omitted} more skills are not listed)");
    assert_eq!(lines[lines.len() - 1], note);
    let warning = format!(
        "skills: {omitted} of 40 skills are not listed: the list is limited to 32768 bytes"
    );
    assert_eq!(warnings, [warning]);
}

#[tokio::test]
async fn large_skill_body_is_not_read() {
    let mut content = skill("own", "x").into_bytes();
    content.resize(2_000_000, b'\xff');
    let (line, warnings) = one(content).await;
    assert_eq!(line, format!("- [own] x {END}"));
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test]
async fn added_skill_is_listed_in_the_next_run() {
    let backend = with(&[("skills/a/SKILL.md", skill("a", "x").as_bytes())]).await;
    let model = ScriptedModel::new().say("one").say("two");
    let agent = agent(model.clone())
        .hook(SkillsHook::new(backend.clone()))
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let new = skill("b", "y");
    backend
        .write("skills/b/SKILL.md", new.as_bytes())
        .await
        .unwrap();
    agent.session("s").run("Go on").await.unwrap();
    let counts: Vec<usize> = model
        .requests()
        .iter()
        .map(|request| request.system.to_string().matches("- [").count())
        .collect();
    assert_eq!(counts, [1, 2]);
}

#[cfg(all(feature = "tools", unix))]
#[tokio::test]
async fn symbolic_links_cause_no_loops_and_stay_in_the_workspace() {
    let workspace = crate::kit::workspace::Workspace::new();
    workspace.put("skills/a/SKILL.md", skill("a", "x"));
    workspace.put("shared/b/SKILL.md", skill("b", "y"));
    workspace.put("shared/b/c/SKILL.md", skill("c", "z"));
    std::fs::write(workspace.out.join("SKILL.md"), skill("secret", "out")).unwrap();
    workspace.link("../skills", "skills/circle");
    workspace.link(".", "skills/a/self");
    workspace.link("../shared/b", "skills/b");
    workspace.link("../../shared/b/SKILL.md", "skills/a/notes.md");
    workspace.link("gone", "skills/broken");
    workspace.link(&workspace.out, "skills/out");
    std::fs::create_dir(workspace.root.join("skills/d")).unwrap();
    workspace.link(workspace.out.join("SKILL.md"), "skills/d/SKILL.md");
    let (text, warnings) = prompt(SkillsHook::new(workspace.backend.clone())).await;
    let names: Vec<&str> = text
        .lines()
        .skip(1)
        .map(|line| line.split(']').next().unwrap())
        .collect();
    assert_eq!(names, ["- [a", "- [b"]);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("a/self/SKILL.md is left out"));
    assert!(warnings[1].contains("d/SKILL.md was not read"));
}

#[tokio::test]
async fn hostile_front_matter_is_read_or_skipped_with_a_warning() {
    for (content, expected) in [
        // In YAML, tabs may separate tokens but not indent lines.
        ("---\nname:\town\n---\n", true),
        ("---\nmeta:\n\ta: b\nname: own\n---\n", false),
        ("---\r\nname: own\r\ndescription: x\r\n---\r\n", true),
        ("\u{feff}---\nname: own\n---\n", true),
        ("\n---\nname: other\n---\n", true),
        ("----\nname: other\n----\n", true),
        ("---\nname: own\n...\n---\n", true),
        ("---\nname: !!binary own\n---\n", false),
        ("---\nname: &a [*a]\n---\n", false),
        ("---\n<<: {name: own}\n---\n", true),
        ("---\nname: ~\n---\n", true),
        ("---\n%YAML 9.9\n---\nname: own\n---\n", false),
        ("---\n\0\n---\n", false),
    ] {
        let (line, warnings) = one(content).await;
        assert_eq!(
            line.contains("[own]"),
            expected,
            "{content:?}: {warnings:?}"
        );
        assert!(
            !warnings.is_empty() || line.contains("[own] x"),
            "{content:?}"
        );
        assert_eq!(line.lines().count(), usize::from(expected), "{content:?}");
    }

    let endless = format!("---\nname: own\n# {}\n---\n", "x".repeat(1024 * 1024));
    let (line, warnings) = one(endless).await;
    assert_eq!(line, "");
    assert!(warnings[0].contains("has no end"), "{warnings:?}");
}

#[test]
fn random_front_matter_adds_at_most_one_line() {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

    let piece = prop_oneof![
        Just("name: "),
        Just("description: "),
        Just("\n"),
        Just("  "),
        Just("\t"),
        Just("- "),
        Just("[{"),
        Just("}]"),
        Just("&a "),
        Just("*a"),
        Just("!!int "),
        Just("|\n"),
        Just(">-\n"),
        Just("'"),
        Just("\""),
        Just("\\u20"),
        Just("? "),
        Just(": "),
        Just("<<: "),
        Just("# "),
        Just("---\n"),
        Just("...\n"),
        Just("%TAG ! x\n"),
        Just("é\u{2028}"),
        Just("\0"),
        Just("1e999"),
    ];
    let content = prop::collection::vec(piece, 0..40).prop_map(|all| all.concat());
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(crate::kit::effort::cases(150))
    };

    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let property = |yaml: String| {
        let (line, _) = runtime.block_on(one(format!("---\n{yaml}\n---\n")));
        prop_assert!(line.lines().count() <= 1, "{line}");
        Ok(())
    };

    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(&content, property) {
        panic!("{failure}");
    }
}

/// A folder with many links to one folder, which counts listings.
#[derive(Debug)]
struct Links {
    files: MemoryBackend,
    listings: std::sync::atomic::AtomicUsize,
}

#[agentcore::async_trait]
impl Backend for Links {
    fn root(&self) -> &str {
        self.files.root()
    }

    async fn read(&self, path: &str) -> agentcore::Result<bytes::Bytes> {
        self.files.read(path).await
    }

    async fn stat(&self, path: &str) -> agentcore::Result<agentcore::backend::Metadata> {
        self.files.stat(path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> agentcore::Result<()> {
        self.files.write(path, content).await
    }

    async fn list(&self, path: &str) -> agentcore::Result<Vec<agentcore::backend::DirEntry>> {
        self.listings
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut entries = self.files.list(path).await?;
        if path.ends_with("/skills") {
            for entry in &mut entries {
                entry.kind = agentcore::backend::EntryKind::Symlink;
            }
        }
        Ok(entries)
    }

    async fn remove(&self, path: &str) -> agentcore::Result<()> {
        self.files.remove(path).await
    }
}

#[tokio::test]
async fn folders_behind_links_are_not_listed() {
    let files = MemoryBackend::new();
    for number in 0..100 {
        let path = format!(
            "skills/s{number:02}/{}",
            if number == 7 { "SKILL.md" } else { "x" }
        );
        files
            .write(&path, skill("seventh", "x").as_bytes())
            .await
            .unwrap();
    }
    let links = std::sync::Arc::new(Links {
        files,
        listings: Default::default(),
    });
    let (text, warnings) = prompt(SkillsHook::new(links.clone())).await;
    assert!(text.contains("- [seventh]"), "{text}");
    assert_eq!(warnings, [""; 0]);
    assert_eq!(links.listings.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn entries_of_the_search_for_skills_are_limited_together() {
    let backend = MemoryBackend::new();
    for folder in 0..30 {
        for number in 0..7_000 {
            let path = format!("skills/s{folder:02}/{number:04}");
            backend.write(&path, b"").await.unwrap();
        }
        let path = format!("skills/s{folder:02}/SKILL.md");
        let content = skill(&format!("s{folder:02}"), "x");
        backend.write(&path, content.as_bytes()).await.unwrap();
    }
    let (text, warnings) = prompt(SkillsHook::new(backend)).await;
    assert_eq!(text.matches("- [").count(), 28, "{text}");
    assert_eq!(
        warnings,
        ["skills: the search ended at /workspace/skills/s28: more than 200000 entries"]
    );
}
