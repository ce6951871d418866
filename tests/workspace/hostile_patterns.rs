//! Patterns and ignore files that would exhaust their parsers.
//!
//! Each case runs in a process of its own, on a thread with the stack size of a runtime's worker: a
//! stack overflow aborts the process, which no test in the same process could report.

use agentcore::backend::{Backend, LocalBackend, MemoryBackend};
use agentcore::tools::coding;
use agentcore::{Tool, ToolContext};
use serde_json::{Value, json};

use crate::kit::small_stack::{self, STACK};

const IGNORE_FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// Calls [`small_stack::survives`] for a test of this file.
fn survives(test: &str, case: impl FnOnce() + Send + 'static) {
    small_stack::survives(&format!("hostile_patterns::{test}"), case);
}

fn text(tool: &impl Tool, args: Value) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .thread_stack_size(STACK)
        .build()
        .unwrap();
    match runtime.block_on(tool.execute(ToolContext::detached(), args)) {
        Ok(output) => output.content.text().into_owned(),
        Err(error) => format!("Error: {error}"),
    }
}

/// Calls `check` with the tools over a backend in memory and one on disk, with these files next to
/// `a.rs`.
fn with_files(files: &[(&str, &str)], check: impl Fn(&dyn Fn(&str, Value) -> String)) {
    let memory = MemoryBackend::new();
    let folder = tempfile::tempdir().unwrap();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.build().unwrap();
    for (path, content) in [("a.rs", "one\n"), ("b.log", "one\n")].iter().chain(files) {
        runtime
            .block_on(memory.write(path, content.as_bytes()))
            .unwrap();
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    let local = LocalBackend::new(folder.path()).unwrap();
    check(&|tool, args| match tool {
        "Glob" => text(&coding::glob(memory.clone()), args),
        _ => text(&coding::grep(memory.clone()), args),
    });

    check(&|tool, args| match tool {
        "Glob" => text(&coding::glob(local.clone()), args),
        _ => text(&coding::grep(local.clone()), args),
    });
}

/// Checks that an ignore line like this has no effect, and that the lines around it do.
fn is_left_out(line: &str) {
    for file in IGNORE_FILES {
        let content = format!("*.log\n{line}\n!keep.log\n");
        with_files(&[(file, &content), ("keep.log", "one\n")], |call| {
            let globbed = call("Glob", json!({"pattern": "*"}));
            assert_eq!(globbed, "a.rs\nkeep.log", "{file}");
            let grepped = call("Grep", json!({"pattern": "one"}));
            assert_eq!(grepped, "a.rs\nkeep.log", "{file}");
        });
    }
}

/// Checks that a pattern like this in a call is an error that names `limit`.
fn is_refused(pattern: &str, limit: &str) {
    with_files(&[], |call| {
        let globbed = call("Glob", json!({"pattern": pattern}));
        assert!(globbed.starts_with("Error: "), "{:.200}", globbed);
        assert!(globbed.contains(limit), "{:.200}", globbed);
        let grepped = call("Grep", json!({"pattern": "one", "glob": pattern}));
        assert!(grepped.starts_with("Error: "), "{:.200}", grepped);
        assert!(grepped.contains(limit), "{:.200}", grepped);
    });
}

fn nested(depth: usize) -> String {
    format!("{}a{}", "{".repeat(depth), "}".repeat(depth))
}

fn alternatives(count: usize) -> String {
    format!("{{a{}}}", ",a".repeat(count - 1))
}

#[test]
fn ignore_line_with_15000_nested_braces_is_left_out() {
    survives("ignore_line_with_15000_nested_braces_is_left_out", || {
        is_left_out(&nested(15_000));
    });
}

#[test]
fn ignore_line_with_depth_hidden_in_classes_is_left_out() {
    survives(
        "ignore_line_with_depth_hidden_in_classes_is_left_out",
        || {
            is_left_out(&format!("{}a{}", "{[}]".repeat(10_000), "}".repeat(10_000)));
        },
    );
}

#[test]
fn ignore_lines_too_large_to_compile_are_left_out() {
    survives("ignore_lines_too_large_to_compile_are_left_out", || {
        is_left_out(&"{".repeat(100_000));
        is_left_out(&nested(1_000));
        is_left_out(&"*".repeat(100_000));
        is_left_out(&alternatives(100_000));
        is_left_out(&format!("[{}]", "a-z".repeat(50_000)));
    });
}

#[test]
fn pattern_nested_50000_deep_is_an_error() {
    survives("pattern_nested_50000_deep_is_an_error", || {
        is_refused(&nested(50_000), "1024 bytes");
        is_refused(&format!("src/{}", nested(50_000)), "1024 bytes");
    });
}

#[test]
fn pattern_too_large_to_compile_is_an_error_that_names_the_limit() {
    survives(
        "pattern_too_large_to_compile_is_an_error_that_names_the_limit",
        || {
            is_refused(&nested(1_000), "1024 bytes");
            is_refused(&"*".repeat(100_000), "1024 bytes");
            is_refused(&alternatives(1_000_000), "1024 bytes");
            is_refused(&nested(300), "32 `{`");
            is_refused(&"*".repeat(500), "128 `*`");
            is_refused(&alternatives(400), "256 `,`");
        },
    );
}

#[test]
fn pattern_at_the_limits_is_accepted() {
    with_files(&[], |call| {
        for pattern in [
            format!("*.{}", nested(30).replace('a', "rs")),
            format!("{{a.rs{}}}", ",b".repeat(255)),
            format!("{}.rs", "*".repeat(127)),
        ] {
            assert_eq!(call("Glob", json!({"pattern": pattern})), "a.rs");
        }
    });
}

#[test]
fn ignore_file_of_a_mebibyte_of_costly_lines_uses_little_memory() {
    survives(
        "ignore_file_of_a_mebibyte_of_costly_lines_uses_little_memory",
        || {
            let mut lines = String::new();
            while lines.len() < 1024 * 1024 {
                lines.push_str("a*b.c\n");
            }

            let files = [(".gitignore", &*lines), ("axb.c", "one\n")];
            with_files(&files, |call| {
                assert_eq!(call("Glob", json!({"pattern": "*.c"})), "No files found");
            });

            let peak = peak_memory();
            assert!(peak < 200 * 1024, "{peak} KiB");
        },
    );
}

/// Returns the maximum memory of this process so far, in KiB; 0 where the system does not report
/// it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.map_or(0, |number| number.parse().unwrap())
}

