//! The words of `find`: the folders that it searches, its tests, and the programs that it runs.

use std::iter;

use crate::permission::programs::{Arguments, Model, model};
use crate::permission::protected::files_of_git;

use super::word::{Part, Word};

/// Returns `true` if a name, a path or emptiness selects all files that `find` changes: a test for
/// one of them, which is not negated, stands before each action in its alternative.
pub(super) fn changes_by_name(argv: &[Word]) -> bool {
    let words = argv[1..].iter().map(|w| w.literal().unwrap_or_default());
    let words: Vec<String> = words.collect();
    let mut words = words.iter().map(String::as_str);
    let mut groups: Vec<Tests> = Vec::new();
    let mut tests = Tests::default();
    while let Some(word) = words.next() {
        let is_action = word == "-delete" || is_exec(word);
        if is_action && !tests.name && !groups.iter().any(|tests| tests.name) {
            return false;
        }
        match word {
            "!" | "-not" => tests.negates = !tests.negates,
            "-o" | "-or" | "," => {
                tests.has_other |= !tests.name;
                tests.name = false;
                tests.negates = false;
            }
            "(" => groups.push(std::mem::take(&mut tests)),
            ")" => {
                let inner_names = !tests.has_other && tests.name;
                let Some(outer) = groups.pop() else {
                    return false;
                };
                tests = outer;
                tests.add(inner_names);
            }
            "-name" | "-iname" | "-path" | "-ipath" => {
                words.next();
                tests.add(true);
            }
            "-empty" => tests.add(true),
            _ if is_exec(word) => {
                // The words of the program are no tests.
                let mut last = "";
                words.find(|word| {
                    let ends = *word == ";" || *word == "+" && last == "{}";
                    last = *word;
                    ends
                });
            }
            _ if word.starts_with('-') => tests.negates = false,
            _ => {}
        }
    }
    true
}

/// The tests of `find` between two parentheses, up to a word.
#[derive(Default)]
struct Tests {
    /// True if an alternative before this one tests no name.
    has_other: bool,
    /// True if this alternative tests a name.
    name: bool,
    /// True if the next test is negated.
    negates: bool,
}

impl Tests {
    /// Adds a test, which is about a name or not.
    fn add(&mut self, is_name: bool) {
        self.name |= is_name && !self.negates;
        self.negates = false;
    }
}

/// Returns `true` for an option in front of the folders that `find` searches.
fn is_switch(text: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or_default();
    let is_letters = letters.bytes().all(|byte| b"EHLPXdsx".contains(&byte));
    !letters.is_empty() && (letters.starts_with('O') || is_letters)
}

/// Returns the files and folders that `find` searches.
pub(super) fn starts(argv: &[Word]) -> Vec<Word> {
    if argv.iter().any(|word| word.is("-files0-from")) {
        return vec![Word::made()];
    }
    let mut start = 1;
    while let Some(text) = argv.get(start).and_then(Word::literal) {
        match &*text {
            "--" => {
                start += 1;
                break;
            }
            "-D" => start += 2,
            // BSD's find takes a folder after it.
            "-f" => return vec![Word::made()],
            text if is_switch(text) => start += 1,
            _ => break,
        }
    }

    let is_start = |word: &&Word| {
        let prefix = word.literal_prefix();
        let is_test = prefix.starts_with('-') && prefix.len() > 1;
        !is_test && !matches!(&*prefix, "(" | "!" | ")" | ",")
    };
    let words = argv.get(start..).unwrap_or_default().iter();
    let mut starts: Vec<Word> = words.take_while(is_start).cloned().collect();
    if starts.is_empty() {
        starts.push(Word::from_text("."));
    }
    starts
}

/// Returns the files of git, from the folder of a repository, that `find` may select by their name.
pub(super) fn git_files(argv: &[Word]) -> Vec<Word> {
    let is_above = |text: String| {
        let mut names = text.split('/');
        text.starts_with('/')
            || names.clone().any(|name| name == "..")
            || names.all(|name| matches!(name, "" | "."))
    };
    let may_be_above = |start: &Word| start.literal().is_none_or(is_above);
    if !starts(argv).iter().any(may_be_above) {
        return Vec::new();
    }

    let is_name = |word: &Word| word.is("-name") || word.is("-iname");
    let pairs = argv.windows(2).filter(|pair| is_name(&pair[0]));
    let names = pairs.map(|pair| &pair[1]).filter(|name| !name.is_dynamic());
    // `find` reads the wildcards that a shell leaves as they are.
    let patterns = names.map(|name| wild_text(&Word::default().followed_by(&wild_text(name))));
    let files = patterns.flat_map(|pattern| files_of_git(&pattern));
    files
        .map(|file| Word::default().followed_by(&file))
        .collect()
}

/// Returns the texts of the word, with `*` and `?` in the places of its wildcards.
fn wild_text(word: &Word) -> String {
    let mut pattern = String::new();
    for part in &word.parts {
        match part {
            Part::Text { text, .. } => pattern.push_str(text),
            Part::Glob('?') => pattern.push('?'),
            Part::Brace(c) => pattern.push(*c),
            _ => pattern.push('*'),
        }
    }
    pattern
}

/// Returns the programs that `find` runs, each with its words.
pub(super) fn executed(argv: &[Word]) -> impl Iterator<Item = (Model<'_>, &[Word])> {
    let is_exec = |word: &Word| word.literal().is_some_and(|text| is_exec(&text));
    let mut words = argv;
    iter::from_fn(move || {
        let start = words.iter().position(is_exec)? + 1;
        let end = start + words_of_exec(&words[start..]);
        let own_words = &words[start..end];
        words = &words[end..];
        let name = own_words.first().and_then(Word::basename);
        Some((model(&name.unwrap_or_default(), own_words), own_words))
    })
}

/// Returns the number of words up to the end of a program that `find` runs: a `;`, or a `+` behind
/// `{}`.
pub(super) fn words_of_exec(words: &[Word]) -> usize {
    let is_place = |word: &Word| word.is("{}") || word.is_dynamic();
    let is_end = |at: &usize| {
        words[*at].is(";") || *at > 0 && words[*at].is("+") && is_place(&words[at - 1])
    };
    (0..words.len()).find(is_end).unwrap_or(words.len())
}

/// Returns `true` if every program that `find` runs only reads.
pub(super) fn executes_readers(argv: &[Word]) -> bool {
    executed(argv).all(|(model, _)| model.program.is_some_and(|program| program.reads))
}

/// Returns `true` if a program that `find` runs edits its files, such as `sed -i`.
pub(super) fn executes_editors(argv: &[Word]) -> bool {
    executed(argv).any(|(model, words)| edits(&model, words))
}

/// Returns `true` if a program edits its files, by its words.
pub(super) fn edits(model: &Model<'_>, words: &[Word]) -> bool {
    model
        .program
        .is_some_and(|program| Arguments::read(program, words, model.start).has_mark("edit"))
}

/// Returns `true` if the words behind this one are a program and its arguments.
pub(super) fn is_exec(text: &str) -> bool {
    matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir")
}
