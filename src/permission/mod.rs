//! Permission rules, which allow or deny tool calls or require a question.
//!
//! [`PermissionRules`] is a [`PermissionGate`](crate::tool::PermissionGate): give it to
//! [`AgentBuilder::permissions`](crate::AgentBuilder::permissions). Every call is decided in this
//! order, and the first step with a decision wins:
//!
//! 1. a **deny** rule: absolute, in every mode; in `bypassPermissions` also a rule that may match.
//!    A call that is too large to be compared with each rule is a question, unless a rule denies
//!    its tool as a whole; in `bypassPermissions` and `dontAsk` it is denied;
//! 2. **plan mode**: a tool that does more than read is denied;
//! 3. a **grant** of this session: the answer "yes, for the session" was given to the same call;
//! 4. an **ask** rule, a protected path, or a command that may hide something denied;
//! 5. an **allow** rule that covers everything the call does;
//! 6. the **mode**.
//!
//! How specific a rule is does not matter, with one exception: a rule to allow that names a command
//! can answer the question of step 4 whether the command hides something denied (see
//! [Rules about files](#rules-about-files)).
//!
//! ```
//! use agentcore::permission::PermissionRules;
//!
//! let permissions = PermissionRules::new()
//!     .allow("Bash(git:*)")?
//!     .allow("Read")?
//!     .deny("Bash(git push:*)")?
//!     .deny("Read(~/.ssh/**)")?;
//!
//! let why = permissions.explain_command("git log -3 && git -C sub push");
//! assert_eq!(why.to_string(), "deny: denied by rule deny:Bash(git push:*)");
//! # Ok::<(), agentcore::Error>(())
//! ```
//!
//! # Commands
//!
//! A shell command is divided into its simple commands. A rule to deny or to ask applies if *any*
//! of them matches. A rule to allow is enough only if *every* one matches a rule and no part of the
//! command is unknown.
//!
//! What everyday commands are made of is listed in a strict grammar: simple commands, pipes and
//! lists; `if`, `for`, `while`, `case`, functions and groups; quotes, `$NAME`, `${NAME}` with the
//! common operators and plain words, `$(..)`, backticks without backslashes, `<(..)`; arithmetic of
//! names, numbers and operators; wildcards, `{a,b}` and `{1..5}`; redirections, here-strings and
//! one here-document at a time with a name as its delimiter; `[ .. ]`, `[[ .. ]]` and arrays of
//! plain words. A command with anything else is *unusual*: bash may read it in another way than the
//! analysis. Examples are nested braces, an empty quote in a word, a pattern of `extglob`, a quote
//! in arithmetic, a comment in a substitution, an input on a descriptor above 2 and `$'\x41'`. No
//! rule to allow covers an unusual command, except that `Bash` and `bypassPermissions` cover it as
//! long as no rule denies or asks about commands or files, and its text has no piece of the name of
//! a protected file.
//!
//! # Programs
//!
//! A table has the safe options and the operands of programs. A program or an option that is not in
//! it is covered by a rule to allow only if the rule spells it out, or if all its words are
//! *plain*: options without a value, or with a number or a switch, and operands that cannot be a
//! program, code, the address of a script, the value of an option or a path with `..`. A command
//! that changes its folder to a protected one is a question if one of its programs may write.
//!
//! *Builders* are the programs that build, test and deploy, such as `cargo`, `npm` and `make`. They
//! run what they find, so a rule covers them only with files and folders of the workspace, or with
//! files, folders and addresses that the rule spells out. A file from elsewhere, such as an address
//! without a scheme, and the coordinates of a plugin are not plain. `./gradlew` and `./mvnw` are
//! builders, and scripts like others if a program of the command may write, or if the command
//! changes its folder.
//!
//! If a rule denies or asks about commands or files, neither `Bash` nor `bypassPermissions` covers
//! a program that is not in the table, because what it starts, reads and writes is not known:
//! a rule to allow has to name it. If all these rules are about commands, such a program is covered
//! when its words are plain and do not contain the denied program's name.
//!
//! # Rules about files
//!
//! Next to a rule to deny or to ask about files, `Bash` and `bypassPermissions` cover only the
//! commands of one list:
//!
//! * Commands whose words name all files that they read and write. The words are compared with the
//!   rule.
//! * Builders, and commands that change the work tree of git. They read the project and write
//!   anywhere in it by purpose, so they are covered only if the rule is about files below `.git/`,
//!   about files that are read, or about files outside the workspace. They are not covered if the
//!   folder that the command changes to, or a word such as `../lib/Cargo.toml`, leads to a project
//!   where these files may lie.
//! * Commands that show what git has stored. They are covered only if the rule is about files
//!   outside the workspace.
//!
//! All other commands are questions, such as `git show` next to `deny:Read(.env)`, and
//! `cargo build` next to `deny:Write(Cargo.toml)`. The list also names files that a command shows
//! or changes though no word names them, such as `package.json` for `npm run` and `~/.m2/` for
//! `mvn`: next to a rule about these, the command is a question.
//!
//! A rule to allow that names a program, such as `Bash(cargo:*)`, answers the question, also next
//! to a rule to deny: `cargo install x` is then allowed next to `deny:Write(~/.cargo/**)`, because
//! no word of it names a file there.
//!
//! # Other machines
//!
//! What `ssh` and `mosh` run on another machine, and `kubectl exec` in a container, is taken to use
//! no file of this machine, so a rule about files does not concern it. A host is this machine if
//! its name does not begin with a letter, contains `:`, `local` or `loopback`, or is the name in
//! `/etc/hostname`. An alias of it in the settings of `ssh` is not known.
//!
//! # Subcommands and operands
//!
//! Next to a rule about a subcommand, such as `git fetch`, another subcommand is covered only if a
//! list has it and states that it does not do the same work: `git status` is covered, `git pull` is
//! not. A rule to allow that names the subcommand covers it.
//!
//! A rule to deny or to ask that has more words than a program, such as `git push origin main` or
//! `rm -rf src`, may apply to each command of the program with the same subcommand: operands and
//! options have many spellings, and a file, a setting or a default may replace them. A word of the
//! rule that is missing from a command proves that the rule does not apply to it, but only for the
//! commands of one table, such as `rm`, `git push`, `npm run` and `make`, and only if each word and
//! each option of the command is known: no option has the letter or the name of the rule's option
//! or includes it, and no operand can mean the rule's operand, as a path, a name, a branch or a
//! kind of resources. A word with an unknown part, such as `$x`, counts as a match for a word of a
//! rule such as `*prune*` if it may be `prune` itself, if it contains `prune`, or if a part of
//! `prune` is right next to the unknown part, as in `--pru$x`.
//!
//! # Texts in input
//!
//! A text that the command itself gives to a program may hold commands or names of files: a
//! here-document, a here-string, and what `echo` and `printf` print before a pipe or in a
//! substitution. The paths in it count like words of the program, except for programs that are
//! known to only print, send or store it, such as `cat`, `tee` and `git commit`. Of a patch, the
//! names in its headers count. Comments do not count, nor do sentences on lines of their own in a
//! program for `python` or `node`.
//!
//! # Words that are not known
//!
//! A part of a word that is only known when the shell runs, such as a variable, may be anything.
//! Only the variable of a loop over known words is known, in the body of the loop, and in the file
//! of a redirection a variable to which the command assigns one text. Writing a file whose name the
//! command itself makes, with a substitution, a builtin or an operator of an expansion, is
//! a question in every mode, because it may be a protected file. Names of existing files that
//! a program lists, numbers, and new files of `mktemp` do not count as made. A variable that the
//! command does not set counts as made in a redirection only.
//!
//! # Links
//!
//! A path named by a tool, or by a word of a shell command, is judged twice if symbolic links lead
//! elsewhere: as it is written, and where it leads at that moment. Files that a search finds are
//! checked in the same way.
//!
//! A folder that is copied with all that is in it may be copied over another one. A link there with
//! the name of a copied file is judged as if the command named it. If the names of the copied files
//! are not known, or if other commands of the line make or change some of them, each link there is
//! judged so. At most 4,096 entries are examined: if there are more, and a link is among those
//! examined, the copy may write any file. Links that one of several copied folders brings are not
//! judged for the files of the next one.
//!
//! A command may put a link where another command of the same line uses it: it may copy, move,
//! unpack or check out a link, or a folder with links. If the source exists and has no links,
//! nothing more is judged. Otherwise each path of the other commands at such a place or below it
//! may lead anywhere, and a rule to deny or to ask about files may be about it. For example,
//! `tar xf a.tar && cat x/key` is a question next to `deny:Read(.env)`; each of the two commands
//! alone is not. Writing at or below the place to which an existing link is moved or copied is a
//! question in every mode, because it may change a protected file. The order of the commands does
//! not matter.
//!
//! # Child runs and unmatched rules
//!
//! The rules of a run also apply in the [child runs](crate::Session::child_of) of its tools, in
//! addition to theirs: a rule to allow must be in both.
//!
//! A rule to deny or to ask whose tool an agent does not have is an error when the agent is built,
//! because it would protect nothing: [`PermissionRules::unmatched`] lists such rules.
//!
//! # What rules cannot do
//!
//! Rules are not a sandbox. They judge the declared accesses of a call; a script file, a build tool
//! or a program's own configuration can do anything once it runs. `cargo test`, `make` and
//! `python3 build.py` run code of the workspace by design, and a rule about another program or a
//! file does not see what that code does.
//!
//! Rules about `WebFetch` govern the requests of tools, and not the words of commands: `curl`
//! reaches the same addresses. `deny:Bash(curl:*)` denies one program, and a sandbox without a
//! network all of them.
//!
//! Commands that run under a sandbox (feature `sandbox`) are also restricted by the kernel, which
//! enforces the rules that deny a file or folder as far as it can:
//! `PermissionRules::kernel_enforcement` lists them.
//!
//! Protected files are recognized by the names in a command. A name that the command makes with
//! the shell is a question. So is a script that it makes, if the command has the name of a
//! protected file anywhere in its text, or if the script is a text of the command that another
//! program, such as `base64 -d`, changes before the shell reads it. With a rule that allows all of
//! `Bash`, or in `bypassPermissions`, a program may still take the name from elsewhere: from a
//! file, its own settings or patterns, an expression in another language (`'.bash' + 'rc'`), or
//! because it installs such a file by purpose (`conda init`).

mod beneath;
mod call_accesses;
mod call_size;
mod command_paths;
mod config;
mod decide;
mod disk;
mod enforcement;
mod explanation;
mod folders;
mod form_words;
mod glob;
mod grants;
mod hidden_effects;
mod host;
mod leads;
mod line_paths;
mod links;
mod matching;
mod open_files;
mod options;
mod parse;
mod path_words;
mod paths;
mod pattern;
mod programs;
mod protected;
mod readable;
mod repository;
mod rule;
mod rule_words;
mod rules_gate;
pub(crate) mod shell;
mod spellings;
mod suggest;
mod tree_copies;
mod unmatched;
mod url;
mod values;
mod walk;
#[cfg(feature = "yaml")]
mod yaml;

pub use config::PermissionConfig;
#[cfg(feature = "sandbox")]
pub use enforcement::RuleEnforcement;
pub use explanation::Explanation;
pub use rule::{Behavior, Rule};
pub use rules_gate::PermissionRules;
#[cfg(feature = "config")]
pub(crate) use unmatched::check_rule;
