//! The permission gate that applies rules.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::agent::Agent;
#[cfg(feature = "sandbox")]
use crate::backend::Sandbox;
use crate::backend::{DeniedPath, PathFilter, Shell};
use crate::error::{Error, ErrorKind, Result};
use crate::message::ToolCall;
use crate::tool::{GateRequest, PermissionGate, PermissionMode, Tool, ToolDecision};
use crate::util::blocking::{LARGE_CALL, blocking};
use crate::util::json::text_len;
use crate::util::path::short_path;

use super::call_accesses::{CallAccess, CallAccesses};
use super::config::PermissionConfig;
use super::decide::Policy;
use super::disk::Disk;
use super::enforcement::denied_path;
#[cfg(feature = "sandbox")]
use super::enforcement::{RuleEnforcement, rule_enforcement};
use super::explanation::Explanation;
use super::grants::Grants;
use super::paths::{PathContext, PathPattern};
use super::protected::ProtectedPaths;
use super::readable::Readable;
use super::rule::{Behavior, Rule};
use super::shell::printable;
use super::suggest::suggest;
use super::unmatched::KnownTools;

/// A call is checked on a thread for blocking work from the size [`LARGE_CALL`] on. With this many
/// rules, half of that size is enough, with twice as many a third, and so on.
const MANY_RULES: usize = 64;

/// Permission rules as a gate. See the [module](super) for the order in which they decide.
///
/// A clone shares the grants of sessions.
///
/// ```
/// use agentcore::permission::PermissionRules;
///
/// let permissions = PermissionRules::new()
///     .workspace("/srv/project")
///     .allow("Bash(cargo test:*)")?
///     .deny("Write(/etc/**)")?;
/// assert_eq!(permissions.explain_command("cargo test --lib").decision.to_string(), "allow");
/// assert_eq!(permissions.explain_command("cargo test; id").decision.to_string(), "ask");
/// assert_eq!(permissions.explain_command("id > /etc/motd").decision.to_string(), "deny");
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct PermissionRules {
    rules: Vec<Rule>,
    context: PathContext,
    protected_paths: Vec<PathPattern>,
    /// The files that the rules were read from.
    source_paths: Vec<PathPattern>,
    /// The error of the first path of [`protect`](Self::protect) that is not valid.
    protect_error: Option<String>,
    mode: Option<PermissionMode>,
    shell: Shell,
    later_tools: Vec<String>,
    grants: Arc<Grants>,
}

impl PermissionRules {
    /// Creates a gate without rules. `~` is the `HOME` of this process.
    pub fn new() -> Self {
        let home = std::env::var("HOME")
            .ok()
            .filter(|home| home.starts_with('/'));
        Self {
            rules: Vec::new(),
            context: PathContext {
                workspace: None,
                home,
                folds_case: cfg!(any(target_vendor = "apple", windows)),
                follows_links: true,
                keeps_parents: false,
            },
            protected_paths: Vec::new(),
            source_paths: Vec::new(),
            protect_error: None,
            mode: None,
            shell: Shell::Bash,
            later_tools: Vec::new(),
            grants: Arc::default(),
        }
    }

    /// Adds a rule.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds a rule to allow, such as `Bash(git:*)`.
    ///
    /// # Errors
    ///
    /// Returns an error if the rule could never match.
    pub fn allow(self, rule: &str) -> Result<Self> {
        Ok(self.rule(Rule::new(Behavior::Allow, rule)?))
    }

    /// Adds a rule to deny.
    ///
    /// # Errors
    ///
    /// Returns an error if the rule could never match.
    pub fn deny(self, rule: &str) -> Result<Self> {
        Ok(self.rule(Rule::new(Behavior::Deny, rule)?))
    }

    /// Adds a rule to ask: the calls that it matches need an answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the rule could never match.
    pub fn ask(self, rule: &str) -> Result<Self> {
        Ok(self.rule(Rule::new(Behavior::Ask, rule)?))
    }

    /// Adds the rules of a configuration, with `source` as their source, and takes over its mode.
    ///
    /// # Errors
    ///
    /// Returns an error if a rule could never match; none is added then.
    pub fn config(mut self, config: &PermissionConfig, source: &str) -> Result<Self> {
        self.rules.extend(config.rules(source)?);
        self.mode = config.mode.or(self.mode);
        Ok(self)
    }

