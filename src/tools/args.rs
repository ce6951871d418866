//! The arguments of a call.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use crate::backend::Backend;
use crate::error::BoxError;
use crate::tool::{Access, ToolContext, ToolError};

/// What a call was given. That it fits the schema has been checked, except by those who execute
/// a tool by hand.
pub(super) struct Args(Value);

impl Args {
    /// The text of that name; of the first of several that is there.
    pub(super) fn text(&self, names: &[&str]) -> Result<&str, BoxError> {
        let required = || ToolError::new(format!("{} is required", names[0]));
        Ok(text_of(&self.0, names).ok_or_else(required)?)
    }

    /// The text of that name, if there is one that is not empty.
    pub(super) fn some_text(&self, names: &[&str]) -> Option<&str> {
        text_of(&self.0, names).filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let value = self.0.get(name)?;
        let whole = |float: f64| (float >= 0.0 && float.fract() == 0.0).then_some(float as u64);
        value.as_u64().or_else(|| value.as_f64().and_then(whole))
    }

    pub(super) fn count(&self, name: &str) -> Option<usize> {
        let number = self.number(name)?;
        Some(usize::try_from(number).unwrap_or(usize::MAX))
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }
}

fn text_of<'a>(args: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| args.get(name)?.as_str())
}

/// The body of a tool, over a backend.
pub(super) fn over<F, Fut>(
    backend: impl Backend,
    f: F,
) -> impl Fn(ToolContext, Value) -> Fut + Send + Sync + 'static
where
    F: Fn(Arc<dyn Backend>, Args) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
{
    let backend: Arc<dyn Backend> = Arc::new(backend);
    move |_cx, args| f(backend.clone(), Args(args))
}

/// The names of a file's path.
pub(super) const PATH: [&str; 2] = ["file_path", "path"];

pub(super) fn reads(args: &Value) -> Vec<Access> {
    let path = text_of(args, &PATH).filter(|path| !path.is_empty());
    vec![Access::Read(path.unwrap_or(".").into())]
}

pub(super) fn writes(args: &Value) -> Vec<Access> {
    let path = text_of(args, &PATH);
    path.map(|path| Access::Write(path.into()))
        .into_iter()
        .collect()
}

/// What replacing text does: it also shows what was there.
pub(super) fn edits(args: &Value) -> Vec<Access> {
    let mut accesses = writes(args);
    accesses.extend(text_of(args, &PATH).map(|path| Access::Read(path.into())));
    accesses
}

pub(super) fn runs(args: &Value) -> Vec<Access> {
    let command = text_of(args, &["command"]);
    let command = command.map(|command| Access::Command(command.into()));
    command.into_iter().collect()
}
