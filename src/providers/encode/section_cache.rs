//! The encoded system prompt and tools of the last request.

use std::mem;
use std::sync::Arc;

use crate::error::Result;
use crate::message::{Message, shared_prefix};
use crate::model::{ModelRequest, SystemPrompt, ToolDefinition};

use super::wire::{Sections, Wire};

/// The encoded system prompt and tools, which are encoded again only after they have changed.
#[derive(Clone, Default)]
pub(super) struct SectionCache {
    system: Option<SystemBytes>,
    tools: Option<(Arc<[ToolDefinition]>, Vec<u8>)>,
    /// True if the bytes have changed since [`take_changes`](Self::take_changes).
    has_changes: bool,
}

#[derive(Clone)]
struct SystemBytes {
    system: SystemPrompt,
    lifted: Vec<Arc<Message>>,
    bytes: Vec<u8>,
}

impl SectionCache {
    /// Returns the sections of `request`, whose system prompt includes the messages in `lifted`.
    pub(super) fn update<W: Wire>(
        &mut self,
        wire: &W,
        request: &ModelRequest,
        lifted: &[Arc<Message>],
    ) -> Result<Sections<'_>> {
        self.update_system(wire, &request.system, lifted)?;
        self.update_tools(wire, &request.tools)?;
        Ok(Sections {
            system: self.system.as_ref().map_or(&[], |system| &system.bytes),
            tools: self.tools.as_ref().map_or(&[], |(_, bytes)| bytes),
        })
    }

    /// Returns `true` if the sections have changed since the last call.
    pub(super) fn take_changes(&mut self) -> bool {
        mem::take(&mut self.has_changes)
    }

    fn update_system<W: Wire>(
        &mut self,
        wire: &W,
        system: &SystemPrompt,
        lifted: &[Arc<Message>],
    ) -> Result<()> {
        if let Some(former) = &self.system
            && former.system.ptr_eq(system)
            && former.lifted.len() == lifted.len()
            && shared_prefix(&former.lifted, lifted) == lifted.len()
        {
            return Ok(());
        }

        let mut bytes = Vec::new();
        wire.system(system, lifted, &mut bytes)?;
        let former = self.system.as_ref().map_or(&[][..], |former| &former.bytes);
        self.has_changes |= former != bytes;
        self.system = Some(SystemBytes {
            system: system.clone(),
            lifted: lifted.to_vec(),
            bytes,
        });
        Ok(())
    }

    fn update_tools<W: Wire>(&mut self, wire: &W, tools: &Arc<[ToolDefinition]>) -> Result<()> {
        if let Some((former, _)) = &self.tools
            && Arc::ptr_eq(former, tools)
        {
            return Ok(());
        }

        let mut bytes = Vec::new();
        if !tools.is_empty() {
            wire.tools(tools, &mut bytes)?;
        }
        let former = self.tools.as_ref().map_or(&[][..], |(_, former)| former);
        self.has_changes |= former != bytes;
        self.tools = Some((tools.clone(), bytes));
        Ok(())
    }
}
