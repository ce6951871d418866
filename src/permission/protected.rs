//! Paths that decide what runs later: writing them always needs an answer.

use std::sync::LazyLock;

use super::expansions::expansions;
use super::glob::Match;
use super::paths::{PathContext, PathOf, PathPattern};

/// Protected whether they exist or not, in any case of letters, with all beneath them.
const PROTECTED: [&str; 28] = [
    // Settings of git, and what it runs.
    "/**/.git/hooks",
    "/**/.git/config",
    "/**/.git/HEAD",
    "/**/.git/info/attributes",
    "/**/.git/modules/**/hooks",
    "/**/.git/modules/**/config",
    "/**/.git/modules/**/HEAD",
    "/**/.husky",
    // Settings of shells, package managers and editors, which run programs that they name.
    "/**/.envrc",
    "/**/.bashrc",
    "/**/.bash_profile",
    "/**/.profile",
    "/**/.zshrc",
    "/**/.zprofile",
    "/**/.npmrc",
    "/**/.cargo/config",
    "/**/.cargo/config.toml",
    "/**/.vscode",
    "/**/.idea",
    // Settings and instructions of agents.
    "/**/.agentcore/**",
    "/**/.claude",
    "/**/.mcp.json",
    "/**/AGENTS.md",
    "/**/CLAUDE.md",
    "/**/SKILL.md",
    "./skills/*",
    // Replaced as a whole: another repository with its own hooks, and other skills.
    REPOSITORY,
    SKILLS,
];

/// The last entries of [`PROTECTED`], which are protected from being replaced: a word of a command
/// that names them says nothing about what lies beneath.
const REPOSITORY: &str = "/**/.git";
const SKILLS: &str = "./skills";

static PATTERNS: LazyLock<Vec<PathPattern>> = LazyLock::new(|| patterns(&PROTECTED));
