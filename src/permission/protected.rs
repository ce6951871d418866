//! Paths that decide what runs later, or what agents do: writing them always needs an answer.

use std::collections::HashSet;
use std::fs;
use std::sync::LazyLock;

use super::beneath::Beneath;
use super::disk::Disk;
use super::glob::{GlobToken, Match, intersect, tokens};
use super::paths::{PathContext, PathOf, PathPattern, Segment, best_match, folded, is_literal};

/// Protected in each folder of git, in any case of letters: git runs them or what they name, or
/// checks it out.
const GIT: &str = "\
    hooks config config.worktree commondir worktrees HEAD info/attributes modules/**/hooks \
    modules/**/config modules/**/HEAD modules/**/commondir modules/**/config.worktree rebase-merge \
    rebase-apply sequencer packed-refs refs";

/// The names of the hooks that git runs.
const HOOKS: &str = "\
    applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg \
    commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update \
    proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc \
    post-rewrite sendemail-validate fsmonitor-watchman post-index-change";

/// Protected in each folder, with all below them, in any case of letters. Shells, package managers
/// and editors run what they name, and agents follow them.
const ANYWHERE: &str = "\
    git~1 .husky .envrc .bashrc .bash_profile .bash_login .profile .bash_aliases .gitconfig .zshrc \
    .zshenv .zprofile .npmrc .yarnrc.yml .cargo/config .cargo/config.toml .vscode .idea \
    .agentcore/** .claude .mcp.json AGENTS.md CLAUDE.md CLAUDE.local.md .cursor SKILL.md";

/// The length of the pieces of protected names that unusual commands are searched for.
const PIECE_LEN: usize = 4;
/// The names in folders of git that are searched for in pieces.
const PIECES_OF_GIT: [&str; 4] = [".git/hooks", ".git/config", ".git/HEAD", "skills/"];
/// Pieces of common words, and `.env`, which is not protected itself.
const COMMON_PIECES: &str = "\
    .env .jso .tom .yml /con alia argo ash_ bash carg code conf core fig. file head json kill lias \
    loca nfig ocal onfi toml";

/// Protected from being replaced as a whole. Words of commands that name them are mostly not paths
/// to write.
const REPLACED: [&str; 2] = ["/**/.git", "/**/.git/modules/*"];

/// The files, not folders, of git.
const FILES_OF_GIT: &str = "config config.worktree commondir HEAD attributes packed-refs";

static PROTECTED_PATTERNS: LazyLock<Vec<Vec<Segment>>> = LazyLock::new(|| {
    let of_git = GIT
        .split_whitespace()
        .map(|name| format!("/**/.git/{name}"));
    let others = ANYWHERE
        .split_whitespace()
        .map(|name| format!("/**/{name}"));
    folded_patterns(of_git.chain(others))
});
static REPLACED_PATTERNS: LazyLock<Vec<Vec<Segment>>> =
    LazyLock::new(|| folded_patterns(REPLACED.map(str::to_owned).into_iter()));

/// The skills of the workspace, each of which is protected, and their folder, which is protected
/// from being replaced.
static SKILLS: LazyLock<[PathPattern; 2]> =
    LazyLock::new(|| ["./skills/*", "./skills"].map(pattern));

/// The files of git, from its folder or from the one of its hooks. Other projects have folders with
/// the names of those of hooks and configurations, the content of which does not count.
static GIT_PATTERNS: LazyLock<Vec<Vec<Segment>>> = LazyLock::new(|| {
    let hooks = HOOKS.split_whitespace();
    let hooks = hooks.flat_map(|name| [format!("/{name}"), format!("/hooks/{name}")]);
    folded_patterns(names_of_git(|_| true).chain(hooks))
});

/// The folders of git among them.
static GIT_FOLDERS: LazyLock<Vec<Vec<Segment>>> = LazyLock::new(|| {
    let is_folder = |name: &str| !FILES_OF_GIT.split(' ').any(|file| name.ends_with(file));
    folded_patterns(names_of_git(is_folder))
});

/// Returns the patterns of names in the folder of git.
fn names_of_git(is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
    let is_common = |name: &str| name.ends_with("hooks") || name.ends_with("config");
    let names = GIT.split_whitespace().filter(move |name| is_wanted(name));
    names.flat_map(move |name| {
        let content = (!is_common(name)).then(|| format!("/{name}/**"));
        [Some(format!("/{name}")), content].into_iter().flatten()
    })
}

fn pattern(text: &str) -> PathPattern {
    PathPattern::new(text).expect("the lists hold patterns")
}

/// Returns the segments of absolute patterns, as they are compared with folded paths.
fn folded_patterns(texts: impl Iterator<Item = String>) -> Vec<Vec<Segment>> {
    let context = PathContext {
        folds_case: true,
        ..PathContext::default()
    };
    texts
        .map(|text| pattern(&text).compared(&context))
        .collect()
}

/// Returns `true` if the path, which is folded, may match one of the patterns; with `beneath`, also
/// if it may lie below such a path.
fn matches_any(patterns: &[Vec<Segment>], path: &PathOf, beneath: bool) -> bool {
    let mut patterns = patterns.iter();
    patterns.any(|pattern| best_match(pattern, path, beneath) >= Match::Maybe)
}

