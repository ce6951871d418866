//! The small programs of `examples`, started as their users start them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use agentcore::Messages;

use crate::agent_cli::example;

fn run(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn repair_history_reads_and_writes_a_history() {
    let program = example("repair_history");
    let cases = [
        (
            r#"[{"role":"user","content":"Hi"},{"role":"tool","content":"?","tool_call_id":"c","name":"x"}]"#,
            "message[1]",
        ),
        (r#"[{"role":"user","content":"Hi"}]"#, "nothing to repair"),
        ("[]", "nothing to repair"),
    ];
    for (input, reason) in cases {
        let output = run(Command::new(program), input);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        assert!(errors.contains(reason), "{input}: {errors}");
        let history = Messages::from_json(&output.stdout).unwrap();
        assert!(history.is_empty() || history.validate_for_model().is_ok());
    }

    for broken in ["", "[", "{}", r#"[{"role":"nobody","content":"x"}]"#] {
        let output = run(Command::new(program), broken);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{broken}");
        assert!(
            errors.starts_with("repair_history: cannot read"),
            "{errors}"
        );
        assert!(output.stdout.is_empty(), "{broken}");
    }
}

/// Returns a pipe without a reader.
fn closed_pipe() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

/// Returns the exit code of a program whose output and errors have no reader.
fn exit_code_without_output(mut command: Command, input: &str) -> Option<i32> {
    command.stdout(closed_pipe());
    exit_code_without_stderr(command, input)
}

/// Returns the exit code of a program whose standard error has no reader.
fn exit_code_without_stderr(mut command: Command, input: &str) -> Option<i32> {
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(closed_pipe())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The program may have ended without reading.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait().unwrap().code()
}

#[test]
fn programs_exit_cleanly_when_their_output_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, args: &[&str]| {
        let mut command = Command::new(example(name));
        command
            .args(args)
            .current_dir(folder.path())
            .env("XDG_STATE_HOME", folder.path())
            .env_remove("AGENTCORE_MODEL")
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("OPENAI_API_KEY")
            .env_remove("GEMINI_API_KEY");
        command
    };

    let nonsense = r#"[{"role":"assistant","content":""}]"#;
    for (history, code) in [("[]", 0), (nonsense, 0), ("nonsense", 1)] {
        assert_eq!(
            exit_code_without_output(of("repair_history", &[]), history),
            Some(1)
        );
        let mut repair = of("repair_history", &[]);
        repair.stdout(Stdio::null());
        assert_eq!(
            exit_code_without_stderr(repair, history),
            Some(code),
            "{history}"
        );
    }

    assert_eq!(exit_code_without_output(of("quickstart", &[]), ""), Some(1));
    let ledger = folder.path().join("approval");
    let approval = |args: &[&str]| {
        let mut command = of("approval", args);
        command.arg("--folder").arg(&ledger);
        exit_code_without_output(command, "")
    };

    assert_eq!(approval(&["ask"]), Some(1));
    assert_eq!(approval(&["approve", "none"]), Some(1));
    for output in ["text", "json", "stream-json"] {
        let args = ["--model", "scripted", "--output", output, "--trace", "Hi"];
        assert_eq!(
            exit_code_without_output(of("agent", &args), ""),
            Some(0),
            "{output}"
        );
    }

    assert_eq!(
        exit_code_without_output(of("agent", &["--model", "nonsense", "Hi"]), ""),
        Some(2)
    );
}

/// The examples that users run as programs, in pipes. The others show one idea each, which
/// `println!` hides the least.
const PROGRAMS: [&str; 5] = [
    "agent",
    "approval.rs",
    "explain_permission.rs",
    "quickstart",
    "repair_history.rs",
];

#[test]
fn no_program_prints_with_what_panics() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for program in PROGRAMS {
        let path = examples.join(program);
        let files: Vec<_> = if path.is_dir() {
            fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect()
        } else {
            vec![path]
        };

        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let prints = text.contains("print!(") || text.contains("println!(");
            assert!(!prints, "{} panics without a reader", file.display());
        }
    }
}

