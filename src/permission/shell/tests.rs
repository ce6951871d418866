//! Tests of the shell analyzer.

use proptest::prelude::*;

use super::Analysis;
use super::plain_grammar::unusual;
use crate::backend::Shell;

fn analyse(command: &str) -> Analysis {
    super::analyse(command, Shell::Bash)
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

#[test]
fn texts_that_commands_print_take_bounded_memory() {
    let mut command = format!("x0={};", "a".repeat(100));
    for step in 1..=5 {
        let words = format!("$x{} ", step - 1).repeat(40);
        command.push_str(&format!("x{step}=$(echo {words});"));
    }
    let analysis = analyse(&command);
    assert!(analysis.unread.is_some(), "the limit is reached");
}

#[test]
fn texts_of_many_printers_for_many_readers_are_not_all_examined() {
    let command = format!(
        "{{ {}}} | {{ {}}}",
        "cat; ".repeat(2_000),
        "sh; ".repeat(2_000)
    );
    assert!(analyse(&command).unread.is_some(), "the limit is reached");
}

#[test]
fn variable_that_is_exported_often_is_examined_in_bounded_work() {
    let command = format!("x={}.b;{}", "a".repeat(18_000), "export x;".repeat(2_000));
    assert!(analyse(&command).unread.is_some(), "the limit is reached");
}

#[test]
fn work_of_commands_that_only_may_run_counts() {
    let command = format!(
        "z='{}';x=bash;y=bash;{}$y -c 'git config a.b c'",
        "#".repeat(20_000),
        "$x -c \"$z\";".repeat(20)
    );
    assert!(analyse(&command).unread.is_some(), "the limit is reached");
}

const PLAIN: [&str; 62] = [
    "cargo test --all-features 2>&1 | tail -20",
    "cd sub && make -j4 || echo failed; ls &",
    "git commit -m \"$(cat <<'EOF'\nfix: it's (a) bug\n\nThis EOF is no end.\nEOF\n)\"",
    "for f in $(git ls-files '*.rs') a{b,c} {1..5}; do wc -l \"$f\"; done",
    "for ((i=0; i<10; i++)); do echo $i; done",
    "while IFS= read -r line; do echo \"$line\"; done < <(sort f)",
    "if ! grep -q x f; then echo no; elif [ -f y ]; then ls; fi # it's",
    "case \"$1\" in start|-s) ls;; (*) echo x >&2; exit 1;; esac",
    "cat > f <<EOF\n$x \\$y `date` \"quote\nEOF\nls",
    "cat <<-'E' | sh\n\tls\n\tE\n",
    "find . -name '*.o' -exec rm -f {} \\; -o \\( -type d \\)",
    "awk '{print $1}' f | sort -k2,2 | head -n \"$(nproc)\"",
    "PATH=$HOME/bin:$PATH FOO=~/x make CFLAGS=\"-O2 -g\"",
    "[[ -z $x || \"$y\" == *foo* ]] && [[ $f =~ ^(a|b)[0-9]+\\.rs$ ]]",
    "a=(x \"y z\" $(ls)); a+=(1); echo \"${a[@]}\" ${#a[@]} ${a[$i]}",
    "echo ${x%.*} ${x##*/} ${x//a/b} \"${x:-a b}\" ${x:1:2} ${x^^}",
    "echo $((a + 2 * (b - 1))) $(( $(date +%s) - start ))",
    "git show HEAD~1:src/main.rs; git log @{u}..HEAD stash@{0} HEAD^",
    "cp file{,.bak}; rm -rf dist/*.{js,map} src/**/[a-c]*.txt",
    "foo() { echo \"$1\"; }; function bar { foo; }; bar",
    "{ echo a; echo b; } > f; (cd x && ls)",
    "diff <(sort a) <(sort b); cat <<< \"$x\"",
    "git commit -m 'it'\\''s'; sed -i '' 's/a/b/' f; x=''",
    "exec 3>&1; ls 2>&1 >&3 9>lock; exec 3>&-",
    "curl -d '{\"a\":1}' \"http://localhost:80/x?y=1&z=2\"",
    "cargo test \\\n  --all-features",
    "\\ls -la; echo a\\ b",
    "time make; ! ls; until true; do sleep 1; done",
    "IFS=$'\\n\\t'; trap 'rm -f x' EXIT; kill %1 $! $$",
    "ls \u{e9}t\u{e9} \"\u{2713} done\"",
    "pip install -e .[dev,test]; ps aux | grep [n]ode",
    "sleep 5 & wait; echo ${PIPESTATUS[0]} $? $#",
    // Each of these is the everyday form of an unusual text below.
    "echo a{b,c}d",
    "echo {a..e}",
    "echo {x} {a a,b ${10}",
    "echo \"\"",
    "[[ a < b ]]",
    "((i++))",
    "echo $((1 + 2))",
    "cat 0< f",
    "cat <<E\nE\n",
    "x=1 ls",
    "2>f ls",
    "echo ~/x ~",
    "echo ${x}{a,b}",
    "echo $'a\\'b' 'c'\\'''",
    "echo !x",
    "echo a@b",
    "echo a[b]",
    "declare -a x=(1)",
    "echo ${x}",
    "echo a+=b",
    "(ls # x\n)",
    "! (ls)",
    "ls;",
    "a() { ls; }",
    "for x in y; do ls; done",
    "echo #x",
    "cat < f",
    "ls | cat",
    "echo a#b",
    "echo $x",
];

const UNUSUAL: [&str; 63] = [
    "echo {a/../.e{n,x}v}",
    "echo {Y..b..3}.env {a..C}",
    "echo {x},.env}",
    "echo {$,}x",
    "echo {,x}~/.ssh",
    "echo {fd}>f",
    "ls {a}>f",
    "echo $x{a,}",
    "echo .e''nv",
    "echo \"\"x",
    "echo r\\m",
    "cu\\\nrl x",
    "echo \"$\\\nx\"",
    "echo ~root/x",
    "echo ~+/x",
    "echo ~\"/\"x",
    "echo $'\\x41'",
    "echo $\"a\"",
    "echo $[1]",
    "echo ${!x}",
    "echo ${x@P}",
    "echo \"${x#'\"'}\"",
    "echo ${x:(}",
    "echo ${a[ }",
    "echo ${a[1+1]}",
    "echo $BASH_COMMAND",
    "for REPLY in a; do ls; done",
    "for x; do ls; done",
    "select x in a; do ls; done",
    "coproc ls",
    "a[ # ]; ls",
    "a[0]=1",
    "a=( [ # ] )",
    "a=(x)y",
    "declare a[ x || ls || x ]=1",
    "(( \")\" ))",
    "(( : ] # ))",
    "((ls) )",
    "echo $((ls) # )",
    "echo $((1<<2))",
    "echo $(ls # x\n)",
    "ls >&-x",
    "echo \"$(cat <<E\nEx)\nE\n)\"",
    "cat <<E & (\nE\n)",
    "cat <<A <<B\nA\nB\n",
    "cat <<E\nx\\\nE\nE\n",
    "cat <<ab\na\\\nb\nab\n",
    "cat <<$x\n",
    "cat 3<f <&3",
    "cat <>f",
    "ls > >(cat)",
    "ls x<(cat)",
    "ls >|f",
    "ls @(a|b)",
    "shopt -s extglob; !(ls)",
    "[[ x =~ (\n#) ]]",
    "[[ a && # x\n b ]]",
    "x=1 [[ a && ls ]]",
    "2>f [[ a && ls ]]",
    "echo `ls \\`ls\\``",
    "case x in a) ls;& b) ls;; esac",
    "ls \u{a0}x",
    "ls x ()",
];

#[test]
fn everyday_constructs_are_plain() {
    for text in PLAIN {
        assert_eq!(unusual(text), None, "{text}");
    }
}

#[test]
fn other_constructs_are_unusual() {
    for text in UNUSUAL {
        assert!(unusual(text).is_some(), "{text}");
    }
}

#[test]
fn nested_texts_are_read_in_bounded_depth() {
    for token in [
        "${x:-",
        "$((",
        "a=(",
        "\"$(",
        "(",
        "<(",
        "case a in b) ",
        "`",
    ] {
        let text = token.repeat(20_001);
        assert!(unusual(&text).is_some(), "{token}");
    }
}

fn any_plain_text() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(PLAIN.to_vec()).prop_map(str::to_owned);
    leaf.prop_recursive(3, 8, 2, |inner| {
        let parts = (inner.clone(), inner, 0..6_usize);
        parts.prop_map(|(first, second, form)| match form {
            0 => format!("{first}\n{second}"),
            1 => format!("{{\n{first}\n}} | cat\n{second}"),
            2 => format!("if true\nthen {first}\nelse {second}\nfi"),
            3 => format!("f() {{\n{first}\n}}\n{second}"),
            4 => format!("for x in a; do\n{first}\ndone\n{second}"),
            _ => format!("while true\ndo {first}\ndone > f\n{second}"),
        })
    })
}

proptest! {
    #[test]
    fn plain_texts_stay_plain_in_compound_commands(text in any_plain_text()) {
        prop_assert_eq!(unusual(&text), None);
    }

    #[test]
    fn unusual_parts_make_plain_texts_unusual(
        first in any_plain_text(),
        second in any_plain_text(),
        part in proptest::sample::select(UNUSUAL.to_vec()),
    ) {
        let text = format!("{first}\n{part}\n{second}");
        prop_assert!(unusual(&text).is_some());
    }
}
