//! The messages that join the history in the middle of a run: those of handles and hooks, and
//! corrections of the output.

use std::collections::VecDeque;

use futures::FutureExt;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Role};
use crate::run::SteeredMessage;
use crate::util::sync::lock;

use super::active_run::ActiveRun;

impl ActiveRun {
    /// Adds the messages that handles have sent. One that does not fit is skipped with a warning.
    /// Returns `false` if they wait further, because the run ends before the model is called.
    ///
    /// # Errors
    ///
    /// Returns an error if a message is not stored, or if the model has nothing to answer because
    /// none fits.
    pub(super) async fn add_steering(&mut self, steering: Vec<SteeredMessage>) -> Result<bool> {
        let sizes: Vec<_> = steering.iter().map(SteeredMessage::size).collect();
        self.make_room_for(&sizes).await;

        let mut steering = VecDeque::from(steering);
        // The input of the run may be what exceeds the limit: it is removed, these messages stay.
        let is_ending = self.cx.shared().is_stopped() || self.history.byte_size.is_over_limit();
        let outcome = if is_ending {
            Ok(())
        } else {
            self.add_fitting(&mut steering).await
        };
        let shared = self.cx.shared();
        lock(&shared.control).steering.splice(..0, steering);
        outcome.map(|()| !is_ending)
    }

    /// Adds a message with which the run continues. A run that was stopped meanwhile ends without
    /// it.
    ///
    /// # Errors
    ///
    /// Returns an error if the message does not fit or is not stored.
    pub(super) async fn add_message(&mut self, message: Message) -> Result<()> {
        let message = SteeredMessage::from(message);
        self.make_room_for(&[message.size()]).await;
        if self.cx.shared().is_stopped() {
            return Ok(());
        }
        let mut messages = VecDeque::from([message]);
        self.history.add_inputs(&mut messages).boxed().await
    }

    /// Warns that a message was not stored.
    pub(super) fn warn_of_unstored(&self, error: &Error) {
        self.cx.warn(format!(
            "a message that was sent during the run was not stored: {error}"
        ));
    }

    /// Returns the error for a message of `size` bytes for which a compaction cannot make room.
    pub(super) fn size_error(&self, size: usize) -> Option<Error> {
        let byte_size = &self.history.byte_size;
        let error = byte_size.check_message(size, 0).err()?;
        let may_make_room = self.config.compactor.is_some() && byte_size.needs_summary_for(&[size]);
        (!may_make_room).then_some(error)
    }

    /// Adds the messages that fit. The others must not end the run, whose input may come from
    /// another sender.
    async fn add_fitting(&mut self, messages: &mut VecDeque<SteeredMessage>) -> Result<()> {
        let mut size_error = None;
        while let Err(error) = self.history.add_inputs(messages).await {
            if error.kind() != ErrorKind::RequestTooLarge {
                return Err(error);
            }
            self.warn_of_unstored(&error);
            size_error = Some(error);
        }

        let ends_with_response = self.cx.state(|state| {
            let last = state.messages.as_slice().last();
            last.is_some_and(|message| message.role() == Role::Assistant)
        });
        match size_error {
            Some(error) if ends_with_response => Err(error),
            _ => Ok(()),
        }
    }

    /// Compacts the history if messages of these sizes do not fit and a summary of the messages
    /// from before the run could make room.
    async fn make_room_for(&mut self, sizes: &[usize]) {
        let has_compactor = self.config.compactor.is_some();
        if has_compactor && self.history.byte_size.needs_summary_for(sizes) {
            self.compact().boxed().await;
        }
    }
}
