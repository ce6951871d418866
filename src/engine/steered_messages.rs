//! The messages that join the history in the middle of a run: those of handles and hooks, and
//! corrections of the output.

use std::collections::VecDeque;

use futures::FutureExt;

use crate::error::Result;
use crate::message::Message;
use crate::run::SteeredMessage;
use crate::util::sync::lock;

use super::active_run::ActiveRun;

impl ActiveRun {
    /// Adds the messages that handles have sent. Returns `false` if they wait further, because the
    /// run ends before the model is called.
    ///
    /// # Errors
    ///
    /// Returns an error for the first message that does not fit or is not stored. The messages
    /// after it wait for the end of the run.
    pub(super) async fn add_steering(&mut self, steering: Vec<SteeredMessage>) -> Result<bool> {
        let size = steering
            .iter()
            .map(SteeredMessage::size)
            .fold(0, usize::saturating_add);
        self.make_room_for(size).await;

        let mut steering = VecDeque::from(steering);
        // The input of the run may be what exceeds the limit: it is removed, these messages stay.
        let is_ending = self.cx.shared().is_stopped() || self.history.byte_size.is_over_limit();
        let outcome = if is_ending {
            Ok(())
        } else {
            self.history.add_inputs(&mut steering).await
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
        self.make_room_for(message.size()).await;
        if self.cx.shared().is_stopped() {
            return Ok(());
        }
        let mut messages = VecDeque::from([message]);
        self.history.add_inputs(&mut messages).boxed().await
    }

    /// Compacts the history if messages of `size` bytes do not fit and a summary of the messages
    /// from before the run could make room.
    async fn make_room_for(&mut self, size: usize) {
        let has_compactor = self.config.compactor.is_some();
        if has_compactor && self.history.byte_size.needs_summary_for(size) {
            self.compact().boxed().await;
        }
    }
}
