//! The words of a command that are files, and its use of them.

use crate::permission::programs::{Arguments, Dash, Program};

use super::analysis::{Files, SimpleCommand, Use};
use super::context::Context;
use super::word::{Part, Word};

/// Notes what the program does with the files that its operands name.
pub(super) fn describe(command: &mut SimpleCommand, program: &Program) {
    let is_text = program.takes("text") && !program.takes("read");
    command.files = if !program.reads {
        Files::Changed
    } else if is_text {
        Files::Unopened
    } else {
        Files::Read
    };
    command.has_parts = program.takes("parts");
    command.shows = program.takes("show");
    command.changes = ["into", "write", "move", "dd"]
        .iter()
        .any(|kind| program.takes(kind));
}

/// Notes which words are files, and which of them the program may change.
pub(super) fn describe_words(
    own: &mut SimpleCommand,
    program: &Program,
    argv: &[Word],
    arguments: &Arguments<'_>,
) {
    // Operands stand in the order of the words.
    let mut operands = arguments.operands.iter().peekable();
    let mut is_operand = |word: &Word| {
        operands
            .next_if(|operand| std::ptr::eq(**operand, word))
            .is_some()
    };
    let indices = argv.iter().enumerate().filter(|(_, word)| is_operand(word));
    let indices: Vec<usize> = indices.map(|(index, _)| index).collect();
    own.values.clone_from(&arguments.attached);
    own.is_code = program.runs_code() && !arguments.unknown.is_empty();
    let is_edit = arguments.has_mark("edit");
    if own.is_code || is_edit {
        own.files = Files::Changed;
    }
    own.changes |= is_edit;

    own.texts.clone_from(&arguments.patterns);
    let has_text =
        program.takes("pattern") || program.reads && program.operands.starts_with("text ");
    if has_text && !arguments.has_mark("first") {
        own.texts.extend(indices.first());
    }
    if program.takes("name") {
        let is_name = |index: &&usize| {
            let text = argv[**index].literal();
            text.is_some_and(|text| !text.contains(['/', ':', '@']) && !text.starts_with('.'))
        };
        own.texts.extend(indices.iter().filter(is_name));
    }

    let is_clear = arguments.unknown.is_empty()
        && (arguments.uncertain.is_empty() || program.dash == Dash::Harmless)
        && !arguments.has_mark("effect")
        && !argv.iter().any(Word::is_dynamic);
    if !is_clear || is_edit {
        return;
    }

    let is_creation = arguments.has_mark("create") && !arguments.has_mark("extract");
    if program.keeps_operands() || is_creation {
        own.kept = indices;
    } else if program.takes("dd") {
        let is_input = |index: &usize| argv[*index].literal_prefix().starts_with("if=");
        own.kept = indices.into_iter().filter(is_input).collect();
    } else if program.takes("code") || program.takes("script") {
        own.kept = indices.into_iter().take(1).collect();
    }
}

/// Programs whose words are names and paths elsewhere, but for what options read.
const REMOTE: &str = "docker podman nerdctl docker-compose kubectl oc helm gh glab aws gcloud az \
     systemctl journalctl terraform tofu apt apt-get brew";

/// Notes the paths in the words of a program that works on a project: it runs, loads or sends what
/// it finds there.
pub(super) fn places(cx: &mut Context, name: &str, argv: &[Word]) {
    let is_remote = REMOTE.split_ascii_whitespace().any(|known| known == name);
    for word in &argv[1..] {
        let prefix = word.literal_prefix();
        if prefix.contains("://") {
            continue;
        }

        let marks = prefix.char_indices().filter(|(_, c)| "=,@".contains(*c));
        let starts = marks.map(|(at, c)| (at + 1, c)).chain([(0, '=')]);
        for (start, mark) in starts.filter(|(_, mark)| !is_remote || *mark == '@') {
            let Some(part) = word.without_prefix(&prefix[..start]) else {
                continue;
            };

            let text = part.literal_prefix();
            let is_home = matches!(part.parts.first(), Some(Part::Home(_)));
            let is_place = text.starts_with(['/', '~']) || text.split('/').any(|name| name == "..");
            if (is_home || is_place) && !(is_remote && mark != '@') {
                cx.add_path(Use::Project, part);
            }
        }

        let attached =
            prefix.starts_with('-') && prefix[1..].starts_with(|c: char| c.is_ascii_alphabetic());
        if let Some(part) = word.without_prefix(prefix.get(..2).filter(|_| attached).unwrap_or("-"))
            && part.literal_prefix().starts_with(['/', '~'])
            && attached
            && !is_remote
        {
            cx.add_path(Use::Project, part);
        }
    }
}
