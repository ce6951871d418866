//! Brace expansion: `a{b,c}` is two words, before anything else is expanded.

use super::word::{Part, Word};

/// The maximum number of words that one word expands to.
const MOST: usize = 64;
/// The maximum number of parts examined; the parts of a word count again for every brace in it.
const MOST_WORK: usize = 1 << 20;

/// Returns the words `word` expands to, and whether it has braces that expand; `None` if there are
/// too many to look at.
pub(super) fn expand(word: Word) -> Option<(Vec<Word>, bool)> {
    if !word.parts.contains(&Part::Brace('{')) {
        return Some((vec![word], false));
    }

    let is_brace = |part: &&Part| matches!(part, Part::Brace(_));
    let braces = word.parts.iter().filter(is_brace).count();
    if braces > MOST * 4 {
        return None;
    }

    let mut words = Vec::new();
    let mut open = vec![word.parts.clone()];
    let (mut rounds, mut work) = (0, 0);
    while let Some(parts) = open.pop() {
        rounds += 1;
        work += parts.len() * braces;
        if rounds > MOST * 4 || work > MOST_WORK || words.len() + open.len() > MOST {
            return None;
        }

        match first_group(&parts) {
            None => {
                let parts = parts.into_iter().map(settle).collect();
                words.push(match rounds {
                    1 => Word { parts },
                    _ => rejoined(parts, &word.parts),
                });
            }
            Some(Group { start, end, items }) => {
                if items.len() > MOST {
                    return None;
                }

                for item in items.into_iter().rev() {
                    let mut next = parts[..start]
                        .iter()
                        .cloned()
                        .map(settle)
                        .collect::<Vec<_>>();
                    next.extend(item);
                    next.extend_from_slice(&parts[end + 1..]);
                    open.push(next);
                }
            }
        }
    }

    Some((words, rounds > 1))
}

/// Returns the word of the parts that the braces of `word` have left. Braces are expanded before
/// `$` and `~`, so what they join may be a variable or a home folder.
fn rejoined(mut parts: Vec<Part>, word: &[Part]) -> Word {
    let mut texts = parts.iter().filter_map(unquoted);
    if texts.any(|text| text.contains('$')) {
        return Word::made();
    }

    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for at in 1..parts.len() {
        let pair = &parts[at - 1..=at];
        let continues = unquoted(&pair[1]).is_some_and(|text| text.starts_with(is_of_name));
        let is_joined = continues && !word.windows(2).any(|old_pair| old_pair == pair);
        if is_joined && let Part::Value { name, .. } = &mut parts[at - 1] {
            *name = None;
        }
    }

    let first = parts.first().and_then(unquoted);
    if let Some(path) = first.and_then(|text| text.strip_prefix('~')) {
        let (user, after) = path.split_at(path.find('/').unwrap_or(path.len()));
        let (user, after) = (user.to_owned(), after.to_owned());
        let after = (!after.is_empty()).then_some(Part::Text {
            text: after,
            quoted: false,
        });
        parts.splice(..1, [Part::Home(user)].into_iter().chain(after));
    }
    Word { parts }
}

/// Returns the text of a part that is one without quotes.
fn unquoted(part: &Part) -> Option<&str> {
    match part {
        Part::Text {
            text,
            quoted: false,
        } => Some(text),
        _ => None,
    }
}

struct Group {
    start: usize,
    end: usize,
    items: Vec<Vec<Part>>,
}

fn settle(part: Part) -> Part {
    match part {
        Part::Brace(c) => Part::Text {
            text: c.to_string(),
            quoted: false,
        },
        other => other,
    }
}

