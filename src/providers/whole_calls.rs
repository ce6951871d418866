//! Tool calls that arrive in one piece.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{ProviderBlock, ToolCall};
use crate::model::ModelEvent;

use super::calls::CallIds;
use super::encode::EncodedCalls;
use super::events::Events;

/// The calls of a response whose server sends each call in one piece.
pub(super) struct WholeCalls {
    ids: CallIds,
    count: usize,
}

impl WholeCalls {
    /// Creates an empty list. The ids of `encoded_calls` are not used again.
    pub(super) fn new(encoded_calls: EncodedCalls) -> Self {
        Self {
            ids: CallIds::new(encoded_calls),
            count: 0,
        }
    }

    /// Sets the provider's id of the response, which is part of generated ids.
    pub(super) fn set_response(&mut self, id: &str) {
        self.ids.set_response(id);
    }

    /// Returns the number of calls so far.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Emits a call. `id` may be empty.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`] if a limit is exceeded, and [`ErrorKind::Protocol`]
    /// if a call has no name.
    pub(super) fn push(
        &mut self,
        id: &str,
        name: &str,
        args: Cow<'_, str>,
        extra: Option<ProviderBlock>,
        out: &mut Events,
    ) -> Result<()> {
        if name.is_empty() {
            let text = format!("the tool call {} has no name", self.count);
            return Err(Error::new(ErrorKind::Protocol, text));
        }

        out.collect_call(id, name)?;
        out.collect_bytes(args.len())?;
        out.collect_values(&args)?;
        let index = self.count as u32;
        let id = self.ids.assign(id, self.count);
        let name: Arc<str> = name.into();
        self.count += 1;
        if !out.joins() {
            out.push(ModelEvent::ToolCallStart {
                index,
                id: id.clone(),
                name: name.clone(),
            });
            out.push(ModelEvent::ToolCallDelta {
                index,
                json: args.clone().into_owned(),
            });
        }

        let mut call = ToolCall::from_raw(id, name, args);
        call.extra = extra.map(Arc::new);
        out.push(ModelEvent::ToolCall(call));
        Ok(())
    }
}