    /// Sets the absolute path of the workspace, where relative paths start. `acceptEdits` accepts
    /// edits inside it.
    pub fn workspace(mut self, path: impl Into<String>) -> Self {
        self.context.workspace = Some(path.into());
        self
    }

    pub(crate) fn workspace_unless_set(self, path: &str) -> Self {
        match self.context.workspace {
            Some(_) => self,
            None => self.workspace(path),
        }
    }

    /// Sets the absolute path of `~`.
    pub fn home(mut self, path: impl Into<String>) -> Self {
        self.context.home = Some(path.into());
        self
    }

    /// Sets whether names that differ only in case are the same file, as on most disks of macOS and
    /// Windows, where this is the default. Rules to deny and to ask then match in any case of
    /// letters, rules to allow only in the case of the rule. Protected paths are always protected
    /// in any case.
    pub fn case_insensitive(mut self, folds: bool) -> Self {
        self.context.folds_case = folds;
        self
    }

    /// Sets whether paths named by tools and by words of commands are looked up on this machine,
    /// and the targets of symbolic links checked as well. Defaults to `true`. The lookup blocks:
    /// turn it off for a workspace on another machine, or on a file system that may be slow.
    ///
    /// The target is checked before the access, so a link that another process replaces in between
    /// is not noticed.
    pub fn follow_links(mut self, follows: bool) -> Self {
        self.context.follows_links = follows;
        self
    }

    /// Sets the mode, which takes precedence over the agent's mode.
    pub fn mode(mut self, mode: PermissionMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Protects files and folders, such as the settings of the program itself: those that a pattern
    /// such as `/srv/app/agents.yaml` matches, with all that is in them. A call that writes them is
    /// a question even if a rule allows it, and even in `bypassPermissions`, unless the same call
    /// was allowed for the session. `dontAsk` and plan mode deny the call. A pattern that is not
    /// valid is an error of [`AgentBuilder::build`](crate::AgentBuilder::build).
    ///
    /// Always protected, in any case of letters, are
    ///
    /// * in each `.git`: `hooks`, `config`, `config.worktree`, `commondir`, `worktrees`, `HEAD`,
    ///   `refs`, `packed-refs`, `info/attributes`, `rebase-merge`, `rebase-apply`, `sequencer`, in
    ///   `modules` the first four and `HEAD`; and `.git` and each module, against being replaced;
    /// * settings of shells, editors and package managers: `.bashrc`, `.bash_profile`,
    ///   `.bash_login`, `.bash_aliases`, `.profile`, `.zshrc`, `.zshenv`, `.zprofile`, `.envrc`,
    ///   `.gitconfig`, `.husky`, `.npmrc`, `.yarnrc.yml`, `.cargo/config`, `.cargo/config.toml`,
    ///   `.vscode`, `.idea`;
    /// * what agents follow: `AGENTS.md`, `CLAUDE.md`, `CLAUDE.local.md`, `SKILL.md`, `skills` in
    ///   the workspace, `.agentcore`, `.claude`, `.cursor`, `.mcp.json`.
    ///
    /// The files that [`MemoryHook::paths`](crate::hooks::MemoryHook::paths) names are not
    /// protected, because they belong to the agent.
    pub fn protect(mut self, path: impl Into<String>) -> Self {
        let path = path.into();
        match PathPattern::new(&path) {
            Ok(pattern) => self.protected_paths.push(pattern),
            Err(why) => {
                let text = format!("{:?} cannot be protected: {why}", short_path(&path));
                self.protect_error.get_or_insert(text);
            }
        }
        self
    }

    /// Protects a file that the rules were read from. Unlike a path of [`protect`](Self::protect),
    /// it makes no question of a command on the whole workspace.
    #[cfg(feature = "config")]
    pub(crate) fn protect_source(mut self, path: &str) -> Self {
        self.source_paths.extend(PathPattern::new(path));
        self
    }

    /// Sets the shell whose syntax [`explain_command`](Self::explain_command) applies. Defaults to
    /// bash. The command of a call is read with the syntax of its tool's shell ([`Tool::shell`]).
    pub fn shell(mut self, shell: Shell) -> Self {
        self.shell = shell;
        self
    }

    /// Adds names of tools that the agent does not have when it is built, such as tools of its
    /// subagents, to which these rules apply as well. A rule to deny or to ask that names neither
    /// them nor a tool of the agent is an error of
    /// [`AgentBuilder::build`](crate::AgentBuilder::build).
    pub fn later_tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.later_tools.extend(names.into_iter().map(Into::into));
        self
    }

