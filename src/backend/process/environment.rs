//! The environment of a command.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables with which a program finds others, its user and its language.
const PASSED_ON: [&str; 10] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR",
];

/// Variables that disable prompts and pagers.
const SET: [(&str, &str); 3] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
];

/// The setting with which git refuses repositories that are no `.git` folder: a checkout may
/// contain one, whose configuration names programs to run.
const SAFE_REPOSITORIES: (&str, &str) = ("safe.bareRepository", "explicit");

/// Returns the environment of a command: harmless variables of this process, then the variables of
/// the maps. If several maps have a name, the last map's variable is used.
///
/// Variables that are not known to be harmless are excluded, keys and tokens among them, and so are
/// variables that make programs run other code (`LD_PRELOAD`, `BASH_ENV`, `GIT_*`, `NODE_OPTIONS`).
pub(in super::super) fn environment(
    own_variables: impl IntoIterator<Item = (OsString, OsString)>,
    given_variables: &[&BTreeMap<String, String>],
) -> BTreeMap<OsString, OsString> {
    let own_variables = own_variables
        .into_iter()
        .filter(|(name, _)| is_passed_on(name));
    let fixed_variables = SET.iter().map(|(name, value)| (name.into(), value.into()));
    let given_variables = given_variables.iter().flat_map(|map| map.iter());
    let mut environment = own_variables
        .chain(fixed_variables)
        .chain(given_variables.map(|(name, value)| (name.into(), value.into())))
        .collect();
    configure_git(&mut environment);
    environment
}

/// Adds [`SAFE_REPOSITORIES`] to the settings of git that the environment has. A count that is no
/// number is left alone: git refuses to run with it.
fn configure_git(environment: &mut BTreeMap<OsString, OsString>) {
    let count = match environment.get(OsStr::new("GIT_CONFIG_COUNT")) {
        Some(count) => count.to_str().and_then(|count| count.parse::<u16>().ok()),
        None => Some(0),
    };
    let Some(count) = count else {
        return;
    };
    let (name, value) = SAFE_REPOSITORIES;
    let variables = [
        (format!("GIT_CONFIG_KEY_{count}"), name.to_owned()),
        (format!("GIT_CONFIG_VALUE_{count}"), value.to_owned()),
        (
            "GIT_CONFIG_COUNT".to_owned(),
            (u32::from(count) + 1).to_string(),
        ),
    ];
    environment.extend(variables.map(|(name, value)| (name.into(), value.into())));
}

fn is_passed_on(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let is_locale = name
        .strip_prefix("LC_")
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_uppercase()));
    is_locale || PASSED_ON.contains(&name)
}
