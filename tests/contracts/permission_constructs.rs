//! Constructs of shells: the commands in them, and those that other shells read unlike bash.

use agentcore::backend::Shell;
use agentcore::permission::{Behavior, PermissionRules};

/// Returns rules that allow all commands except the program `denied`.
fn rules(denied: &str) -> PermissionRules {
    let rules = PermissionRules::new().allow("Bash").unwrap();
    rules.deny(&format!("Bash({denied}:*)")).unwrap()
}

fn decide(command: &str, shell: Shell) -> Behavior {
    rules("curl").shell(shell).explain_command(command).decision
}

#[test]
fn denied_command_in_any_construct_is_denied() {
    for (command, programs) in [
        ("a; b && c || d | e |& f & g", "a b c d e f g"),
        ("a $(b `c` <(d)) ${x:-$(e)} \"$(f)\"", "a b c d e f"),
        ("if a; then b; elif c; then d; else e; fi", "a b c d e"),
        ("while a; do b; done; until c; do d; done", "a b c d"),
        (
            "for x in $(a); do b; done; for ((i=0;i<2;i++)) { c; }",
            "a b c",
        ),
        ("case $(a) in x) b;; (y|z) c;& *) d; esac", "a b c d"),
        ("f() { a; }; function g ( b ); { c; }; (d)", "a b c d"),
        ("coproc a b; coproc N { c; }; time -p d; ! e", "a c d e"),
        ("[[ $(a) == b && -n `c` ]] && (( $(d) ))", "a c d"),
        (
            "[[ $(a) == *.@(x|$(b)|(`c`)) ]]; d !(x|\")\"); e",
            "a b c d e",
        ),
        ("a <<E\n$(b)\nE\nc <<'E'\n$(d)\nE\ne", "a b c e"),
        ("a > >(b) 2> $(c) <<< $(d)", "a b c d"),
        ("x=$(a) y=(b $(c)) z[$(d)]=1 e", "a c d e"),
        ("c\\\nd 'e'f $'\\x67'", "cd"),
        (
            "env -i A=1 nice -n 5 timeout -k 1 2 a",
            "env nice timeout a",
        ),
        ("find . -exec a {} + -exec b \\;", "find a b"),
        ("gfind . -exec a {} + -delete", "gfind a rm"),
        ("xargs -n1 -I{} a {}", "xargs a"),
        ("bash -ec 'a; b'", "bash a b"),
        ("bash <<< 'a | b'", "bash a b"),
        ("sudo -u x -- sh -c \"a && eval 'b c'\"", "sudo sh a eval b"),
        ("{a,b} {c,d}", "a"),
    ] {
        for program in programs.split(' ') {
            let explanation = rules(program).explain_command(command);
            assert_eq!(
                explanation.decision,
                Behavior::Deny,
                "{program} in {command}"
            );
        }
        let explanation = rules("other").explain_command(command);
        assert_ne!(explanation.decision, Behavior::Deny, "{command}");
    }
}

#[test]
fn commands_over_a_limit_are_questions() {
    let long = format!("echo {}", "a".repeat(70 * 1024));
    for command in [
        long,
        format!("{}a{}", "$(".repeat(500), ")".repeat(500)),
        format!("{}a{}", "( ".repeat(500), " )".repeat(500)),
        format!("{}a{}", "${x:-".repeat(500), "}".repeat(500)),
        "a; ".repeat(20_000),
        "$((".repeat(2_000),
        "{".repeat(10_000),
        format!("a {{{}}}", "{b,c},".repeat(50)),
        "{1..60}{1..60}{1..60}".to_owned(),
        format!("{} a", "env ".repeat(2_000)),
        format!("{} {}", "ssh ".repeat(200), "b".repeat(40_000)),
        "bash -c \"bash -c \\\"".repeat(500),
    ] {
        let start: String = command.chars().take(40).collect();
        assert_eq!(decide(&command, Shell::Bash), Behavior::Ask, "{start}");
        // A command that is not examined may write a protected file.
        let allowing = PermissionRules::new().allow("Bash").unwrap();
        let decision = allowing.explain_command(&command).decision;
        assert_eq!(decision, Behavior::Ask, "{start}");
    }
}