    /// Returns the rules, in the order they were added.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Returns the rules that match none of the agent's own tools, none of the tools that its hooks
    /// announce ([`Hook::tools`](crate::Hook::tools)), and none of the
    /// [`later_tools`](Self::later_tools), in the order in which they were added. Rules about what
    /// any tool may do, such as `Bash(..)`, `Read(..)` and `WebFetch(..)`, are never among them.
    ///
    /// [`AgentBuilder::build`](crate::AgentBuilder::build) refuses such rules if they deny or ask.
    /// If a rule has wildcards, or the agent has [sources](crate::tool::ToolSource) of tools, it
    /// refuses the rule only if a tool's name differs from it in the case of letters alone: compare
    /// the other rules with the tools that are added later.
    ///
    /// ```
    /// use agentcore::permission::PermissionRules;
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::{AgentBuilder, FuncTool};
    /// use serde_json::json;
    ///
    /// let pay = FuncTool::new("pay", "Pays", json!({"type": "object"}), |_, _| async { "paid" });
    /// let rules = PermissionRules::new().allow("Pay")?.deny("Read(.env)")?;
    /// let agent = AgentBuilder::new(ScriptedModel::new()).tool(pay).build()?;
    /// let unmatched = rules.unmatched(&agent).into_iter().map(|rule| rule.tool());
    /// assert_eq!(unmatched.collect::<Vec<_>>(), ["Pay"]);
    ///
    /// let rules = PermissionRules::new().deny("Pay")?;
    /// let error = AgentBuilder::new(ScriptedModel::new()).permissions(rules).build().unwrap_err();
    /// assert!(error.to_string().contains("\"deny:Pay\" matches no tool"));
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    pub fn unmatched(&self, agent: &Agent) -> Vec<&Rule> {
        let announced_names: Vec<_> = agent.hooks().iter().flat_map(|hook| hook.tools()).collect();
        let own_names = agent.tools().iter().map(|tool| tool.name());
        let names = own_names.chain(announced_names.iter().map(String::as_str));
        let tools = KnownTools::new(names.chain(self.later_names()), true);
        let is_unmatched = |rule: &&Rule| tools.unmatched_name(rule).is_some();
        self.rules.iter().filter(is_unmatched).collect()
    }

    /// Returns the rules that deny files to commands, each with whether the kernel enforces it
    /// under `sandbox`. The other rules are enforced only by the analysis of commands.
    ///
    /// ```
    /// use agentcore::backend::Sandbox;
    /// use agentcore::permission::PermissionRules;
    ///
    /// let rules = PermissionRules::new().deny("Read(**/*.pem)")?;
    /// let enforcement = rules.kernel_enforcement(&Sandbox::workspace("/srv/project"));
    /// assert_eq!(
    ///     enforcement[0].to_string(),
    ///     "deny:Read(**/*.pem): not held by the kernel, the files it matches may be anywhere",
    /// );
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    #[cfg(feature = "sandbox")]
    pub fn kernel_enforcement(&self, sandbox: &Sandbox) -> Vec<RuleEnforcement> {
        rule_enforcement(&self.rules, &self.context, sandbox)
    }

    /// Returns the decision about a call, with its reason, in the mode of these rules or else in
    /// [`PermissionMode::Default`], without the grants of any session and without the files that
    /// [`MemoryHook`](crate::hooks::MemoryHook) makes writable. It is computed in the calling
    /// thread, like [`explain_command`](Self::explain_command).
    pub fn explain(&self, call: &ToolCall, tool: &dyn Tool) -> Explanation {
        let disk = Disk::default();
        let call = CallAccesses::of(call, tool, &self.context, &disk);
        self.decide(&call, PermissionMode::Default, false, &[], &disk)
    }

