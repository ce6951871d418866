//! Tests of the shell analyzer.

use proptest::prelude::*;

use super::{Analysis, Use, Weight, Word};
use crate::backend::Shell;

fn analyse(command: &str) -> Analysis {
    super::analyse(command, Shell::Bash)
}

fn programs(command: &str) -> Vec<String> {
    analyse(command)
        .commands
        .iter()
        .map(|c| c.program().unwrap_or_else(|| "?".to_owned()))
        .collect()
}

#[test]
fn analyser_finds_commands_in_every_construct() {
    for (command, expected) in [
        ("a; b && c || d | e |& f & g", "a b c d e f g"),
        ("a $(b `c` <(d)) ${x:-$(e)} \"$(f)\"", "b c d e f a"),
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
        ("a <<E\n$(b)\nE\nc <<'E'\n$(d)\nE\ne", "a b c e"),
        ("a > >(b) 2> $(c) <<< $(d)", "b c d a"),
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
        let mut names = programs(command);
        names.sort();
        let mut expected = expected.split(' ').collect::<Vec<_>>();
        expected.sort();
        assert_eq!(names, expected, "{command}");
    }
}

#[test]
fn words_are_unquoted_and_expanded_as_by_bash() {
    for (command, expected) in [
        ("a 'b c' \"d e\" f\\ g", "a|b c|d e|f g"),
        ("a $'\\t\\'\\x41\\101\\u00e9' $\"x\"", "a|\t'AA\u{e9}|x"),
        ("a b#c # d", "a|b#c"),
        ("a \"\\$x \\a \\\"\" '' \"\"", "a|$x \\a \"||"),
        ("a {b,c}d e{1..3} {f} g{h", "a|bd|cd|e1|e2|e3|{f}|g{h"),
        ("a b\\\nc \\\n d", "a|bc|d"),
        ("a 1>f 2>&1 3 &>g {h}>i", "a|3"),
        ("a [ ]] } if ! =", "a|[|]]|}|if|!|="),
    ] {
        let analysis = analyse(command);
        let words = analysis.commands[0]
            .argv
            .iter()
            .map(|word| word.literal().unwrap());
        assert_eq!(words.collect::<Vec<_>>().join("|"), expected, "{command}");
        assert_eq!(analysis.weight(), None, "{command}: {:?}", analysis.opaque);
    }
}

#[test]
fn constructs_that_are_not_understood_have_a_weight() {
    for (command, weight) in [
        ("$x a", Weight::Hidden),
        ("`a` b", Weight::Hidden),
        ("eval a", Weight::Hidden),
        (". ./a", Weight::Hidden),
        ("trap a EXIT", Weight::Hidden),
        ("a | sh", Weight::Hidden),
        ("python3 -c a", Weight::Hidden),
        ("echo ${x@P}", Weight::Hidden),
        ("echo ${!x}", Weight::Hidden),
        ("test -v 'a[$(b)]'", Weight::Hidden),
        ("[[ 'a[$(b)]' -eq 1 ]]", Weight::Hidden),
        ("x='a[$(b)]'; echo $((x))", Weight::Hidden),
        ("PATH=. a", Weight::Hidden),
        ("a ;; b", Weight::Hidden),
        ("a 'b", Weight::Hidden),
        ("rg --pre a b", Weight::Hidden),
        ("sed -i s/a/b/ c", Weight::Edit),
        ("curl -OJ http://a", Weight::Effect),
        ("./a", Weight::Script),
        ("bash a.sh", Weight::Script),
        ("a\r", Weight::Refused),
        ("a \u{202e}b", Weight::Refused),
        ("a > /dev/tcp/b/1", Weight::Refused),
    ] {
        assert_eq!(analyse(command).weight(), Some(weight), "{command}");
    }
}

#[test]
fn redirections_are_listed_as_reads_and_writes() {
    let describe = |analysis: &Analysis| {
        let list = |words: &[&Word]| {
            words
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };

        let words = |path_use| list(&analysis.used(path_use).collect::<Vec<_>>());
        format!("{} -> {}", words(Use::Read), words(Use::Write))
    };

    for (command, expected) in [
        ("a < b > c 2>> d", "b -> c d"),
        ("a &> b; c &>> d; e >& f; g >| h", " -> b d f h"),
        ("a <> b", "b -> b"),
        ("a 2>&1 >&2 3<&0 4>&- 2>&1-", " -> "),
        ("{ a; } > b; (c) < d", "d -> b"),
        ("sort -o a b; curl --output c d", " -> a c"),
    ] {
        assert_eq!(describe(&analyse(command)), expected, "{command}");
    }
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
