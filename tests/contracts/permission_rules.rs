//! The text of rules, and their decisions about calls of tools.

use std::sync::Arc;

use agentcore::permission::{Behavior, PermissionConfig, PermissionRules, Rule};
use agentcore::testing::ScriptedModel;
use agentcore::tool::{Access, Asking, Confirmer, SideEffect};
use agentcore::{
    AgentBuilder, Answer, ErrorKind, FuncTool, PermissionMode, PermissionRequest, Tool, ToolCall,
    async_trait,
};
use serde_json::{Value, json};

fn tool(name: &str) -> FuncTool {
    FuncTool::new(
        name,
        "A tool",
        json!({"type": "object"}),
        |_cx, _args| async { "done" },
    )
}

fn decide(permissions: &PermissionRules, tool: &dyn Tool, args: Value) -> Behavior {
    let call = ToolCall::new("c", tool.name(), args);
    permissions.explain(&call, tool).decision
}

fn base() -> PermissionRules {
    PermissionRules::new().home("/h/me").workspace("/srv/p")
}

#[test]
fn rule_that_cannot_match_is_an_error_that_names_the_fault() {
    for (text, says) in [
        ("", "names no tool"),
        ("Bash()", "empty specifier"),
        ("Bash( )", "empty specifier"),
        ("Bash(:*)", "empty specifier"),
        ("Bash(git:*", "not closed"),
        ("Bash(git:*) x", "nothing may follow"),
        ("Bash(a && b)", "a rule for each command"),
        ("Bash(git:* push)", "only at the end"),
        ("Bash(A=1 make)", "not the variables before it"),
        ("Bash(command:ls)", "write Bash(ls)"),
        ("Bash(cmd: ls)", "write Bash(ls)"),
        ("Bash(command: *)", "anyway; write Bash"),
        ("Skill(name: *)", "anyway; write Skill"),
        ("Bash(echo 'x)", "quote"),
        ("Task(subagent_type:helper)", "write Task(helper)"),
        ("Agent(subagent_type: helper)", "write Agent(helper)"),
        ("Agent(agent:*)", "anyway; write Agent"),
        ("spawn(name:helper)", "write spawn(helper)"),
        ("Task(model:opus)", "the name of an agent"),
        ("Skill(skill:deploy prod)", "write Skill(deploy prod)"),
        ("Read(file_path:/etc/**)", "write Read(/etc/**)"),
        ("{Write,Edit}(path:src/*)", "write {Write,Edit}(src/*)"),
        (
            "WebFetch(url:https://a.test/*)",
            "write WebFetch(https://a.test/*)",
        ),
        ("web_fetch(url:*)", "anyway; write web_fetch"),
        ("WebSearch(x)", "takes no specifier"),
        ("Deploy(x)", "Deploy(argument:value)"),
        ("WebFetch(domain:)", "empty specifier"),
        ("WebFetch(domain:a b)", "not a host name"),
        ("WebFetch(://a.test/*)", "not a scheme"),
        ("WebFetch(http*://a.test/*)", "not a scheme"),
        ("WebFetch(http://a.test:99999/*)", "not a port"),
        ("WebFetch(http://a.test:http/*)", "not a port"),
        ("WebFetch(http://a.test/a/../b)", "compared without"),
        ("WebFetch(http://a.test//b)", "compared without"),
        ("WebFetch(http://a.test/a b)", "white space"),
        ("Read(~other/x)", "absolute path"),
        ("Read(!x)", "cannot be negated"),
        ("Ba sh", "letters, digits"),
        ("maybe:Bash", "letters, digits"),
    ] {
        let error = text.parse::<Rule>().unwrap_err();
        assert!(error.to_string().contains(says), "{text}: {error}");
    }

    let error = Rule::new(Behavior::Deny, "allow:Bash").unwrap_err();
    assert!(error.to_string().contains("in the list `deny`"), "{error}");
}

