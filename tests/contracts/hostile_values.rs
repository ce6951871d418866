//! Arguments, names and rules that would take very long without limits.

use agentcore::permission::{Behavior, PermissionConfig, PermissionRules, Rule};
use agentcore::tool::check_arguments;
use agentcore::{FuncTool, ToolCall};
use serde_json::{Value, json};

use crate::kit::effort::ends_within;

/// More processor time than most of these checks need, less than they would take without limits.
const MAX_CPU_SECONDS: i64 = 60;

fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    ends_within(MAX_CPU_SECONDS, work)
}

#[test]
fn unique_items_with_equal_float_values_are_compared_quickly() {
    let items: Vec<Value> = (0..40_000_u64)
        .map(|n| json!([u64::MAX - n % 200, u64::MAX - n / 200]))
        .collect();
    let args = json!({ "items": items });
    let checked = ends(move || {
        let schema = json!({"properties": {"items": {"uniqueItems": true}}});
        check_arguments(&schema, &args).is_ok()
    });
    assert!(checked);
}

#[test]
fn unique_items_compare_numbers_by_value() {
    let schema = json!({"uniqueItems": true});
    for (items, is_unique) in [
        (json!([1, 1.0]), false),
        (json!([0, -0.0]), false),
        (json!([u64::MAX, u64::MAX as f64]), true),
        (
            json!([9_007_199_254_740_993_u64, 9_007_199_254_740_992.0]),
            true,
        ),
        (
            json!([9_007_199_254_740_992_u64, 9_007_199_254_740_992.0]),
            false,
        ),
        (json!([i64::MIN, i64::MIN as f64]), false),
        (json!([1e300, 1e300]), false),
        (json!([0.1, 0.2]), true),
    ] {
        assert_eq!(
            check_arguments(&schema, &items).is_ok(),
            is_unique,
            "{items}"
        );
    }
}

#[test]
fn large_arguments_against_many_alternatives_are_rejected_quickly() {
    let zeros: Vec<Value> = vec![json!(0); 1_000_000];
    let args = json!({ "zeros": zeros });
    let error = ends(move || {
        let alternatives: Vec<Value> = (1..=100).map(|n| json!({ "const": n })).collect();
        let schema = json!({"properties": {"zeros": {"items": {"anyOf": alternatives}}}});
        check_arguments(&schema, &args).unwrap_err().to_string()
    });
    assert!(error.contains("too large to check"), "{error:.300}");
}