#[test]
fn costly_ignore_files_of_nested_folders_use_little_memory() {
    survives(
        "costly_ignore_files_of_nested_folders_use_little_memory",
        || {
            let lines = "a*b.c\n".repeat(3_000);
            let folders: Vec<String> = (1..6).map(|depth| "d/".repeat(depth)).collect();
            let files: Vec<String> = folders
                .iter()
                .map(|folder| format!("{folder}.gitignore"))
                .collect();
            let inner = format!("{}x.c", folders[4]);
            let mut files: Vec<(&str, &str)> =
                files.iter().map(|file| (&**file, &*lines)).collect();
            files.push((&inner, "one\n"));
            files.push(("d/y.c", "one\n"));
            with_files(&files, |call| {
                assert_eq!(
                    call("Glob", json!({"pattern": "d/**/*.c"})),
                    "d/y.c\n(truncated: only the first 1 files are shown)"
                );
            });

            let peak = peak_memory();
            assert!(peak < 200 * 1024, "{peak} KiB");
        },
    );
}

#[test]
fn ignore_line_cut_by_the_read_limit_is_left_out() {
    // The file is cut within its last line: `*.rs-not` must not become `*.rs`.
    for cut in 1..8 {
        let line = "# a comment that fills the file up\n";
        let mut content = line.repeat(300 * 1024 / line.len());
        content.truncate(256 * 1024);
        let end = content.len() - 1 - cut;
        content.truncate(end);
        content.push_str("\n*.rs-not\n");
        with_files(&[(".gitignore", &content)], |call| {
            let globbed = call("Glob", json!({"pattern": "*.rs"}));
            assert_eq!(globbed, "a.rs");
        });
    }
}

#[test]
fn later_ignore_lines_override_much_earlier_ones() {
    let mut content = String::from("*.log\n!a.rs\n");
    for number in 0..600 {
        content.push_str(&format!("/never/{number}/*.txt\n"));
    }
    content.push_str("!keep.log\na.rs\n");
    for file in IGNORE_FILES {
        with_files(&[(file, &content), ("keep.log", "one\n")], |call| {
            assert_eq!(call("Glob", json!({"pattern": "*"})), "keep.log");
        });
    }
}

#[test]
fn ignore_lines_with_many_wildcards_are_left_out_over_the_limit() {
    // Each line counts as eight, so the 300th exceeds the limit of a folder.
    let mut content = String::from("*.log\n");
    for number in 0..300 {
        content.push_str(&format!("{}b{number}\n", "*a".repeat(60)));
    }
    content.push_str("*.rs\n");
    for file in IGNORE_FILES {
        with_files(&[(file, &content)], |call| {
            assert_eq!(call("Glob", json!({"pattern": "*"})), "a.rs", "{file}");
        });
    }
}
