//! The folders at which recursive programs start.

use super::shell::{Analysis, SimpleCommand, Word, operands};

/// Such programs, the options that make them one, and the number of words they need in addition to
/// a folder. Without a folder, they start in the working directory.
const RECURSIVE_PROGRAMS: [(&str, &str, usize); 21] = [
    ("grep", "-r -R --recursive", 1),
    ("egrep", "-r -R --recursive", 1),
    ("fgrep", "-r -R --recursive", 1),
    ("rg", "", 1),
    ("ag", "", 1),
    ("ack", "", 1),
    ("fd", "", 1),
    ("fdfind", "", 1),
    ("find", "", 0),
    ("gfind", "", 0),
    ("tree", "", 0),
    ("ls", "-R --recursive", 0),
    ("tar", "", 0),
    ("zip", "", 0),
    ("rsync", "", 0),
    ("cp", "-r -R -a --recursive --archive", 0),
    ("scp", "-r", 0),
    ("mv", "", 0),
    ("ln", "", 0),
    ("diff", "-r --recursive", 0),
    ("git", "", 0),
];

/// Options with a value, of programs that search: short ones.
const VALUES: [(&str, &str); 5] = [
    ("rg", "egfjmABCtTMEdr"),
    ("fd", "dtexEScj"),
    ("fdfind", "dtexEScj"),
    ("ag", "ABCGgmp"),
    ("ack", "ABCm"),
];

/// Options of programs that search which take no value. Any other long one may.
const FLAGS: &str = "--hidden --no-ignore --no-ignore-vcs --files-with-matches \
--files-without-match --count --ignore-case --smart-case --case-sensitive --word-regexp \
--line-regexp --fixed-strings --extended-regexp --perl-regexp --basic-regexp --line-number \
--no-line-number --recursive --dereference-recursive --no-heading --heading --json --multiline \
--pcre2 --invert-match --only-matching --null --null-data --text --quiet --silent --with-filename \
--no-filename --no-messages --stats --vimgrep --follow --trim --column --color --colour --passthru \
--unrestricted --binary --glob-case-insensitive --count-matches --crlf --absolute-path --full-path";

/// The words that such programs may start at.
pub(super) fn start_folders(analysis: &Analysis) -> Vec<Word> {
    analysis
        .commands
        .iter()
        .flat_map(start_folders_of)
        .collect()
}

fn start_folders_of(command: &SimpleCommand) -> Vec<Word> {
    let program = command.program().unwrap_or_default();
    let Some((_, options, needed)) = RECURSIVE_PROGRAMS
        .iter()
        .find(|(name, ..)| *name == program)
    else {
        return Vec::new();
    };

    let argv = &command.argv;
    if !options.is_empty() && !argv.iter().any(|word| is_given(options, word)) {
        return Vec::new();
    }

    let mut start_words = argv[1..].to_vec();
    let begins_here = match program.as_str() {
        "grep" | "egrep" | "fgrep" => search_operand_count(argv, "efmABCdD") <= *needed,
        // With piped input, these search the input instead of the folder.
        "rg" | "ag" | "ack" if command.piped.is_some() => false,
        "rg" | "ag" | "ack" | "fd" | "fdfind" => {
            let values = VALUES.iter().find(|(name, _)| *name == program);
            search_operand_count(argv, values.map_or("", |(_, values)| *values)) <= *needed
        }
        "find" | "gfind" => argv.get(1).is_none_or(Word::starts_with_dash),
        "tree" | "ls" => argv[1..].iter().all(Word::starts_with_dash),
        "git" => {
            let is_search = |word: &Word| word.literal_prefix() == "grep";
            match argv.iter().position(is_search) {
                Some(at) => operands(&argv[at..], "efmABC").count() <= 1,
                None => return Vec::new(),
            }
        }
        _ => false,
    };

    if begins_here {
        start_words.push(Word::from_text("."));
    }

    start_words
}

fn is_given(options: &str, word: &Word) -> bool {
    let text = word.literal_prefix();
    options.split(' ').any(|option| {
        text == option
            || (option.len() == 2
                && text.starts_with('-')
                && !text.starts_with("--")
                && text.contains(&option[1..]))
    })
}

/// The number of words that may be a pattern or a place to search in. A pattern given as an option
/// counts.
fn search_operand_count(argv: &[Word], values: &str) -> usize {
    let mut search_words = Vec::new();
    let mut has_pattern = false;
    let mut words = argv.iter();
    while let Some(word) = words.next() {
        let prefix = word.literal_prefix();
        if prefix.starts_with("--") && prefix.len() > 2 {
            let name = prefix.split('=').next().unwrap_or_default();
            has_pattern |= matches!(name, "--regexp" | "--file" | "--files");
            if name == prefix && name != "--files" && !FLAGS.split(' ').any(|flag| flag == name) {
                words.next();
            }

            continue;
        }

        if prefix.starts_with('-') && values.contains('f') {
            let first = prefix.chars().skip(1).find(|c| values.contains(*c));
            has_pattern |= matches!(first, Some('e' | 'f'));
        }

        search_words.push(word.clone());
    }

    operands(&search_words, values).count() + usize::from(has_pattern)
}