#[test]
fn mismatch_of_a_large_value_quotes_its_start() {
    let args = json!({"a": "x".repeat(16_000_000)});
    let error = ends(move || {
        let constants: Vec<Value> = (0..500).map(|n| json!({ "const": n })).collect();
        let schema = json!({"anyOf": constants});
        check_arguments(&schema, &args).unwrap_err().to_string()
    });
    assert!(error.contains(r#"got {"a":"xxxx"#), "{error:.300}");
    assert!(error.len() < 2_000);
}

#[test]
fn rules_in_yaml_over_a_limit_are_rejected() {
    let long = format!("allow: [{}]", "Read(x), ".repeat(100_000));
    let error = ends(move || PermissionConfig::from_yaml(&long).unwrap_err());
    assert!(error.to_string().contains("262144 bytes"), "{error:.300}");
    let many = format!("allow: [{}]", "Read(x),".repeat(20_000));
    assert!(ends(move || PermissionConfig::from_yaml(&many).is_err()));
}

#[test]
fn error_about_a_long_value_in_rules_quotes_parts_of_it() {
    let name = "x".repeat(200_000);
    let errors = [
        PermissionConfig::from_yaml(&format!("mode: {name}")).unwrap_err(),
        PermissionConfig::from_json(&format!("{{\"{name}\": []}}")).unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("line 1") && text.len() < 1_000, "{text:.300}");
    }
}

#[test]
fn rule_with_very_many_names_is_rejected() {
    let rule = format!("{{a{}}}", ",a".repeat(100_000));
    assert!(ends(move || Rule::new(Behavior::Allow, &rule).is_err()));
}

#[test]
fn host_longer_than_a_dns_name_is_never_allowed() {
    let rule: Rule = "allow:WebFetch(domain:example)".parse().unwrap();
    let permissions = PermissionRules::new().rule(rule);

    // Distinct letters, which the encoding sorts one by one.
    let letters: String = ('\u{4e00}'..='\u{9fff}').cycle().take(300_000).collect();
    let long = "a".repeat(64);
    for (host, decision) in [
        (letters, Behavior::Ask),
        (long, Behavior::Ask),
        ("a.".repeat(130), Behavior::Ask),
        ("a".repeat(63), Behavior::Allow),
        ("\u{4e00}\u{4e01}".to_owned(), Behavior::Allow),
    ] {
        let url = format!("https://{host}.example/");
        let permissions = permissions.clone();
        let decided = ends(move || {
            let any = json!({"type": "object"});
            let tool = FuncTool::new("WebFetch", "", any, |_, _| async { "" });
            let call = ToolCall::new("c", "WebFetch", json!({ "url": url }));
            permissions.explain(&call, &tool).decision
        });
        assert_eq!(decided, decision, "{host:.80}");
    }
}

#[test]
fn rules_to_allow_are_compared_with_a_command_once_and_not_for_each_rule_to_deny() {
    let command = "unknown a; ".repeat(32);
    let decided = ends(move || {
        let rules = (0..1_000).fold(PermissionRules::new(), |rules, number| {
            let rules = rules.allow(&format!("Bash(allowed{number} x:*)")).unwrap();
            rules.deny(&format!("Bash(denied{number} x:*)")).unwrap()
        });
        rules.explain_command(&command).decision
    });
    assert_eq!(decided, Behavior::Ask);
}

#[test]
fn word_whose_braces_multiply_long_text_is_opaque_and_analysed_quickly() {
    let groups = "{a,b}".repeat(6);
    let command = format!("echo {}{groups}{}", "{".repeat(120), "*?".repeat(31_000));
    let decided = ends(move || {
        let rule: Rule = "allow:Bash(echo:*)".parse().unwrap();
        let any = json!({"type": "object"});
        let tool = FuncTool::new("Bash", "", any, |_, _| async { "" });
        let call = ToolCall::new("c", "Bash", json!({ "command": command }));
        PermissionRules::new()
            .rule(rule)
            .explain(&call, &tool)
            .decision
    });

    assert_eq!(decided, Behavior::Ask);
}

#[test]
fn shell_words_with_many_commas_are_analysed_quickly() {
    let command = format!("\\={} [a-z]while", ",=".repeat(32_000));
    ends_within(8, move || {
        drop(PermissionRules::new().explain_command(&command));
    });
}

#[test]
fn words_with_many_marks_of_files_are_asked_quickly() {
    for piece in ["a,", "a=", "a:/x", "-o=", "~="] {
        let word = piece.repeat(60_000 / piece.len());
        let decided = ends_within(10, move || {
            let rules = PermissionRules::new().allow("Bash").unwrap();
            let rules = rules.deny("Read(.env)").unwrap();
            rules.explain_command(&format!("make {word}")).decision
        });
        assert_eq!(decided, Behavior::Ask, "{piece}");
    }
}

#[test]
fn commands_of_many_pipes_are_decided_quickly() {
    let command = "a b c d|".repeat(8_000) + "e";
    ends_within(15, move || {
        let rules = (1..=5).fold(
            PermissionRules::new().allow("Bash").unwrap(),
            |rules, number| rules.deny(&format!("Bash(x{number}:*)")).unwrap(),
        );
        drop(rules.explain_command(&command));
    });
}

#[test]
fn arguments_of_too_many_values_stay_text() {
    let text = |values: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(values - 3));
    let call = agentcore::ToolCall::from_raw("c", "act", text(200_000));
    assert!(call.args.is_object());
    let call = agentcore::ToolCall::from_raw("c", "act", text(200_001));
    assert!(call.args.is_null());
    assert_eq!(call.raw_args.as_deref(), Some(&*text(200_001)));
}

#[test]
fn reason_has_only_the_start_of_a_long_name_of_a_tool() {
    let any = json!({"type": "object"});
    let tool = FuncTool::new("any", "", any, |_, _| async { "" });
    let call = ToolCall::new("c", "n".repeat(1_000_000), json!({}));
    let explanation = PermissionRules::new().explain(&call, &tool);
    assert_eq!(explanation.decision, Behavior::Ask);
    assert!(explanation.why.len() < 200, "{}", explanation.why.len());
}
