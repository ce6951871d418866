//! Tests of the shell analyzer.

use proptest::prelude::*;

use super::{Analysis, Weight};
use crate::backend::Shell;

fn analyse(command: &str) -> Analysis {
    super::analyse(command, Shell::Bash)
}

#[test]
fn commands_over_a_limit_are_opaque() {
    let long = format!("echo {}", "a".repeat(70 * 1024));
    let cases = [
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
    ];
    for command in cases {
        let weight = analyse(&command).weight();
        let start: String = command.chars().take(40).collect();
        assert!(weight >= Some(Weight::Hidden), "{start}: {weight:?}");
    }
}

#[test]
fn thousand_harmless_commands_stay_below_the_limits() {
    let analysis = analyse(&"ls -la; ".repeat(1_000));
    assert_eq!(analysis.commands.len(), 1_000);
    assert_eq!(analysis.weight(), None);
    assert!(analysis.steps < 16_000, "{} steps", analysis.steps);
}

const TOKENS: &str = "a b 1 x= x ; ;; ;& & && | || |& ( ) (( )) { } [[ ]] [ ] \
    ' \" ` \\ $ $( $(( ${ $' $\" $[ < > << <<- <<< <( >( >& &> >| <> EOF \
    fi done esac # ~ * ? {a,b} {1..9} :- @P -eq é";
/// Tokens that a blank follows.
const WORDS: &str = "if then else elif for in do while case function select coproc time ! eval \
    bash -c env xargs find -exec sed awk git";
const BLANKS: [&str; 6] = [" ", " ", "\t", "\n", "\\\n", "\nEOF\n"];

fn any_token() -> impl Strategy<Value = String> {
    let words = WORDS.split(' ').map(|word| format!("{word} "));
    let tokens = TOKENS.split(' ').chain(BLANKS).map(str::to_owned);
    proptest::sample::select(tokens.chain(words).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_tokens_are_analysed_in_bounded_steps(
        tokens in proptest::collection::vec(any_token(), 0..60)
    ) {
        let command = tokens.concat();
        let analysis = analyse(&command);
        prop_assert!(analysis.steps <= 1024 * 1024 + 1);
        prop_assert!(analysis.commands.len() <= 8 * 1024);
        let again = analyse(&command);
        prop_assert_eq!(analysis.steps, again.steps);
    }

    #[test]
    fn any_text_is_analysed_in_bounded_steps(command in ".{0,200}") {
        prop_assert!(analyse(&command).steps <= 1024 * 1024 + 1);
    }
}

/// Cases of the property below, whose commands are long.
fn long_cases() -> u32 {
    let cases = std::env::var("AGENTCORE_PROPERTY_CASES").ok();
    cases.map_or(200, |text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(long_cases()))]

    #[test]
    fn repeated_tokens_are_analysed_in_bounded_steps(
        token in any_token(),
        other in any_token(),
        count in 100_usize..2_000,
    ) {
        let command = format!("{token}{other}").repeat(count);
        let analysis = analyse(&command);
        prop_assert!(analysis.steps <= 1024 * 1024 + 1, "{} steps", analysis.steps);
    }
}

/// Offsets in words are in bytes, and a letter may have several.
#[test]
fn options_with_non_ascii_letters_are_parsed() {
    for program in [
        "sed", "awk", "tar", "env", "xargs", "sh", "git", "rm", "perl",
    ] {
        let analysis = analyse(&format!("{program} -é -né x"));
        assert_eq!(analysis.commands[0].program().as_deref(), Some(program));
    }
    assert_eq!(analyse("sed -ne p é").weight(), None);
}

#[test]
fn what_only_bash_reads_so_is_opaque_for_other_shells() {
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
        "bash -c 'ls'; ls $'a'",
        "sh -c \"ls \\$'a'\"",
    ] {
        let weight = super::analyse(command, Shell::Posix).weight();
        assert!(weight >= Some(Weight::Hidden), "{command}");
    }
}

#[test]
fn what_all_shells_read_alike_is_clear() {
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
        let analysis = super::analyse(command, Shell::Posix);
        assert!(
            analysis.opaque.is_empty(),
            "{command}: {:?}",
            analysis.opaque
        );
    }
}

#[test]
fn shell_that_is_called_reads_its_script_in_its_own_way() {
    let opaque =
        |command: &str| super::analyse(command, Shell::Bash).weight() >= Some(Weight::Hidden);
    for shell in ["sh", "dash", "ash"] {
        assert!(opaque(&format!("{shell} -c 'ls {{a,b}}'")), "{shell}");
        assert!(opaque(&format!("{shell} <<'E'\nls $'a'\nE")), "{shell}");
        assert!(!opaque(&format!("{shell} -c 'ls a'; ls $'a'")), "{shell}");
    }
    assert!(!opaque("bash -c 'ls {a,b}'"));
}
