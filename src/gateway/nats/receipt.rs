//! The receipt of a message of the bus.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::jetstream::message::Acker;
use async_trait::async_trait;

use crate::error::Result;

use super::super::bus::Receipt;
use super::failure::failed;
use super::source::SourceState;

/// The maximum delay of a returned message: a year.
const MAX_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The position of a message in its stream.
#[derive(Clone)]
pub(super) struct StreamPosition {
    /// The subject.
    pub(super) subject: Arc<str>,
    /// The sequence number.
    pub(super) number: u64,
}

/// The receipt of a message, which owns the right to acknowledge it.
pub(super) struct NatsReceipt {
    state: Arc<SourceState>,
    position: StreamPosition,
    /// The size of the message, in bytes.
    size: usize,
    /// `None` once the message was acknowledged or given back.
    acker: Option<Acker>,
}

impl NatsReceipt {
    /// Creates the receipt of a message that is in progress from now on.
    pub(super) fn begin(
        state: &Arc<SourceState>,
        position: StreamPosition,
        size: usize,
        acker: Acker,
    ) -> Self {
        state.begin(&position, size);
        Self {
            state: state.clone(),
            position,
            size,
            acker: Some(acker),
        }
    }
}

#[async_trait]
impl Receipt for NatsReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        if let Some(acker) = &self.acker {
            // Confirmed by the server: the next message of the session may be delivered then.
            let ack = acker.double_ack().await;
            ack.map_err(|error| failed("the acknowledgement of a message", error))?;
        }
        self.acker = None;
        self.state.end(&self.position);
        Ok(())
    }

    async fn give_back(mut self: Box<Self>, delay: Duration) -> Result<()> {
        if let Some(acker) = &self.acker {
            self.state.give_back(&self.position);
            let delay = (!delay.is_zero()).then(|| delay.min(MAX_DELAY));
            let outcome = acker.ack_with(AckKind::Nak(delay)).await;
            outcome.map_err(|error| failed("giving back a message", error))?;
        }
        self.acker = None;
        Ok(())
    }

    async fn keep_alive(&self) -> Result<()> {
        match &self.acker {
            Some(acker) => {
                let outcome = acker.ack_with(AckKind::Progress).await;
                outcome.map_err(|error| failed("the report about a message", error))
            }
            None => Ok(()),
        }
    }
}

impl Drop for NatsReceipt {
    fn drop(&mut self) {
        if let Some(acker) = self.acker.take() {
            self.state.give_back(&self.position);
            self.state.give_back_later(acker);
        }
        self.state.release(self.size);
    }
}
