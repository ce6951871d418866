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

/// The environment of a command: harmless variables of this process's own, then those of the
/// maps, the later ones winning.
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
    own_variables
        .chain(fixed_variables)
        .chain(given_variables.map(|(name, value)| (name.into(), value.into())))
        .collect()
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
