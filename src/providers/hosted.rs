//! The tools of a request that the provider runs itself.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::error::Result;
use crate::model::HostedTool;

use super::json::write;

/// Returns the encoded list of tools with the hosted tools of `provider` appended, and a warning
/// about hosted tools of other providers, which are omitted. Without a provider, all hosted tools
/// are omitted. Without any tool, the list is empty text, like `tools`.
pub(super) fn with_hosted<'a>(
    tools: &'a [u8],
    hosted: &[HostedTool],
    provider: Option<&str>,
) -> Result<(Cow<'a, [u8]>, Option<String>)> {
    let warning = left_out_warning(hosted, provider);
    let mut own = hosted
        .iter()
        .filter(|tool| Some(&*tool.provider) == provider)
        .peekable();
    if own.peek().is_none() {
        return Ok((Cow::Borrowed(tools), warning));
    }

    let mut list = tools.strip_suffix(b"]").unwrap_or(b"[").to_vec();
    for tool in own {
        if list.len() > 1 {
            list.push(b',');
        }

        write(&mut list, &tool.raw)?;
    }

    list.push(b']');
    Ok((list.into(), warning))
}

/// Returns the warning about tools of providers other than `own`; `None` if there are none.
pub(super) fn left_out_warning(hosted: &[HostedTool], own: Option<&str>) -> Option<String> {
    let providers: BTreeSet<_> = hosted.iter().map(|tool| &*tool.provider).collect();
    let mut others: Vec<_> = providers.into_iter().collect();
    others.retain(|other| Some(*other) != own);
    let names = others.join(", ");
    (!others.is_empty())
        .then(|| format!("tools that this API does not run were left out of the request ({names})"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn joined(tools: &str, providers: &[&str]) -> (String, Option<String>) {
        let hosted: Vec<_> = providers
            .iter()
            .map(|provider| HostedTool::new(*provider, json!({"type": "search"})))
            .collect();
        let (list, warning) = with_hosted(tools.as_bytes(), &hosted, Some("gemini")).unwrap();
        (String::from_utf8(list.into_owned()).unwrap(), warning)
    }

    #[test]
    fn own_tools_stand_behind_the_others() {
        let search = r#"{"type":"search"}"#;
        let cases = [
            ("", &[][..], String::new()),
            (r#"[{"a":1}]"#, &[], r#"[{"a":1}]"#.to_owned()),
            ("", &["gemini"], format!("[{search}]")),
            (
                "[1]",
                &["gemini", "gemini"],
                format!("[1,{search},{search}]"),
            ),
        ];
        for (tools, hosted, expected) in cases {
            assert_eq!(joined(tools, hosted), (expected, None));
        }
    }

    #[test]
    fn tools_of_other_providers_are_left_out_with_a_warning() {
        let (list, warning) = joined("[1]", &["openai-responses", "anthropic", "anthropic"]);
        assert_eq!(list, "[1]");
        let warning = warning.unwrap();
        assert!(
            warning.contains("(anthropic, openai-responses)"),
            "{warning}"
        );
    }
}