/// Returns the first `{..}` that expands; a `{` before it that does not is plain text.
fn first_group(parts: &[Part]) -> Option<Group> {
    for (start, part) in parts.iter().enumerate() {
        if *part != Part::Brace('{') {
            continue;
        }

        let Some((end, commas)) = closing(parts, start) else {
            continue;
        };

        if !commas.is_empty() {
            let mut items = Vec::new();
            let mut from = start + 1;
            for comma in commas.into_iter().chain([end]) {
                items.push(parts[from..comma].to_vec());
                from = comma + 1;
            }

            return Some(Group { start, end, items });
        }

        let content = &parts[start + 1..end];
        if let [
            Part::Text {
                text,
                quoted: false,
            },
        ] = content
            && let Some(items) = sequence(text)
        {
            return Some(Group { start, end, items });
        }

        // Bash drops the braces around what is no sequence if it has a comma at any depth.
        let may_have_comma = |part: &Part| match part {
            Part::Brace(c) => *c == ',',
            Part::Text { text, .. } => text.contains(','),
            _ => true,
        };
        if content.iter().any(may_have_comma) {
            let items = vec![content.to_vec()];
            return Some(Group { start, end, items });
        }
    }

    None
}

/// Returns the brace that closes the one at `start`, and the commas between them. As in bash, a
/// brace closes only what has a comma or `..`: `{a},b}` is `a}` and `b`.
fn closing(parts: &[Part], start: usize) -> Option<(usize, Vec<usize>)> {
    // Such as `{}`, the place of a name for other programs.
    if start == 0 && parts.get(1) == Some(&Part::Brace('}')) {
        return None;
    }

    let mut depth = 0_usize;
    let mut commas = Vec::new();
    let mut has_dots = false;
    for (at, part) in parts.iter().enumerate().skip(start) {
        match part {
            Part::Brace('{') => depth += 1,
            Part::Brace('}') if depth > 1 => depth -= 1,
            Part::Brace('}') if has_dots || !commas.is_empty() => return Some((at, commas)),
            Part::Brace(',') if depth == 1 => commas.push(at),
            Part::Text {
                text,
                quoted: false,
            } if depth == 1 => {
                let is_at_end = parts.get(at + 1) == Some(&Part::Brace('}'));
                let text = if is_at_end {
                    text.strip_suffix("..").unwrap_or(text)
                } else {
                    text
                };
                has_dots |= text.contains("..");
            }
            _ => {}
        }
    }

    None
}

/// `1..5`, `a..e`, `1..9..2`: numbers that are not known if they are many, or have leading zeros.
fn sequence(text: &str) -> Option<Vec<Vec<Part>>> {
    let ends: Vec<&str> = text.split("..").collect();
    if !(2..=3).contains(&ends.len()) {
        return None;
    }

    let letters = |s: &str| s.len() == 1 && s.as_bytes()[0].is_ascii_alphabetic();
    let number = |s: &str| s.parse::<i64>().ok();
    let (from, to, is_letters) = if letters(ends[0]) && letters(ends[1]) {
        let end = |s: &str| i64::from(s.as_bytes()[0]);
        (end(ends[0]), end(ends[1]), true)
    } else {
        (number(ends[0])?, number(ends[1])?, false)
    };

    // Between the capital letters and the others there are a backslash, a bracket and a backtick.
    let is_capital = |s: &str| s.starts_with(|c: char| c.is_ascii_uppercase());
    if is_letters && is_capital(ends[0]) != is_capital(ends[1]) {
        return Some(vec![Word::made().parts]);
    }

    let step = match ends.get(2) {
        Some(step) => usize::try_from(number(step)?.unsigned_abs()).ok()?.max(1),
        None => 1,
    };
    let plain = |s: &str| !s.trim_start_matches('-').starts_with('0') || s == "0";
    let is_short = from.abs_diff(to) / (step as u64) < MOST as u64
        && from.abs_diff(to) < u64::from(u16::MAX)
        && (is_letters || (plain(ends[0]) && plain(ends[1])));
    if !is_short {
        // Numbers, perhaps several.
        let mut word = Word::default();
        word.push_value(Some("#".to_owned()), false);
        return Some(vec![word.parts]);
    }

    let run: Vec<i64> = if from <= to {
        (from..=to).step_by(step).collect()
    } else {
        (to..=from).rev().step_by(step).collect()
    };

    let text = |n: i64| match u8::try_from(n) {
        Ok(byte) if is_letters => char::from(byte).to_string(),
        _ => n.to_string(),
    };

    Some(
        run.into_iter()
            .map(|n| {
                vec![Part::Text {
                    text: text(n),
                    quoted: false,
                }]
            })
            .collect(),
    )
}
