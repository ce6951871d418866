//! Tests of the shell analyzer.

use proptest::prelude::*;

use super::Analysis;
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
