//! A minifier for the scripts, the style sheet and the markup of the page.
//!
//! It does not parse. It relies on conventions of the files in this folder: a comment has lines of
//! its own, a statement ends with a semicolon, strings have double quotes or backticks and no line
//! breaks, and no string has `#` in front of the name of a private member.

/// Removes comments, indentation, and spaces next to punctuation from a script, and shortens the
/// names of private members.
pub(super) fn script(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    for line in code_lines(source) {
        minify_line(line, &mut out);
        if !out.ends_with([';', '{', '}', ',', '(']) {
            out.push('\n');
        }
    }
    shorten_private_names(&out)
}

/// Removes comments, indentation, and spaces next to punctuation from a style sheet.
pub(super) fn style(source: &str) -> String {
    let text: String = code_lines(source).collect();
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let is_separator = |char: char| matches!(char, '{' | '}' | ';' | ',');
        let is_before = chars.peek().copied().is_some_and(is_separator);
        // A space before a colon may be a part of a selector.
        let is_behind = out.ends_with(is_separator) || out.ends_with(':');
        if char != ' ' || !(is_before || is_behind) {
            push(char, &mut out);
        }
    }
    out
}

/// Removes the indentation from markup.
pub(super) fn markup(source: &str) -> String {
    source
        .lines()
        .map(str::trim_start)
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// Returns the lines of a source, trimmed, without empty lines and comments.
fn code_lines(source: &str) -> impl Iterator<Item = &str> {
    let mut is_comment = false;
    source.lines().map(str::trim).filter(move |line| {
        let is_start = line.starts_with("/*");
        let is_inside = is_comment || is_start;
        is_comment = is_inside && !line.contains("*/");
        !is_inside && !line.is_empty() && !line.starts_with("//")
    })
}

fn minify_line(line: &str, out: &mut String) {
    let start = out.len();
    let mut quote = None;
    let mut previous = ' ';
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        if let Some(mark) = quote {
            out.push(char);
            if char == '\\' {
                out.extend(chars.next());
            } else if char == mark {
                quote = None;
            }
        } else if char == '/' {
            // A regular expression or a division: the line stays as it is.
            out.truncate(start);
            out.push_str(line);
            return;
        } else if char != ' ' || !(is_punctuation(previous) || is_punctuation(next)) {
            quote = Some(char).filter(|char| matches!(char, '"' | '`'));
            push(char, out);
        }
        previous = char;
    }
}

/// Gives each private member a name of one to three characters. A name that no code uses behind a
/// dot stays as it is.
fn shorten_private_names(script: &str) -> String {
    let mut names: Vec<&str> = script.split(".#").skip(1).map(name_of).collect();
    names.sort_unstable();
    names.dedup();
    let mut pieces = script.split('#');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push('#');
        let name = name_of(piece);
        let Ok(index) = names.binary_search(&name) else {
            out.push_str(piece);
            continue;
        };
        out.push(char::from(b'a' + (index % 26) as u8));
        if index >= 26 {
            out.push_str(&(index / 26).to_string());
        }
        out.push_str(&piece[name.len()..]);
    }
    out
}

/// Returns the identifier at the beginning of a text.
fn name_of(text: &str) -> &str {
    let is_end = |char: char| !char.is_ascii_alphanumeric() && char != '_';
    &text[..text.find(is_end).unwrap_or(text.len())]
}

/// Appends a character of code. A semicolon before the end of a block is not needed.
fn push(char: char, out: &mut String) {
    if char == '}' && out.ends_with(';') {
        out.pop();
    }
    out.push(char);
}

fn is_punctuation(char: char) -> bool {
    "=+-*<>?:|&{}(),;![]".contains(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_loses_comments_and_spaces_outside_of_strings() {
        let source = "// One.\n/**\n * Two.\n */\nconst a = (b, c) => b + c;\n\n  \
            /** Three. */\n  if (a) {\n    log(\"x, y = \\\" z\", `{ ${a + b} }`);\n  }\n";
        let expected = "const a=(b,c)=>b+c;if(a){log(\"x, y = \\\" z\",`{ ${a + b} }`)}";
        assert_eq!(script(source), expected);
    }

    #[test]
    fn private_members_have_short_names() {
        let source = "class A {\n  #count = 0;\n  #countdown() {\n    \
            return this.#count + this.#countdown() + \"#c\";\n  }\n}\n";
        let expected = "class A{#a=0;#b(){return this.#a+this.#b()+\"#c\"}}";
        assert_eq!(script(source), expected);
        let many: String = (10..40).map(|n| format!("a.#n{n}();")).collect();
        assert!(script(&many).ends_with("a.#d1();"), "{}", script(&many));
    }

    #[test]
    fn lines_with_slashes_stay_as_they_are() {
        let line = "const a = /[\"`] + ( /y, b = c / d;";
        assert_eq!(script(line), line);
        assert_eq!(script("f(\"a / b\", c);"), "f(\"a / b\",c);");
    }

    #[test]
    fn line_without_an_end_keeps_its_line_break() {
        assert_eq!(script("const a =\n  b &&\n  c;\n"), "const a=\nb&&\nc;");
    }

    #[test]
    fn style_keeps_the_spaces_of_selectors_and_sums() {
        let source = "/* One. */\n.a :is(b, c) > d {\n  width: calc(1px + 2px); color: red;\n}\n";
        let expected = ".a :is(b,c) > d{width:calc(1px + 2px);color:red}";
        assert_eq!(style(source), expected);
    }

    #[test]
    fn markup_loses_its_indentation() {
        assert_eq!(markup("<p>\n  a\n</p>\n"), "<p>\na\n</p>\n");
    }
}
