//! The headless agent with a user at its terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::agent_cli::{Workshop, call, messages, results};

/// The time after which a program that has not asked is assumed not to ask.
const AT_MOST: Duration = Duration::from_secs(60);

/// A user at a terminal.
pub struct Somebody {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Somebody {
    /// Opens a terminal, and returns its user and the end for the program.
    pub fn sits_down() -> (Self, OwnedFd) {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let terminal = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        let keyboard = File::from(keyboard);
        let (sender, screen) = channel();
        let mut reader = keyboard.try_clone().unwrap();

        // The thread ends when the program has closed its end, or the user is dropped.
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                if sender.send(piece[..read].to_vec()).is_err() {
                    return;
                }
            }
        });

        let seen = String::new();
        (
            Self {
                keyboard,
                screen,
                seen,
            },
            terminal,
        )
    }

    /// Waits until the screen shows `text` after the text of the last wait.
    pub fn sees(&mut self, text: &str) {
        self.reads_until(text);
    }

    /// Waits until the screen shows `text`, and returns the text before it.
    pub fn reads_until(&mut self, text: &str) -> String {
        while !self.seen.contains(text) {
            match self.screen.recv_timeout(AT_MOST) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(error) => panic!("{text:?} was not shown ({error}): {:?}", self.seen),
            }
        }
        let at = self.seen.find(text).unwrap();
        let before = self.seen[..at].to_owned();
        self.seen.drain(..at + text.len());
        before
    }

    pub fn types(&mut self, line: &str) {
        self.keyboard.write_all(line.as_bytes()).unwrap();
    }
}

fn start(workshop: &Workshop, arguments: &[&str]) -> (Child, Somebody) {
    let (user, terminal) = Somebody::sits_down();
    let mut command = workshop.agent(&["--output", "stream-json"]);
    let child = command
        .args(arguments)
        .stdin(terminal)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command would keep the program's end of the terminal open.
    drop(command);
    (child, user)
}

fn end(child: Child) -> (Vec<Value>, Option<i32>) {
    messages(&child.wait_with_output().unwrap())
}

fn touch(name: &str) -> Value {
    call("Bash", json!({"command": format!("touch {name}")}))
}

#[test]
fn permission_question_accepts_each_answer() {
    let workshop = Workshop::new(&json!([
        touch("once"),
        touch("always"),
        touch("always"),
        touch("never"),
        touch("elsewhere"),
        {"text": "done"}
    ]));
    let (child, mut user) = start(&workshop, &[]);
    for (name, answers) in [
        ("once", &["y\n"][..]),
        // Neither an empty line nor an unknown number is an answer.
        ("always", &["\n", "7\n", "Always\n"]),
        ("never", &["3\n"]),
        ("elsewhere", &["put it into target\n"]),
    ] {
        user.sees(&format!("Bash wants to run `touch {name}`: no rule allows"));
        for answer in answers {
            user.sees("1-3, or why not: ");
            user.types(answer);
        }
    }

    let (messages, code) = end(child);
    let results = results(&messages);
    let failed: Vec<bool> = results.iter().map(|(failed, _)| *failed).collect();
    assert_eq!(failed, [false, false, false, true, true], "{results:#?}");
    assert_eq!(results[3].1, "Error: the user denied this call");
    assert_eq!(
        results[4].1,
        "Error: the user denied this call: put it into target"
    );
    assert!(workshop.get("once").is_some() && workshop.get("always").is_some());
    assert!(workshop.get("never").is_none() && workshop.get("elsewhere").is_none());
    assert_eq!(code, Some(0));
}

#[test]
fn ask_user_question_accepts_single_multiple_and_free_answers() {
    let option = |label: &str| json!({"label": label, "description": "as you\u{1b}[2J like"});
    let question = |text: &str, multiple: bool| {
        json!({"question": text, "header": "Format", "multiSelect": multiple,
               "options": [option("JSON"), option("YAML"), option("TOML")]})
    };

    let questions = json!([
        question("One?", false),
        question("Many?", true),
        question("Other?", false)
    ]);
    let workshop = Workshop::new(&json!([
        call("AskUserQuestion", json!({"questions": questions})),
        {"text": "done"}
    ]));
    let (child, mut user) = start(&workshop, &["--permission-mode", "plan"]);
    user.sees("[Format] One?");
    user.sees("2) YAML - as you\\u{1b}[2J like");
    user.sees(": ");
    user.types("2\n");
    user.sees("1-3, several with commas, or another answer: ");
    user.types("toml, 1\n");
    user.sees("Other?");
    user.sees("or another answer: ");
    user.types("a binary one\n");
    let (messages, _) = end(child);
    let expected = "One?\n> YAML\n\nMany?\n> JSON, TOML\n\nOther?\n> a binary one";
    assert_eq!(results(&messages), [(false, expected.to_owned())]);
}

#[test]
fn end_of_input_leaves_the_question_unanswered() {
    let workshop = Workshop::new(&json!([touch("made"), {"text": "done"}]));
    let (child, mut user) = start(&workshop, &[]);
    user.sees("or why not: ");
    user.types("\u{4}");
    let (messages, code) = end(child);
    let (failed, why) = results(&messages).remove(0);
    assert!(
        failed && why.contains("the question cannot be answered"),
        "{why}"
    );
    assert_eq!((workshop.get("made"), code), (None, Some(0)));
}

/// An open question blocks neither the end of the run nor that of the program.
#[test]
fn interrupt_ends_the_run_during_an_open_question() {
    let workshop = Workshop::new(&json!([touch("made"), {"text": "done"}]));
    let (child, mut user) = start(&workshop, &[]);
    user.sees("or why not: ");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (messages, code) = end(child);
    let result = messages.last().unwrap();
    assert_eq!(result["type"], "result");
    assert_eq!((workshop.get("made"), code), (None, Some(1)), "{result}");
}

#[test]
fn directory_is_trusted_after_one_answer_at_the_terminal() {
    let workshop = Workshop::new(&json!([{"text": "done"}]));
    workshop.put("AGENTS.md", "Speak like a sailor.");
    let state = workshop.beside("state");
    let ask = |answer: Option<&str>| {
        let (mut user, terminal) = Somebody::sits_down();
        let mut command = workshop.agent(&[]);
        command.env("XDG_STATE_HOME", &state).stdin(terminal);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        drop(command);
        if let Some(answer) = answer {
            user.sees("instruct the model?");
            user.sees(": ");
            user.types(answer);
        }
        let output = child.unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        std::fs::read_to_string(format!("{state}/agentcore/trusted")).unwrap_or_default()
    };

    assert_eq!(ask(Some("2\n")), "");
    let project = workshop.project().canonicalize().unwrap();
    let trusted = format!("{}\n", project.display());
    assert_eq!(ask(Some("1\n")), trusted);
    // A question would wait for an answer, so there is none.
    assert_eq!(ask(None), trusted);
}
