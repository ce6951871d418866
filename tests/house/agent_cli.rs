//! The headless agent of `examples/agent`, started as its users start it.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the program of an example, and builds the examples first: `cargo test --test house` does
/// not build them, and a program that was built earlier may be out of date.
pub fn example(name: &str) -> &'static Path {
    static PROGRAMS: OnceLock<HashMap<String, PathBuf>> = OnceLock::new();
    PROGRAMS
        .get_or_init(|| {
            build(&[
                "agent",
                "approval",
                "gateway",
                "handoff",
                "quickstart",
                "repair_history",
                "server",
                "sessions",
                "subagents",
            ])
        })
        .get(name)
        .expect("cargo reports the path of the example")
}

fn build(names: &[&str]) -> HashMap<String, PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--all-features"])
        .args(["--locked", "--offline", "--message-format=json"]);
    for name in names {
        build.args(["--example", name]);
    }

    // Cargo sets these variables for tests. Build scripts that read them would run again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&*name);
        }
    }

    if !cfg!(debug_assertions) {
        build.arg("--release");
    }

    let output = build.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the examples were not built: {errors}"
    );
    let messages = String::from_utf8(output.stdout).unwrap();
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, PathBuf::from(message["executable"].as_str()?)))
        })
        .collect()
}

/// Returns the command of the agent with these arguments, without keys. It runs in a process group
/// of its own, so it is not in the foreground of a terminal and asks no questions.
pub fn agent(arguments: &[&str]) -> Command {
    let mut command = Command::new(example("agent"));
    command
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::null())
        .env_remove("AGENTCORE_MODEL")
        .env_remove("ANTHROPIC_API_KEY")
        .env_remove("OPENAI_API_KEY")
        .env_remove("GEMINI_API_KEY");
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a script for the model, and a project to work in.
pub struct Workshop {
    dir: TempDir,
}

impl Workshop {
    pub fn new(script: &Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("project")).unwrap();
        fs::write(dir.path().join("script.json"), script.to_string()).unwrap();
        Self { dir }
    }

    pub fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    pub fn put(&self, path: &str, content: &str) {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn get(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.project().join(path)).ok()
    }

    /// Sets the script of the model for the next process.
    pub fn script(&self, script: &Value) {
        fs::write(self.dir.path().join("script.json"), script.to_string()).unwrap();
    }

    /// Returns a path next to the project.
    pub fn beside(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Returns the command of the agent in the project, with the script as its model.
    pub fn agent(&self, arguments: &[&str]) -> Command {
        let mut command = self.without_prompt(arguments);
        command.arg("Go");
        command
    }

    pub fn without_prompt(&self, arguments: &[&str]) -> Command {
        let model = format!("scripted:{}", self.beside("script.json"));
        let mut command = agent(&["--model", &model]);
        command.arg("--cwd").arg(self.project());
        command.args(arguments);
        command
    }

    /// Runs the agent, and returns its messages and its exit code.
    pub fn run(&self, arguments: &[&str]) -> (Vec<Value>, Option<i32>) {
        let mut command = self.agent(&["--output", "stream-json"]);
        // Options may follow the prompt.
        messages(&command.args(arguments).output().unwrap())
    }
}

pub fn messages(output: &Output) -> (Vec<Value>, Option<i32>) {
    let lines = text(&output.stdout);
    let parsed = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")));
    let parsed: Vec<Value> = parsed.collect();
    assert!(!parsed.is_empty(), "{}", text(&output.stderr));
    (parsed, output.status.code())
}

/// Returns the results of the calls in order, each as whether it failed, and its text.
pub fn results(messages: &[Value]) -> Vec<(bool, String)> {
    let users = messages.iter().filter(|message| message["type"] == "user");
    let blocks = users.flat_map(|message| message["message"]["content"].as_array().cloned());
    blocks
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .map(|block| {
            let content = match &block["content"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };

            (block["is_error"] == true, content)
        })
        .collect()
}

pub fn call(name: &str, args: impl Into<Value>) -> Value {
    let args: Value = args.into();
    json!({"calls": [{"name": name, "args": args}]})
}

