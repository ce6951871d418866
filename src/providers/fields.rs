//! The fields of a request body, in order, with the caller's own last.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Result;

use super::json::write;

/// Writes a JSON object. A field that is also in the caller's `extra` is omitted and written at the
/// end with the caller's value; `null` in `extra` removes it.
pub(super) struct BodyFields<'a> {
    out: Vec<u8>,
    extra: &'a Map<String, Value>,
}

impl<'a> BodyFields<'a> {
    pub(super) fn new(extra: &'a Map<String, Value>, capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.push(b'{');
        Self { out, extra }
    }

    /// Writes a field whose value is JSON already.
    pub(super) fn raw(&mut self, name: &str, value: &[u8]) -> Result<()> {
        if !self.extra.contains_key(name) {
            self.name(name)?;
            self.out.extend_from_slice(value);
        }
        Ok(())
    }

    /// Writes a field.
    pub(super) fn put<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        if !self.extra.contains_key(name) {
            self.name(name)?;
            write(&mut self.out, value)?;
        }
        Ok(())
    }

    /// Writes a field, or nothing if there is no value.
    pub(super) fn option<T: Serialize>(&mut self, name: &str, value: Option<T>) -> Result<()> {
        match value {
            Some(value) => self.put(name, &value),
            None => Ok(()),
        }
    }

    /// Writes the tools, as JSON, and the choice among them, in the fields of OpenAI's APIs. Writes
    /// nothing without tools.
    pub(super) fn openai_tools(
        &mut self,
        tools: &[u8],
        choice: Option<Value>,
        are_parallel: Option<bool>,
    ) -> Result<()> {
        if tools.is_empty() {
            return Ok(());
        }
        self.raw("tools", tools)?;
        self.option("tool_choice", choice)?;
        self.option("parallel_tool_calls", are_parallel)
    }

    /// Adds the caller's fields and returns the object without its closing brace.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        let extra = self.extra;
        for (name, value) in extra.iter().filter(|(_, value)| !value.is_null()) {
            self.name(name)?;
            write(&mut self.out, value)?;
        }
        Ok(self.out)
    }

    fn name(&mut self, name: &str) -> Result<()> {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        write(&mut self.out, name)?;
        self.out.push(b':');
        Ok(())
    }
}