#[test]
fn rule_over_the_limit_is_an_error_that_quotes_its_beginning() {
    let rule = |len: usize| format!("Bash({})", "x".repeat(len - "Bash()".len()));
    assert!(rule(64 * 1024).parse::<Rule>().is_ok());
    let error = rule(64 * 1024 + 1).parse::<Rule>().unwrap_err().to_string();
    assert!(error.contains("more than 65536 bytes"), "{error}");
    assert!(error.len() < 400, "{}", error.len());
}

#[test]
fn rules_parse_and_print_in_canonical_form() {
    for (text, printed) in [
        ("Bash(go test *)", "allow:Bash(go test *)"),
        (" Bash ( go test * ) ", "allow:Bash(go test *)"),
        ("deny:Bash(rm -rf*)", "deny:Bash(rm -rf*)"),
        ("ask : Read(/etc/**)", "ask:Read(/etc/**)"),
        (
            "WebFetch(domain:example.com)",
            "allow:WebFetch(domain:example.com)",
        ),
        ("mcp__server__*", "allow:mcp__server__*"),
        ("Deploy(target:prod*)", "allow:Deploy(target:prod*)"),
        ("handoff(agent:helper)", "allow:handoff(agent:helper)"),
        ("Task(tools:helper)", "allow:Task(tools:helper)"),
        ("Skill(tools:deploy *)", "allow:Skill(tools:deploy *)"),
        ("Bash(cmd:*)", "allow:Bash(cmd:*)"),
        ("Skill(name:*)", "allow:Skill(name:*)"),
        ("{Bash,Read}", "allow:{Bash,Read}"),
    ] {
        let rule: Rule = text.parse().unwrap();
        assert_eq!(rule.to_string(), printed);
        let json = serde_json::to_string(&rule).unwrap();
        assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule);
    }
}

#[test]
fn tool_names_in_rules_match_as_globs() {
    for (rule, name, matches) in [
        ("mcp__*", "mcp__ide__getDiagnostics", true),
        ("{Bash,Read}", "Write", false),
        ("{Bash,Read}", "Read", true),
        ("Bas?", "Bash", true),
        ("Bas?", "Basher", false),
        ("{unclosed", "{unclosed", true),
        ("file.go", "filexgo", false),
        ("mcp__ide", "mcp__ide__getDiagnostics", true),
        ("mcp__ide", "mcp__ides__x", false),
        ("Bash", "bash", false),
    ] {
        let permissions = base().deny(rule).unwrap();
        let denied = decide(&permissions, &tool(name), json!({})) == Behavior::Deny;
        assert_eq!(denied, matches, "{rule} {name}");
    }
}

