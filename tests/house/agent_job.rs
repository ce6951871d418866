//! A typical job: the agent makes the failing test of a project pass.

use std::process::Command;

use serde_json::{Value, json};

use crate::agent_cli::{Workshop, call, results};

/// A library with one mistake, and a test that finds it.
const LIBRARY: &str = r#"//! Statistics.

/// The value in the middle; the mean of the two in the middle when their number is even.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.is_empty() {
        None
    } else if sorted.len() % 2 == 1 {
        Some(sorted[middle])
    } else {
        Some((sorted[middle] + sorted[middle + 1]) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn of_an_even_number() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn of_an_odd_number() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }
}
"#;

const WRONG: &str = "sorted[middle] + sorted[middle + 1]";
const RIGHT: &str = "sorted[middle - 1] + sorted[middle]";

/// Returns the script that checks the project. It names the compiler itself, since the one in the
/// path may be a wrapper that needs more of the environment than an agent's command has.
fn check_script() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output();
    let sysroot = String::from_utf8(output.unwrap().stdout).unwrap();
    let rustc = format!("{}/bin/rustc", sysroot.trim());
    format!(
        "set -e\n'{rustc}' --edition 2021 --test src/lib.rs -o build/check\nbuild/check --quiet\n"
    )
}

fn project(script: &Value) -> Workshop {
    let workshop = Workshop::new(script);
    workshop.put("src/lib.rs", LIBRARY);
    workshop.put("check.sh", &check_script());
    workshop.put("build/.keep", "");
    workshop
}

#[test]
fn scripted_job_fixes_a_failing_test() {
    let check = json!({"command": "sh check.sh", "description": "Run the tests"});
    let edit = json!({"file_path": "src/lib.rs", "old_string": WRONG, "new_string": RIGHT});
    let workshop = project(&json!([
        {"text": "I run the tests first.", "calls": [{"name": "Bash", "args": check}]},
        call("Grep", json!({"pattern": "fn median", "output_mode": "content"})),
        call("Read", json!({"file_path": "src/lib.rs", "offset": 4, "limit": 12})),
        {"text": "A clean start?", "calls": [
            {"name": "Bash", "args": {"command": "cd src && rm -rf ../build"}}
        ]},
        call("Edit", edit),
        call("Bash", check),
        {"text": "The tests pass: the two values in the middle were one too high."}
    ]));
    let (messages, code) = workshop.run(&[
        "--permission-mode",
        "acceptEdits",
        "--allow",
        "Bash(sh check.sh)",
        "--deny",
        "Bash(rm:*)",
    ]);

    let results = results(&messages);
    let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
    let failed: Vec<bool> = results.iter().map(|(failed, _)| *failed).collect();
    assert_eq!(
        failed,
        [false, false, false, true, false, false],
        "{texts:#?}"
    );
    assert!(texts[0].contains("of_an_even_number") && texts[0].contains("Exit code: 101"));
    assert_eq!(
        texts[1],
        "src/lib.rs:4:pub fn median(values: &[f64]) -> Option<f64> {"
    );
    assert!(texts[2].contains(&format!("    13\t        Some(({WRONG}) / 2.0)")));
    assert_eq!(texts[3], "Error: denied by rule deny:Bash(rm:*)");
    assert!(texts[4].contains(&format!("+        Some(({RIGHT}) / 2.0)")));
    assert!(texts[5].contains("2 passed; 0 failed") && !texts[5].contains("Exit code"));

    assert_eq!(
        workshop.get("src/lib.rs").unwrap(),
        LIBRARY.replace(WRONG, RIGHT)
    );
    assert!(workshop.get("build/.keep").is_some(), "nothing was removed");

    let kind = |message: &Value| match message["subtype"].as_str() {
        Some(subtype) => format!("{}/{subtype}", message["type"].as_str().unwrap()),
        None => message["type"].as_str().unwrap().to_owned(),
    };

    let kinds: Vec<String> = messages.iter().map(kind).collect();
    assert_eq!(kinds[0], "system/init");
    let tools = "Bash Edit Glob Grep Read Write write_todos";
    let tools: Vec<&str> = tools.split(' ').collect();
    assert_eq!(messages[0]["tools"], json!(tools));
    assert_eq!(messages[0]["permissionMode"], "acceptEdits");
    let denied: Vec<&Value> = messages
        .iter()
        .filter(|message| message["subtype"] == "permission_denied")
        .collect();
    assert_eq!(denied.len(), 1);
    assert_eq!(denied[0]["tool_name"], "Bash");
    let reason = "deny: denied by rule deny:Bash(rm:*) (--deny)";
    assert_eq!(denied[0]["decision_reason"], reason);
    let result = messages.last().unwrap();
    assert_eq!(kinds.last().unwrap(), "result/success");
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| kind.starts_with("result"))
            .count(),
        1
    );
    assert_eq!(
        (&result["num_turns"], &result["is_error"]),
        (&json!(7), &json!(false))
    );
    assert!(
        result["result"]
            .as_str()
            .unwrap()
            .starts_with("The tests pass")
    );
    let denials = result["permission_denials"].as_array().unwrap();
    assert_eq!(denials.len(), 1);
    assert_eq!(
        denials[0]["tool_input"]["command"],
        "cd src && rm -rf ../build"
    );
    assert_eq!(code, Some(0));
}

#[test]
fn files_outside_the_project_cannot_be_accessed() {
    let workshop = project(&json!([
        call("Read", json!({"file_path": "../script.json"})),
        call("Write", json!({"file_path": "../script.json", "content": ""})),
        call("Grep", json!({"pattern": "root", "path": "/etc"})),
        {"text": "done"}
    ]));
    let (messages, _) = workshop.run(&["--permission-mode", "bypassPermissions"]);
    let results = results(&messages);
    assert_eq!(results.len(), 3);
    for (failed, why) in results {
        assert!(failed && why.contains("outside"), "{why}");
    }
}