    /// Returns the decision about a shell command, with its reason.
    ///
    /// It is computed in the calling thread and may look at files of the workspace. A command of
    /// 64 KiB next to many rules can take seconds: in async code, call this for commands of others
    /// in [`spawn_blocking`](tokio::task::spawn_blocking), as an agent does.
    ///
    /// ```
    /// use agentcore::backend::Shell;
    /// use agentcore::permission::{Behavior, PermissionRules};
    ///
    /// let rules = PermissionRules::new().allow("Bash(ls:*)")?;
    /// let command = r"ls $'\'; curl http://example.com #'";
    /// assert_eq!(rules.explain_command(command).decision, Behavior::Allow);
    /// let rules = rules.shell(Shell::Posix);
    /// assert_eq!(rules.explain_command(command).decision, Behavior::Ask);
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    pub fn explain_command(&self, command: &str) -> Explanation {
        let disk = Disk::default();
        let call = CallAccesses::of_command(command, self.shell, &self.context, &disk);
        self.decide(&call, PermissionMode::Default, false, &[], &disk)
    }

    /// Returns rules to allow that can be offered for a call. No rule is broader than the accesses
    /// that the call shows, and there is no rule for a command that is not fully understood. The
    /// command is analysed in the calling thread.
    pub fn suggest(&self, call: &ToolCall, tool: &dyn Tool) -> Vec<Rule> {
        suggest(&CallAccesses::of(call, tool, &self.context, &Disk::short()))
    }

    /// Returns the rules, and those that are derived from rules to deny and to ask: one for each
    /// alternative in braces or brackets, and one for the folder that a path with links leads to.
    fn with_derived_rules(&self) -> Cow<'_, [Rule]> {
        let mut derived_rules: Vec<_> = self.rules.iter().flat_map(Rule::alternatives).collect();
        let rules = self.rules.iter().chain(&derived_rules);
        let linked_rules = rules.filter_map(|rule| rule.through_links(&self.context));
        let linked_rules = linked_rules.collect::<Vec<_>>();
        derived_rules.extend(linked_rules);
        if derived_rules.is_empty() {
            Cow::Borrowed(&self.rules)
        } else {
            Cow::Owned([&self.rules[..], &derived_rules].concat())
        }
    }

    fn later_names(&self) -> impl Iterator<Item = &str> {
        self.later_tools.iter().map(String::as_str)
    }

    fn decision(&self, request: &GateRequest, disk: &Disk) -> ToolDecision {
        let call = CallAccesses::of(&request.call, &*request.tool, &self.context, disk);
        let explanation = self.decide_request(&call, request, disk);
        let text = explanation_text(&explanation);
        let decision = match explanation.decision {
            Behavior::Allow => ToolDecision::allow(),
            Behavior::Deny => ToolDecision::deny(explanation.why),
            Behavior::Ask if explanation.by_rule => {
                ToolDecision::ask_by_rule(question(&call, &explanation))
            }
            Behavior::Ask => ToolDecision::ask(question(&call, &explanation)),
        };
        // A denial is reported with its explanation: to make it again may take as long as before.
        decision.with_explanation(text)
    }

    /// Returns the outcome of `decide`, unless that may take long.
    fn decide_if_short<T>(
        &self,
        request: &GateRequest,
        decide: impl FnOnce(&Disk) -> T,
    ) -> Option<T> {
        let divisor = 1 + self.rules.len() / MANY_RULES;
        if text_len(&request.call.args) >= LARGE_CALL / divisor {
            return None;
        }
        let disk = Disk::short();
        let outcome = decide(&disk);
        (!disk.is_exhausted()).then_some(outcome)
    }

    fn decide_request(
        &self,
        call: &CallAccesses<'_>,
        request: &GateRequest,
        disk: &Disk,
    ) -> Explanation {
        let is_granted = self.grants.covers(&request.session_id, call);
        self.decide(call, request.mode, is_granted, &request.memory_paths, disk)
    }

    fn decide(
        &self,
        call: &CallAccesses<'_>,
        mode: PermissionMode,
        is_granted: bool,
        memory_paths: &[String],
        disk: &Disk,
    ) -> Explanation {
        let rules = self.with_derived_rules();
        let policy = Policy {
            rules: &rules,
            context: &self.context,
            disk,
            protected_paths: ProtectedPaths {
                own: &self.protected_paths,
                sources: &self.source_paths,
                memory: memory_paths,
                context: &self.context,
                disk,
            },
            mode: self.mode.unwrap_or(mode),
        };
        policy.decide(call, is_granted)
    }
}