/// Returns `true` if the names behind the unknown part of a path are those of a file of git, or of
/// a folder if only a folder can have the path.
pub(super) fn may_be_of_git(path: &PathOf, is_folder: bool) -> bool {
    let is_unknown = |segment: &Segment| *segment == Segment::Unknown;
    // A word has the same names behind each folder of the command.
    let mut known_names = PathOf(Vec::new());
    for path in &path.0 {
        let Some(at) = path.iter().rposition(is_unknown) else {
            continue;
        };
        let names = &path[at + 1..];
        if names.iter().all(is_literal) {
            let names: Vec<Segment> = names.iter().map(folded).collect();
            if !known_names.0.contains(&names) {
                known_names.0.push(names);
            }
        }
    }
    let patterns = if is_folder {
        &GIT_FOLDERS
    } else {
        &GIT_PATTERNS
    };
    matches_any(patterns, &known_names, false)
}

/// Returns the paths of this name in a repository, if files or hooks of git have it. In the name,
/// `*` and `?` are wildcards.
pub(super) fn files_of_git(name: &str) -> Vec<String> {
    let lowercase_name = tokens(&name.to_lowercase());
    let is_any = |names: &str| {
        let names = names.to_lowercase();
        let mut names = names.split_whitespace();
        names.any(|known| intersect(&tokens(known), &lowercase_name))
    };
    let folders = [(".git", GIT), (".git/hooks", HOOKS)].into_iter();
    let folders = folders.filter(|(_, names)| is_any(names));
    folders
        .map(|(folder, _)| format!("{folder}/{name}"))
        .collect()
}

/// Returns the paths of this name in protected folders, if files that programs run have it there.
pub(super) fn in_protected_folders(name: &str) -> impl Iterator<Item = String> {
    const FILES: [(&str, &str); 4] = [
        (".claude", "settings.json settings.local.json"),
        (".vscode", "settings.json tasks.json launch.json mcp.json"),
        (".cargo", "config.toml"),
        (".cursor", "mcp.json hooks.json"),
    ];
    let files = FILES.into_iter().filter(move |(_, files)| {
        let mut files = files.split_whitespace();
        files.any(|file| file.eq_ignore_ascii_case(name))
    });
    files.map(move |(folder, _)| format!("{folder}/{name}"))
}

/// Returns the pieces of a name, in lower case.
fn pieces(name: &str) -> Vec<Vec<u8>> {
    let name = name.to_lowercase().into_bytes();
    name.windows(name.len().clamp(1, PIECE_LEN))
        .map(<[u8]>::to_vec)
        .collect()
}

/// Returns a text in lower case, without the marks that a shell removes from names or puts into
/// them, and without the names of variables.
fn without_marks(text: &str) -> Vec<u8> {
    let is_kept =
        |c: &char| c.is_alphanumeric() || c.is_whitespace() || "._-/~;&|<>()".contains(*c);
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let parts = text.split('$').enumerate().map(|(at, part)| match at {
        0 => part,
        _ => part.trim_start_matches('{').trim_start_matches(is_of_name),
    });
    let text: String = parts.flat_map(str::chars).filter(is_kept).collect();
    text.to_lowercase().into_bytes()
}

/// The paths that need an answer before they are written.
#[derive(Clone, Copy)]
pub(super) struct ProtectedPaths<'a> {
    /// The paths of [`PermissionRules::protect`](super::PermissionRules::protect).
    pub(super) own: &'a [PathPattern],
    /// The files that the rules were read from.
    pub(super) sources: &'a [PathPattern],
    /// The memory of the agent, which it may write.
    pub(super) memory: &'a [String],
    pub(super) context: &'a PathContext,
    pub(super) disk: &'a Disk,
}

