//! The steps of a turn before its model call.

use crate::error::Result;
use crate::model::{ModelRequest, Stability};

use super::active_run::Driver;

impl Driver {
    /// The turn's request. `anew` unless it takes the place of an answer that was dropped.
    pub(super) async fn prepare(&mut self, anew: bool) -> Result<ModelRequest> {
        let config = self.config.clone();
        self.cx.set_turn(self.cx.turn() + 1);
        if anew {
            self.cx.reset_attempts();
        }
        self.tools.refresh(&config, &self.cx).await?;
        self.compact_if_due().await;
        self.nudge();
        let output = self.output.as_ref();
        self.requests.build(&config, &self.cx, output).await
    }

    /// Near the turn limit, adds a note to the model about the turns that are left.
    fn nudge(&self) {
        let config = &*self.config;
        let max_turns = config.limits.max_turns;
        if !config.request.wrap_up || max_turns == 0 {
            return;
        }
        let left = (max_turns - self.cx.turn()).saturating_add(1);
        if left <= 2 {
            let text = format!(
                "Turns left, this one included: {left}. Wrap up: finish what matters most and \
                 give your answer with what you have."
            );
            self.cx
                .system()
                .section("wrap-up", text, Stability::Volatile);
        }
    }
}