#[test]
fn quickstart_runs_without_a_key() {
    let program = example("quickstart");
    let ask = |question: Option<&str>| {
        let mut command = Command::new(program);
        command
            .args(question)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("AGENTCORE_MODEL")
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("OPENAI_API_KEY")
            .env_remove("GEMINI_API_KEY");
        let output = run(command, "");
        let stdout = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), stdout)
    };

    let (code, stdout) = ask(None);
    assert_eq!(code, Some(0), "{stdout}");
    for expected in [
        "a scripted model answers",
        "list_files",
        "read_file",
        "src/",
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }

    let (code, stdout) = ask(Some("Why?"));
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("> Why?"), "{stdout}");
    assert!(stdout.contains("one question only"), "{stdout}");
}

#[test]
fn sessions_example_runs_without_a_key() {
    let output = run(Command::new(example("sessions")), "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "trip: Plan a trip to Oslo. (2 messages)",
        "continued: 4 messages",
        "forked: 4 messages",
        "imported: 4 messages",
        "removed: 3",
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
}

#[test]
fn server_example_answers_for_a_missing_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.yaml");
    let start = |model: &str| {
        fs::write(
            &path,
            format!("agents:\n  default: {{ model: '{model}' }}\n"),
        )
        .unwrap();
        let mut command = Command::new(example("server"));
        command.arg(&path).args(["--port", "0"]);
        command.env_remove("ANTHROPIC_API_KEY");
        command
    };

    let output = run(start("antropic:claude-sonnet-5"), "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("agents.yaml: agent \"default\": "),
        "{errors}"
    );
    assert!(errors.contains("antropic"), "{errors}");
    assert!(output.stdout.is_empty());

    let mut command = start("anthropic:claude-sonnet-5");
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let second = lines.next().unwrap().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(first.contains("ANTHROPIC_API_KEY"), "{first}");
    assert!(second.starts_with("http://127.0.0.1:"), "{second}");
}

#[test]
fn subagents_example_reads_the_documents_of_this_repository() {
    let output = run(Command::new(example("subagents")), "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "Three researchers read a file each.",
        "    Read CONTRIBUTING.md begins",
        "\nCONTRIBUTING.md: Checks, Guidelines\n",
        "(2 turns of the lead)",
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
}

#[test]
fn handoff_example_runs_without_a_key() {
    let output = run(Command::new(example("handoff")), "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "(refund {\"invoice\":\"2026-117\"})",
        "billing: Invoice 2026-117 was charged twice.",
        "billing: Within three days.",
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
}

/// Sends a POST with `body`, and returns the text of the response.
fn post(address: &str, body: &str) -> String {
    let address = address.strip_prefix("http://").unwrap();
    let (host, path) = address.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let len = body.len();
    let head = format!("POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len}\r\n\r\n");
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn gateway_example_serves_a_terminal_and_a_webhook_side_by_side() {
    let mut child = Command::new(example("gateway"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    let address = line();
    writeln!(stdin, "Hello").unwrap();
    assert_eq!(
        line(),
        "You wrote \"Hello\", message 1 of this conversation."
    );

    let reply = post(&address, r#"{"chat_id": "7", "content": "Hi"}"#);
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    let expected = r#"You wrote \"Hi\", message 1 of this conversation."#;
    assert!(reply.contains(expected), "{reply}");
    let reply = post(&address, r#"{"content": "Hi"}"#);
    assert!(reply.contains("chat_id is missing"), "{reply}");

    // Two requests of one chat at once each get the reply to their own message.
    let replies = std::thread::scope(|scope| {
        let post = |text: &str| {
            let body = format!(r#"{{"chat_id": "8", "content": "{text}"}}"#);
            let address = &address;
            scope.spawn(move || post(address, &body))
        };
        let requests = [("A", post("A")), ("B", post("B"))];
        requests.map(|(text, request)| (text, request.join().unwrap()))
    });
    for (text, reply) in replies {
        let expected = format!(r#"You wrote \"{text}\", message "#);
        assert!(reply.contains(&expected), "{text}: {reply}");
    }

    writeln!(stdin, "Again").unwrap();
    assert_eq!(
        line(),
        "You wrote \"Again\", message 2 of this conversation."
    );
    drop(stdin);
    assert!(child.wait().unwrap().success());
}