#[test]
fn scripted_model_echoes_the_prompt() {
    let output = agent(&["--model", "scripted", "Hello"]).output().unwrap();
    assert_eq!(text(&output.stdout), "Hello\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn prompt_is_read_from_standard_input() {
    let mut child = agent(&["--model", "scripted"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"piped in\n").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "piped in\n");
}

#[test]
fn invalid_options_exit_with_code_2_before_a_run() {
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = files.path().join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };

    let rules = file("bad.yaml", "allow:\n  - Read\n  - Bash()\n");
    let key = file("key.json", r#"{"api_key": "x"}"#);
    let script = file("script.json", r#"[{"text": "a", "call": []}]"#);
    let script = format!("scripted:{script}");
    for (arguments, reason) in [
        (
            vec!["--deny", "Bash()"],
            "--deny: permission rule \"Bash()\": empty specifier",
        ),
        (vec!["--allow", "Read(/a"], "the parenthesis is not closed"),
        (
            vec!["--ask", "deny:Bash(rm:*)"],
            "the rule begins with `deny:` but is in the list `ask`",
        ),
        (
            vec!["--permission-mode", "yolo"],
            "unknown permission mode \"yolo\"",
        ),
        (
            vec!["--rules", &rules],
            "line 3, column 5: permission rule \"Bash()\"",
        ),
        (vec!["--rules", &key], "unknown field `api_key`"),
        (
            vec!["--rules", "/nowhere/rules.json"],
            "--rules /nowhere/rules.json: No such file",
        ),
        (vec!["--cwd", "/nowhere"], "--cwd /nowhere"),
        (vec!["--model", &script], "unknown field `call`"),
        (vec!["--model", "scripted:/nowhere"], "the script /nowhere"),
    ] {
        let mut all = vec!["Hi"];
        if arguments[0] != "--model" {
            all.extend(["--model", "scripted"]);
        }
        all.extend(arguments);
        let output = agent(&all).output().unwrap();
        let stderr = text(&output.stderr);
        assert!(stderr.contains(reason), "{all:?}: {stderr}");
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(2), 0),
            "{all:?}"
        );
    }
}

#[test]
fn call_that_needs_an_answer_is_denied_without_a_terminal() {
    let workshop = Workshop::new(&json!([
        call("Bash", json!({"command": "touch made"})),
        {"text": "I could not."}
    ]));
    let (messages, code) = workshop.run(&[]);
    let (failed, why) = results(&messages).remove(0);
    assert!(
        failed && why.contains("the question cannot be answered"),
        "{why}"
    );
    assert!(why.contains("no rule allows"), "{why}");
    assert_eq!(workshop.get("made"), None);
    assert_eq!(code, Some(0));
    let tools = messages[0]["tools"].as_array().unwrap();
    assert!(
        !tools.contains(&json!("AskUserQuestion")),
        "there is no user to answer"
    );

    // Without JSON, standard error reports the denial.
    let output = workshop.agent(&[]).output().unwrap();
    assert_eq!(text(&output.stdout), "I could not.\n");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("agent: Bash is denied: "), "{stderr}");
    assert!(stderr.contains("no rule allows"), "{stderr}");
}

#[test]
fn modes_and_rules_are_read_from_options_and_files() {
    let script = json!([
        call("Write", json!({"file_path": "a.txt", "content": "a"})),
        call("Bash", json!({"command": "touch b.txt"})),
        {"text": "done"}
    ]);
    let rules = |content: &str| {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        fs::write(file.path(), content).unwrap();
        file
    };

    let none = rules("# nothing\n");
    let edits = rules("mode: acceptEdits\nallow: ['Bash(touch:*)']\n");
    let denied = rules("deny: ['Bash(touch:*)']\n");
    for (arguments, file, made) in [
        (vec![], &none, [false, false]),
        (
            vec!["--permission-mode", "acceptEdits"],
            &none,
            [true, false],
        ),
        (
            vec!["--permission-mode", "bypassPermissions"],
            &none,
            [true, true],
        ),
        (
            vec!["--permission-mode", "bypassPermissions"],
            &denied,
            [true, false],
        ),
        (vec!["--allow", "Bash(touch b.txt)"], &none, [false, true]),
        (
            vec!["--allow", "Bash", "--ask", "Bash(touch:*)"],
            &none,
            [false, false],
        ),
        (vec![], &edits, [true, true]),
        (vec!["--permission-mode", "default"], &edits, [false, true]),
        (vec!["--permission-mode", "plan"], &edits, [false, false]),
        (vec!["--deny", "Write"], &edits, [false, false]),
    ] {
        let workshop = Workshop::new(&script);
        let path = file.path().display().to_string();
        let mut all = vec!["--rules", &path];
        all.extend(&arguments);
        let (messages, code) = workshop.run(&all);
        let files = ["a.txt", "b.txt"].map(|name| workshop.get(name).is_some());
        assert_eq!(files, made, "{arguments:?}: {:?}", results(&messages));
        assert_eq!(code, Some(0));
        let mode = messages[0]["permissionMode"].as_str().unwrap();
        if let ["--permission-mode", expected] = arguments[..] {
            assert_eq!(mode, expected);
        }
    }
}