#[test]
fn command_with_an_invisible_character_is_a_question_without_any_rule_to_deny() {
    let rules = PermissionRules::new().allow("Bash").unwrap();
    for (command, decision) in [("a \u{202e}b", Behavior::Ask), ("a b", Behavior::Allow)] {
        assert_eq!(rules.explain_command(command).decision, decision);
    }
}

/// Offsets in words are in bytes, and a letter may take several.
#[test]
fn options_with_non_ascii_letters_are_read() {
    for program in [
        "sed", "awk", "tar", "env", "xargs", "sh", "git", "rm", "perl",
    ] {
        let command = format!("{program} -é -né x");
        let explanation = rules(program).explain_command(&command);
        assert_eq!(explanation.decision, Behavior::Deny, "{command}");
    }
    assert_eq!(decide("sed -ne p é", Shell::Bash), Behavior::Allow);
}

#[test]
fn what_only_bash_reads_so_is_a_question_in_other_shells() {
    for command in [
        "ls $'a'",
        "ls $\"a\"",
        "ls $[1]",
        "ls $10",
        "((x))",
        "[[ a ]]",
        "select i in a; do ls; done",
        "for ((;;)); do ls; done",
        "for i in a; { ls; }",
        "function f { ls; }",
        "a-b() { ls; }",
        "coproc ls",
        "time -o f ls",
        "time { ls; }",
        "time A=1 ls",
        "ls |& wc",
        "case a in a) ls;& esac",
        "case a in a) ls;;& esac",
        "ls &> f",
        "ls &>> f",
        "ls >& f",
        "ls 10> f",
        "ls {fd}> f",
        "cat <<< a",
        "ls <(ls)",
        "ls >(ls)",
        "ls ${x:-<(ls)}",
        "ls {a,b}",
        "ls {1..3}",
        "ls ~+",
        "ls [^a]",
        "a=(b)",
        "a[0]=b",
        "a+=b",
        "export a=$b",
        "declare a=b",
        "local a=b",
        "mapfile a",
        "read -a a",
        "pushd a",
        "ls ${a[0]}",
        "ls ${!a}",
        "ls ${a@Q}",
        "ls ${a:1:2}",
        "ls ${a/b/c}",
        "ls ${a^}",
        "ls ${a,,}",
        "ls \"${a:-'b'}\"",
        "ls \"${a:-\"b\"}\"",
        "ls a@(b|c)",
        "bash -c 'ls'; ls $'a'",
        "sh -c \"ls \\$'a'\"",
    ] {
        assert_eq!(decide(command, Shell::Posix), Behavior::Ask, "{command}");
    }
}

#[test]
fn what_all_shells_read_alike_is_allowed() {
    for command in [
        "ls -la 'a b' \"$x\" ${x:-b} ${x%.*} ${#x} $((1 + 2)) $1 ${10} ~ ~/a *.rs [!a] [a-c]",
        "ls 2>&1 >f 2>/dev/null <f 9>&-",
        "cat <<E\na $x\nE",
        "if ls; then ls; fi; for i in a b; do ls; done; while ls; do ls; done",
        "case a in (a|b) ls;; *) ls;; esac",
        "f() { ls; }; f",
        "( ls ) && { ls; } || ! ls | wc &",
        "time ls",
        "x=1; export LANG=C",
        "ls {a {} a,b '{a,b}'",
        "bash -c \"ls \\$'a'\"",
    ] {
        assert_eq!(decide(command, Shell::Posix), Behavior::Allow, "{command}");
    }
}

#[test]
fn shell_that_is_called_reads_its_script_in_its_own_way() {
    let decide = |command: &str| decide(command, Shell::Bash);
    for shell in ["sh", "dash", "ash"] {
        let [braces, document, ansi] = [
            format!("{shell} -c 'ls {{a,b}}'"),
            format!("{shell} <<'E'\nls $'a'\nE"),
            format!("{shell} -c 'ls a'; ls $'a'"),
        ];
        assert_eq!(decide(&braces), Behavior::Ask, "{shell}");
        assert_eq!(decide(&document), Behavior::Ask, "{shell}");
        assert_eq!(decide(&ansi), Behavior::Allow, "{shell}");
    }
    assert_eq!(decide("bash -c 'ls {a,b}'"), Behavior::Allow);
}