#[test]
fn invalid_rule_rejects_the_whole_configuration() {
    let config = PermissionConfig::from_json(
        r#"{"allow":["Read"],"deny":["Bash(rm:*)"],"ask":["Bash(git push:*)"],"mode":"dontAsk"}"#,
    )
    .unwrap();
    let permissions = base().config(&config, "project settings").unwrap();
    let why = permissions.explain_command("rm x");
    assert_eq!(why.source.as_deref(), Some("project settings"));
    assert_eq!(
        why.to_string(),
        "deny: denied by rule deny:Bash(rm:*) (project settings)"
    );
    let why = permissions.explain_command("ls");
    assert!(
        why.why
            .contains("tool not explicitly allowed (dontAsk mode)"),
        "{why}"
    );

    let bad = PermissionConfig::from_json(r#"{"allow":["Read","Bash("]}"#).unwrap();
    assert!(
        base()
            .config(&bad, "x")
            .unwrap_err()
            .to_string()
            .contains("not closed")
    );
    assert!(PermissionConfig::from_json(r#"{"alow":[]}"#).is_err());
}

#[test]
fn rules_match_tools_by_their_accesses() {
    let execute = tool("execute");
    let read = tool("read_file").side_effect(SideEffect::ReadOnly);
    let edit = tool("edit_file");
    let permissions = base()
        .deny("Bash(curl:*)")
        .unwrap()
        .deny("Read(/etc/**)")
        .unwrap()
        .deny("Edit(secrets/**)")
        .unwrap()
        .allow("Bash(ls:*)")
        .unwrap()
        .allow("Write(src/**)")
        .unwrap();
    let is = |tool: &dyn Tool, args: Value, expected: Behavior| {
        assert_eq!(
            decide(&permissions, tool, args.clone()),
            expected,
            "{} {args}",
            tool.name()
        );
    };

    is(&execute, json!({"command": "curl x"}), Behavior::Deny);
    is(&execute, json!({"cmd": "ls; curl x"}), Behavior::Deny);
    is(&execute, json!({"command": "ls"}), Behavior::Allow);
    is(&read, json!({"path": "/etc/passwd"}), Behavior::Deny);
    is(
        &read,
        json!({"file_path": "/srv/p/../../etc/passwd"}),
        Behavior::Deny,
    );
    is(&read, json!({"path": "x"}), Behavior::Allow);
    is(&edit, json!({"file_path": "src/a.rs"}), Behavior::Allow);
    is(
        &edit,
        json!({"file_path": "/srv/p/src/a.rs"}),
        Behavior::Allow,
    );
    is(&edit, json!({"filePath": "src/../x"}), Behavior::Ask);
    is(&edit, json!({"path": "secrets/key"}), Behavior::Deny);
}

#[test]
fn declared_accesses_are_matched_before_argument_names() {
    let fetch = tool("grab").accesses(|args| {
        vec![Access::Url(
            args["target"].as_str().unwrap_or_default().into(),
        )]
    });

    let permissions = base().allow("WebFetch(domain:example.com)").unwrap();
    for (url, expected) in [
        ("https://example.com/x", Behavior::Allow),
        ("https://API.Example.COM./x", Behavior::Allow),
        ("https://example.com:8443/", Behavior::Allow),
        ("https://notexample.com/", Behavior::Ask),
        ("https://example.com.evil.test/", Behavior::Ask),
        ("https://example.com@evil.test/", Behavior::Ask),
        ("https://evil.test\\@example.com/", Behavior::Ask),
        ("https://evil.test/?example.com", Behavior::Ask),
        ("https://evil.test#.example.com", Behavior::Ask),
        ("https://example%2ecom/", Behavior::Ask),
    ] {
        assert_eq!(
            decide(&permissions, &fetch, json!({"target": url})),
            expected,
            "{url}"
        );
    }

    let denied = base()
        .deny("WebFetch(domain:evil.test)")
        .unwrap()
        .allow("grab")
        .unwrap();
    for url in [
        "https://EVIL.test./",
        "http://a.evil.test:80",
        "https://user@x",
        "https://x y",
    ] {
        assert_eq!(
            decide(&denied, &fetch, json!({"target": url})),
            Behavior::Deny,
            "{url}"
        );
    }
}

#[test]
fn argument_names_match_deny_rules_but_not_allow_rules() {
    let send = tool("mcp__mail__send");
    let permissions = base()
        .mode(PermissionMode::AcceptEdits)
        .allow("Write(src/**)")
        .unwrap()
        .allow("Bash(ls:*)")
        .unwrap()
        .allow("WebFetch(domain:example.com)")
        .unwrap()
        .deny("Write(secrets/**)")
        .unwrap()
        .deny("Bash(rm:*)")
        .unwrap();
    for (args, expected) in [
        (json!({"path": "src/x"}), Behavior::Ask),
        (json!({"path": "notes"}), Behavior::Ask),
        (json!({"command": "ls"}), Behavior::Ask),
        (json!({"url": "https://example.com/"}), Behavior::Ask),
        (json!({"path": "secrets/x"}), Behavior::Deny),
        (json!({"command": "rm x"}), Behavior::Deny),
    ] {
        assert_eq!(
            decide(&permissions, &send, args.clone()),
            expected,
            "{args}"
        );
    }

    let named = permissions.allow("mcp__mail").unwrap();
    let decided = decide(&named, &send, json!({"path": "src/x"}));
    assert_eq!(decided, Behavior::Allow);
    assert_eq!(
        decide(&named, &send, json!({"path": "secrets/x"})),
        Behavior::Deny
    );
    let write = tool("write_file");
    assert_eq!(
        decide(&named, &write, json!({"path": "src/x"})),
        Behavior::Allow
    );
}

#[test]
fn call_without_the_specified_argument_matches_deny_but_not_allow() {
    let bash = tool("Bash");
    let deny = base().deny("Bash(rm:*)").unwrap().allow("Bash").unwrap();
    assert_eq!(
        decide(&deny, &bash, json!({"script": "rm x"})),
        Behavior::Deny
    );
    let allow = base().allow("Bash(ls:*)").unwrap();
    assert_eq!(
        decide(&allow, &bash, json!({"script": "ls"})),
        Behavior::Ask
    );
}

#[test]
fn rules_match_subagent_names_and_argument_values() {
    let task = tool("Task");
    let deploy = tool("Deploy");
    let permissions = base()
        .allow("Task(reviewer)")
        .unwrap()
        .deny("Deploy(target:prod*)")
        .unwrap()
        .allow("Deploy(target:test)")
        .unwrap();
    let is = |tool: &dyn Tool, args: Value| decide(&permissions, tool, args);
    assert_eq!(
        is(&task, json!({"subagent_type": "reviewer"})),
        Behavior::Allow
    );
    assert_eq!(is(&task, json!({"subagent_type": "writer"})), Behavior::Ask);
    assert_eq!(is(&deploy, json!({"target": "production"})), Behavior::Deny);
    assert_eq!(is(&deploy, json!({"target": "test"})), Behavior::Allow);
    assert_eq!(is(&deploy, json!({})), Behavior::Deny);
}

#[test]
fn call_without_the_value_of_a_deny_rule_is_denied_in_every_mode() {
    for mode in [PermissionMode::Default, PermissionMode::BypassPermissions] {
        for (rule, name) in [
            ("Read(/etc/**)", "Read"),
            ("Read(/etc/**)", "read_file"),
            ("Write(/etc/**)", "Edit"),
            ("WebFetch(domain:example.com)", "WebFetch"),
            ("Task(reviewer)", "Task"),
            ("Deploy(target:prod*)", "Deploy"),
        ] {
            let permissions = base().mode(mode).allow(name).unwrap().deny(rule).unwrap();
            let decision = decide(&permissions, &tool(name), json!({}));
            assert_eq!(decision, Behavior::Deny, "{rule} {mode:?}");
        }
    }

    let ask = base()
        .allow("Deploy")
        .unwrap()
        .ask("Deploy(target:prod*)")
        .unwrap();
    assert_eq!(decide(&ask, &tool("Deploy"), json!({})), Behavior::Ask);
}

#[test]
fn possible_match_of_a_deny_rule_is_denied_without_questions() {
    let bypass = base().mode(PermissionMode::BypassPermissions);
    let denies = bypass.clone().deny("Bash(curl:*)").unwrap();
    let asks = bypass.ask("Bash(curl:*)").unwrap();
    for command in ["c*l x", "bash x.sh", "eval \"$x\""] {
        let denied = denies.explain_command(command);
        assert_eq!(denied.decision, Behavior::Deny, "{command}: {denied}");
        let asked = asks.explain_command(command);
        assert_eq!(asked.decision, Behavior::Ask, "{command}: {asked}");
    }
}

#[test]
fn mode_decides_when_no_rule_matches() {
    use PermissionMode::*;
    let bash = tool("Bash");
    let read = tool("Read").side_effect(SideEffect::ReadOnly);
    let edit = tool("Edit");
    let create = tool("CreateFile");
    let credit = tool("mcp__bank__credit_account");
    let order = tool("create_order");
    let inside = json!({"file_path": "src/x"});
    let outside = json!({"file_path": "/etc/x"});
    for (mode, tool, args, expected) in [
        (Default, &bash, json!({"command": "ls"}), Behavior::Ask),
        (Default, &read, inside.clone(), Behavior::Allow),
        (Plan, &read, inside.clone(), Behavior::Allow),
        (Plan, &bash, json!({"command": "ls"}), Behavior::Deny),
        (Plan, &edit, inside.clone(), Behavior::Deny),
        (AcceptEdits, &edit, inside.clone(), Behavior::Allow),
        (AcceptEdits, &create, json!({}), Behavior::Allow),
        // Tools that write something other than a file.
        (AcceptEdits, &credit, json!({}), Behavior::Ask),
        (AcceptEdits, &order, json!({}), Behavior::Ask),
        (AcceptEdits, &edit, outside.clone(), Behavior::Ask),
        (
            AcceptEdits,
            &edit,
            json!({"file_path": "../x"}),
            Behavior::Ask,
        ),
        (
            AcceptEdits,
            &edit,
            json!({"file_path": ".git/hooks/pre-commit"}),
            Behavior::Ask,
        ),
        (AcceptEdits, &bash, json!({"command": "ls"}), Behavior::Ask),
        (DontAsk, &edit, inside.clone(), Behavior::Deny),
        (BypassPermissions, &edit, outside, Behavior::Allow),
    ] {
        let decision = decide(&base().mode(mode), tool, args.clone());
        assert_eq!(decision, expected, "{mode} {} {args}", tool.name());
    }

    let plan = base().mode(Plan).explain_command("ls");
    assert_eq!(plan.why, "only read-only tools are allowed in plan mode");
}

#[test]
fn path_that_cannot_be_protected_is_an_error_of_the_agent() {
    for path in ["~ann/x", "!x", "a\nb"] {
        let permissions = PermissionRules::new().protect(path).protect("y");
        let builder = AgentBuilder::new(ScriptedModel::new()).permissions(permissions);
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.text().contains("cannot be protected"), "{error}");
    }
}

#[test]
fn writes_to_protected_paths_ask_in_every_mode_and_reads_do_not() {
    let write = tool("Write");
    let read = tool("Read").side_effect(SideEffect::ReadOnly);
    let permissions = base()
        .allow("Write")
        .unwrap()
        .protect("/srv/p/settings.toml")
        .mode(PermissionMode::BypassPermissions);
    for path in [
        ".git/hooks/pre-commit",
        ".GIT/Hooks/x",
        ".git/config",
        "sub/.git/config",
        "a/../.git/config",
        "/srv/p/.git//hooks/x",
        ".agentcore/rules.json",
        ".mcp.json",
        "settings.toml",
    ] {
        assert_eq!(
            decide(&permissions, &write, json!({"path": path})),
            Behavior::Ask,
            "{path}"
        );
        assert_eq!(
            decide(&permissions, &read, json!({"path": path})),
            Behavior::Allow,
            "{path}"
        );
    }

    for path in [".gitignore", ".github/x", "git/hooks", "mcp.json"] {
        assert_eq!(
            decide(&permissions, &write, json!({"path": path})),
            Behavior::Allow,
            "{path}"
        );
    }
}

#[test]
fn rule_about_a_folder_by_dots_covers_that_folder_alone() {
    let write = tool("Write");
    for (rule, inside, outside) in [
        ("Edit(./)", "src/x", ["/etc/shadow", "../y", "/opt/z"]),
        ("Edit(../)", "../y", ["/etc/shadow", "/opt/z", "../../x"]),
    ] {
        let permissions = base().allow(rule).unwrap();
        let decision = |path: &str| {
            let call = ToolCall::new("c", "Write", json!({"file_path": path, "content": "x"}));
            permissions.explain(&call, &write).decision
        };
        assert_eq!(decision(inside), Behavior::Allow, "{rule}: {inside}");
        for path in outside {
            assert_eq!(decision(path), Behavior::Ask, "{rule}: {path}");
        }
    }
    let permissions = base().allow("Edit(.)").unwrap();
    let call = ToolCall::new(
        "c",
        "Write",
        json!({"file_path": "/etc/shadow", "content": "x"}),
    );
    assert_eq!(permissions.explain(&call, &write).decision, Behavior::Ask);
}

#[test]
fn path_that_is_too_long_to_compare_is_a_question() {
    let write = tool("Write");
    for (len, expected) in [(4_096, Behavior::Allow), (4_097, Behavior::Ask)] {
        let call = ToolCall::new(
            "c",
            "Write",
            json!({"file_path": "x".repeat(len), "content": ""}),
        );
        let permissions = base().allow("Edit").unwrap().deny("Read(.env)").unwrap();
        assert_eq!(
            permissions.explain(&call, &write).decision,
            expected,
            "{len}"
        );
        let permissions = permissions.deny("Write").unwrap();
        let denied = permissions.explain(&call, &write);
        assert_eq!(denied.decision, Behavior::Deny, "{len}: {denied}");
    }
}

#[test]
fn suggested_rules_allow_only_the_same_call() {
    let bash = tool("Bash");
    let suggest = |command: &str| {
        let call = ToolCall::new("c", "Bash", json!({"command": command}));
        let rules = base().suggest(&call, &bash);
        rules.iter().map(ToString::to_string).collect::<Vec<_>>()
    };

    assert_eq!(suggest("git push origin"), ["allow:Bash(git push origin)"]);
    assert_eq!(
        suggest("ls 'a b' && pwd"),
        ["allow:Bash(ls 'a b')", "allow:Bash(pwd)"]
    );
    assert_eq!(
        suggest("sudo id"),
        ["allow:Bash(sudo id)", "allow:Bash(id)"]
    );
    for opaque in [
        "bash x.sh",
        "python -c x",
        "eval ls",
        "$x",
        "ls *",
        "env A=1 ls",
        "ls '*)'",
    ] {
        assert_eq!(suggest(opaque), Vec::<String>::new(), "{opaque}");
    }

    // No rule is suggested for a folder, since it would allow all files in it.
    let write = tool("Write");
    for (path, expected) in [
        ("a", vec!["allow:Edit(./a)"]),
        ("", vec![]),
        (" ", vec![]),
        (".", vec![]),
        ("a/..", vec![]),
        ("/", vec![]),
        ("src/", vec![]),
    ] {
        let call = ToolCall::new("c", "Write", json!({"file_path": path, "content": "x"}));
        let rules = base().suggest(&call, &write);
        let rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
        assert_eq!(rules, expected, "{path:?}");
    }

    // A suggested rule allows the call, but not those that its `*` would match.
    let call = ToolCall::new("c", "Bash", json!({"command": "echo 'a * b'"}));
    let mut permissions = base();
    for rule in base().suggest(&call, &bash) {
        permissions = permissions.rule(rule);
    }

    assert_eq!(
        permissions.explain_command("echo 'a * b'").decision,
        Behavior::Allow
    );
    assert_eq!(
        permissions.explain_command("echo 'a x b'").decision,
        Behavior::Ask
    );
}

struct Always(Answer);

#[async_trait]
impl Confirmer for Always {
    async fn confirm(&self, request: &PermissionRequest, _asking: &Asking) -> Answer {
        assert!(
            request.question.contains("wants to run"),
            "{}",
            request.question
        );
        self.0.clone()
    }
}

async fn results(
    permissions: PermissionRules,
    answer: Option<Answer>,
    commands: &[&str],
) -> Vec<String> {
    let mut model = ScriptedModel::new();
    for command in commands {
        model = model.call("Bash", json!({"command": command}));
    }

    let mut builder = AgentBuilder::new(model.say("done"))
        .tool(tool("Bash"))
        .permissions(permissions);
    if let Some(answer) = answer {
        builder = builder.confirmer(Always(answer));
    }

    let agent = builder.build().unwrap();
    let output = agent.run("go").await.unwrap();
    let tools = output
        .state
        .messages
        .iter()
        .filter_map(|message| message.as_tool_result());
    tools
        .map(|result| result.content.text().into_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn denied_call_returns_the_reason_to_the_model() {
    let permissions = base()
        .deny("Bash(rm -rf*)")
        .unwrap()
        .allow("Bash(ls:*)")
        .unwrap();
    let texts = results(permissions, None, &["rm -fr x", "ls", "id"]).await;
    assert!(
        texts[0].contains("denied by rule deny:Bash(rm -rf*)"),
        "{texts:?}"
    );
    assert_eq!(texts[1], "done");
    assert!(
        texts[2].contains("the question cannot be answered"),
        "{texts:?}"
    );
    let refused = Some(Answer::Deny("use make instead".to_owned()));
    let texts = results(base(), refused, &["cc x.c"]).await;
    assert!(texts[0].contains("use make instead"), "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn session_grant_covers_only_the_same_command() {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    struct Once(Arc<std::sync::Mutex<Vec<String>>>);
    #[async_trait]
    impl Confirmer for Once {
        async fn confirm(&self, request: &PermissionRequest, _asking: &Asking) -> Answer {
            let command = request.input["command"].as_str().unwrap_or_default();
            self.0.lock().unwrap().push(command.to_owned());
            Answer::AllowForSession
        }
    }
    let model = ScriptedModel::new()
        .call("Bash", json!({"command": "make"}))
        .call("Bash", json!({"command": "make"}))
        .call("Bash", json!({"command": "make install"}))
        .say("done");
    let agent = AgentBuilder::new(model)
        .tool(tool("Bash"))
        .permissions(base())
        .confirmer(Once(asked.clone()))
        .build()
        .unwrap();
    agent.run("go").await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["make", "make install"]);
}

#[test]
fn command_with_too_many_parts_for_the_number_of_rules_is_a_question() {
    let command = "a; ".repeat(5_000);
    let rules = |count: usize, mode| {
        let rules = PermissionRules::new().mode(mode).allow("Bash").unwrap();
        (0..count).fold(rules, |rules, number| {
            rules
                .deny(&format!("Bash(tool{number} * --force)"))
                .unwrap()
        })
    };
    let long = format!("a {}", "x ".repeat(10_000));
    let wild = format!("a {}", "?".repeat(60_000));
    let decision = |count, mode| rules(count, mode).explain_command(&command);
    let few = decision(10, PermissionMode::Default);
    assert_eq!(few.decision, Behavior::Allow, "{few}");
    for (mode, behavior) in [
        (PermissionMode::Default, Behavior::Ask),
        (PermissionMode::AcceptEdits, Behavior::Ask),
        (PermissionMode::DontAsk, Behavior::Deny),
        (PermissionMode::BypassPermissions, Behavior::Deny),
    ] {
        let explanation = decision(1_000, mode);
        assert_eq!(explanation.decision, behavior, "{explanation}");
        assert!(
            explanation.why.contains("has 5000 commands, too many"),
            "{explanation}"
        );
        let explanation = rules(200, mode).explain_command(&long);
        assert_eq!(explanation.decision, behavior, "{explanation}");
        assert!(
            explanation.why.contains("has 10001 words, too many"),
            "{explanation}"
        );
        let explanation = rules(200, mode).explain_command(&wild);
        assert_eq!(explanation.decision, behavior, "{explanation}");
        assert!(
            explanation.why.contains("has 60002 bytes, too many"),
            "{explanation}"
        );
    }
}