impl Default for PermissionRules {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PermissionRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermissionRules")
            .field("rules", &self.rules)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl PermissionGate for PermissionRules {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        if let Some(decision) = self.decide_if_short(request, |disk| self.decision(request, disk)) {
            return Ok(decision);
        }
        let (rules, request) = (self.clone(), request.clone());
        blocking(move || Ok(rules.decision(&request, &Disk::default()))).await
    }

    /// The caller explains a large call on a thread for blocking work, and any other call on the
    /// executor, where an explanation that would take long is omitted. No decision of these rules
    /// is then without one: each has its explanation already (`ToolDecision::with_explanation`).
    fn explain(&self, request: &GateRequest) -> Option<String> {
        let explain = |disk: &Disk| {
            let call = CallAccesses::of(&request.call, &*request.tool, &self.context, disk);
            explanation_text(&self.decide_request(&call, request, disk))
        };
        if text_len(&request.call.args) >= LARGE_CALL {
            return explain(&Disk::default());
        }
        self.decide_if_short(request, explain).flatten()
    }

    fn readable(&self, request: &GateRequest) -> PathFilter {
        let disk = Disk::short();
        let call = CallAccesses::of(&request.call, &*request.tool, &self.context, &disk);
        Readable::of(&self.with_derived_rules(), &self.context, &call)
            .map_or_else(PathFilter::all, Readable::into_filter)
    }

    fn denied_paths(&self, _request: &GateRequest) -> Vec<DeniedPath> {
        self.rules
            .iter()
            .filter_map(|rule| denied_path(rule, &self.context))
            .collect()
    }

    fn check_tools(&self, names: &[&str], has_sources: bool) -> Result<()> {
        if let Some(text) = &self.protect_error {
            return Err(Error::new(ErrorKind::Config, text.as_str()));
        }

        let names = names.iter().copied().chain(self.later_names());
        let tools = KnownTools::new(names, has_sources);
        self.rules
            .iter()
            .filter(|rule| rule.behavior() != Behavior::Allow)
            .try_for_each(|rule| tools.check(rule))
    }

    async fn grant(&self, request: &GateRequest) -> Result<()> {
        let disk = Disk::short();
        let call = CallAccesses::of(&request.call, &*request.tool, &self.context, &disk);
        self.grants.add(&request.session_id, &call);
        Ok(())
    }

    fn forget(&self, session_id: &str) {
        self.grants.forget(session_id);
    }
}

/// Returns the explanation of a decision that does not allow a call.
fn explanation_text(explanation: &Explanation) -> Option<String> {
    (explanation.decision != Behavior::Allow).then(|| explanation.to_string())
}

/// Returns the question for a person: the call's action, invisible characters shown, and the reason
/// for asking.
fn question(call: &CallAccesses<'_>, explanation: &Explanation) -> String {
    let action = call.accesses.first().map(|access| match access {
        CallAccess::Command(command) => format!("run `{}`", printable(&command.text)),
        CallAccess::Read(path) => format!("read {}", printable(path)),
        // The tool declares no accesses: it may delete or send what its argument names.
        CallAccess::Write(path) if call.is_guessed => format!("use {}", printable(path)),
        CallAccess::Url(url) if call.is_guessed => format!("use {}", printable(url)),
        CallAccess::Write(path) => format!("write {}", printable(path)),
        CallAccess::Url(url) => format!("fetch {}", printable(url)),
        CallAccess::Agent(name) => format!("start agent {}", printable(name)),
    });

    let reason = match &explanation.source {
        Some(source) => format!("{} ({source})", explanation.why),
        None => explanation.why.clone(),
    };

    match action {
        Some(action) => format!("{} wants to {action}: {reason}", call.tool),
        None => format!("{}: {reason}", call.tool),
    }
}
