//! The top-level modules that a source file names.

use super::lexer::{Token, tokens};
use super::tree::File;

/// One use of a top-level module of the crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    pub module: String,
    pub line: usize,
    /// Inside an item that only exists for `cargo test`.
    pub test: bool,
}

/// Returns the top-level module of a file of `src`, or `None` for the crate root.
pub fn module_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    let first = inside.split('/').next()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    (module != "lib").then_some(module)
}

/// Returns every `crate::x`, and every `super::..` that reaches the root, in the code of a file.
pub fn mentions(file: &File) -> Vec<Mention> {
    Walk::new(file).collect()
}

struct Walk {
    tokens: Vec<Token>,
    /// The number of modules around the code of the file: `src/agent/mod.rs` is 1 deep.
    depth: usize,
    braces: Vec<Brace>,
    /// The properties of the next opening brace.
    next: Brace,
    found: Vec<Mention>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Brace {
    module: bool,
    test: bool,
}

impl Walk {
    fn new(file: &File) -> Self {
        let inside = file.path.trim_start_matches("src/");
        let mut depth = inside.split('/').count();
        if inside.ends_with("mod.rs") || inside == "lib.rs" {
            depth -= 1;
        }

        Self {
            tokens: tokens(&file.text),
            depth,
            braces: Vec::new(),
            next: Brace::default(),
            found: Vec::new(),
        }
    }

    fn collect(mut self) -> Vec<Mention> {
        for at in 0..self.tokens.len() {
            match self.text(at) {
                "cfg" if self.is(at, &["cfg", "(", "test", ")"]) => self.next.test = true,
                "mod" => self.next.module = true,
                ";" => self.next = Brace::default(),
                "{" => self.braces.push(std::mem::take(&mut self.next)),
                "}" => {
                    self.braces.pop();
                }
                "crate" if self.text(at + 1) == "::" => self.names(at + 2),
                "super" if at == 0 || self.text(at - 1) != "::" => self.climb(at),
                _ => {}
            }
        }

        self.found
    }

    fn climb(&mut self, start: usize) {
        let (mut at, mut steps) = (start, 0);
        while self.is(at, &["super", "::"]) {
            (at, steps) = (at + 2, steps + 1);
        }
        let inline = self.braces.iter().filter(|brace| brace.module).count();
        if steps == self.depth + inline {
            self.names(at);
        }
    }

    /// Records `x`, or each first word of `{x::.., y}`.
    fn names(&mut self, start: usize) {
        if self.text(start) != "{" {
            return self.note(start);
        }

        let (mut at, mut depth, mut first) = (start, 0_usize, false);
        loop {
            match self.text(at) {
                "{" => (depth, first) = (depth + 1, depth == 0),
                "}" => depth -= 1,
                "," => first = depth == 1,
                "" => break,
                _ if first => {
                    self.note(at);
                    first = false;
                }
                _ => {}
            }

            if depth == 0 {
                break;
            }

            at += 1;
        }
    }

    fn note(&mut self, at: usize) {
        let Some(token) = self.tokens.get(at) else {
            return;
        };
        self.found.push(Mention {
            module: token.text.clone(),
            line: token.line,
            test: self.next.test || self.braces.iter().any(|brace| brace.test),
        });
    }

    fn is(&self, at: usize, texts: &[&str]) -> bool {
        (at..).zip(texts).all(|(at, text)| self.text(at) == *text)
    }

    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }
}

#[test]
fn modules_are_detected_in_every_path_form() {
    let file = |path: &str, text: &str| File {
        path: path.to_owned(),
        text: text.to_owned(),
    };

    let names = |file: &File| -> Vec<(String, bool)> {
        mentions(file)
            .into_iter()
            .map(|mention| (mention.module, mention.test))
            .collect()
    };

    let expect = |list: &[(&str, bool)]| -> Vec<(String, bool)> {
        list.iter()
            .map(|(name, test)| ((*name).to_owned(), *test))
            .collect()
    };

    let flat = file(
        "src/tool/x.rs",
        "use crate::{error::{A, B}, message};\nuse super::y;\nuse super::super::agent::Z;\nfn f(_: crate::run::Run) {}",
    );
    assert_eq!(
        names(&flat),
        expect(&[
            ("error", false),
            ("message", false),
            ("agent", false),
            ("run", false)
        ])
    );

    let tests = file(
        "src/tool/x.rs",
        "#[cfg(test)]\nmod tests { use super::super::y; use crate::testing::T; }\nuse crate::hook;",
    );
    assert_eq!(names(&tests), expect(&[("testing", true), ("hook", false)]));

    let root = file("src/tool/mod.rs", "pub(crate) use super::model;");
    assert_eq!(names(&root), expect(&[("model", false)]));
    assert_eq!(module_of("src/tool/mod.rs"), Some("tool"));
    assert_eq!(module_of("src/usage.rs"), Some("usage"));
    assert_eq!(module_of("src/lib.rs"), None);
}