impl ProtectedPaths<'_> {
    /// Returns `true` if a text has a piece of the name of a protected file, even if quotes and
    /// other marks of the shell divide the name.
    pub(super) fn may_be_in_pieces(&self, text: &str) -> bool {
        static PIECES: LazyLock<HashSet<Vec<u8>>> = LazyLock::new(|| {
            let names = ANYWHERE.split_whitespace().chain(PIECES_OF_GIT);
            let is_rare = |piece: &Vec<u8>| {
                let mut common = COMMON_PIECES.split_whitespace();
                !common.any(|common| common.as_bytes() == piece)
            };
            let pieces = names.flat_map(|name| pieces(name.trim_end_matches("/**")));
            pieces.filter(is_rare).collect()
        });
        let text = without_marks(text);
        let has = |piece: Vec<u8>| text.windows(piece.len()).any(|part| part == piece);
        let is_own = |pattern: &PathPattern| {
            let mut names = pattern.text().rsplit('/');
            let name = names.find(|name| !name.is_empty() && !name.contains(['*', '?']));
            name.is_some_and(|name| pieces(name).into_iter().any(has))
        };
        text.windows(PIECE_LEN).any(|piece| PIECES.contains(piece)) || self.own.iter().any(is_own)
    }

    /// Returns `true` if writing `path` may change a protected path.
    pub(super) fn contain(&self, path: &PathOf) -> bool {
        self.is_any(path, |path, context| self.is_listed(path, context))
    }

    /// Returns `true` if writing `path` may change or replace a protected path.
    pub(super) fn contain_or_are(&self, path: &PathOf) -> bool {
        self.is_any(path, |path, context| {
            self.is_listed(path, context)
                || matches_any(&REPLACED_PATTERNS, path, false)
                || matches_any(&[SKILLS[1].compared(context)], path, false)
        })
    }

    /// Returns `true` if a file that is made with a name like the last one of `path` may be
    /// protected. The shell replaces a name that begins with a wildcard by names of files.
    pub(super) fn contain_made(&self, path: &PathOf) -> bool {
        let context = self.folding_context();
        let has_beginning = |path: &Vec<Segment>| match path.last() {
            Some(Segment::Name(name)) => name.first() != Some(&GlobToken::Many),
            _ => false,
        };
        // Each by itself: one of them may be the target of a link.
        let is_made = |path: &Vec<Segment>| {
            has_beginning(path)
                && self.is_listed(&PathOf(vec![path.clone()]).compared(&context), &context)
        };
        path.0.iter().any(is_made) && !self.is_memory(path)
    }

    /// Returns `true` if an own path, or a file of the rules, lies in a folder. For the files of
    /// the rules, the workspace itself does not count: everyday commands work on all of it.
    pub(super) fn has_own_path_in(&self, folder: &PathOf) -> bool {
        let lies_in = |pattern: &PathPattern| {
            pattern.beneath(folder, self.context, false) == Beneath::Possible
        };
        let is_workspace = folder.is_within(self.context) && folder.has_within(self.context);
        self.own.iter().any(lies_in) || !is_workspace && self.sources.iter().any(lies_in)
    }

    fn folding_context(&self) -> PathContext {
        PathContext {
            folds_case: true,
            ..self.context.clone()
        }
    }

    /// Returns `true` if the path, which is folded, may be or lie below a protected one.
    fn is_listed(&self, path: &PathOf, context: &PathContext) -> bool {
        let own = self.own.iter().chain(self.sources).chain(&SKILLS[..1]);
        let mut own = own.map(|pattern| pattern.compared(context));
        matches_any(&PROTECTED_PATTERNS, path, true)
            || own.any(|pattern| matches_any(&[pattern], path, true))
    }

    /// Returns `true` if the predicate is true for a path that `path` may be, other than the
    /// memory. The predicate is given the folded path.
    fn is_any(&self, path: &PathOf, predicate: impl Fn(&PathOf, &PathContext) -> bool) -> bool {
        let context = self.folding_context();
        let is_protected =
            |path: &PathOf| predicate(&path.compared(&context), &context) && !self.is_memory(path);
        is_protected(path)
            && expansions(path, self.context, self.disk)
                .is_none_or(|paths| paths.iter().any(is_protected))
    }

    /// Returns `true` if the path is certainly one of the memory. Links are not followed, for a
    /// link may replace the memory.
    fn is_memory(&self, path: &PathOf) -> bool {
        self.memory.iter().any(|memory_path| {
            let memory_path = in_workspace(memory_path, self.context);
            path.is_exactly(&PathOf::of_text(&memory_path, self.context))
        })
    }
}

/// Returns the path with the workspace as the context writes it, where it is written without links.
fn in_workspace(path: &str, context: &PathContext) -> String {
    let real_suffix = || {
        let workspace = context
            .workspace
            .as_ref()
            .filter(|_| context.follows_links)?;
        let real_workspace = fs::canonicalize(workspace).ok()?;
        let suffix = path.strip_prefix(real_workspace.to_str()?)?;
        suffix
            .starts_with('/')
            .then(|| format!("{workspace}{suffix}"))
    };
    real_suffix().unwrap_or_else(|| path.to_owned())
}

/// Returns the existing files that a path with wildcards in its last name is expanded to: a shell
/// makes no others of it. `None` if the path has no wildcards, or if they cannot be looked up.
fn expansions(path: &PathOf, context: &PathContext, disk: &Disk) -> Option<Vec<PathOf>> {
    let has_wildcards = |path: &Vec<Segment>| !path.iter().all(is_literal);
    if !context.follows_links || !path.0.iter().any(has_wildcards) {
        return None;
    }
    let expand = |path: &Vec<Segment>| {
        let (last, folders) = path.split_last()?;
        if !folders.iter().all(is_literal) {
            return None;
        }
        if is_literal(last) {
            // The target of a link that the wildcards match.
            return Some(vec![PathOf(vec![path.clone()])]);
        }
        // A shell may be set to expand to hidden files.
        let paths = disk.expand(path, true)?.into_iter();
        let no_context = PathContext::default();
        let paths = paths.map(|path| PathOf::of_text(&path, &no_context));
        Some(paths.collect())
    };
    let paths: Option<Vec<_>> = path.0.iter().map(expand).collect();
    Some(paths?.concat())
}
