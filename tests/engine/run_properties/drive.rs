//! The reader of a run, which polls it by hand.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use agentcore::{Answer, Message, Responder, Run, RunHandle, SdkMessage};
use futures::StreamExt;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::plan::{Plan, Reply};

/// An event that interferes with a run after a number of polls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    Drop,
    Interrupt,
    Abort,
    Steer,
    Compact,
}

/// A reader of a run that counts its polls and answers its questions.
pub struct Reader {
    pub run: Run,
    pub handle: RunHandle,
    responder: Option<Responder>,
    replies: Vec<Reply>,
    pub polls: usize,
    pub messages: Vec<SdkMessage>,
}

impl Reader {
    pub fn new(run: Run, plan: &Plan) -> Self {
        let mut replies = plan.replies.clone().unwrap_or_default();
        replies.reverse();
        Self {
            handle: run.handle(),
            responder: plan.replies.is_some().then(|| run.responder()),
            run,
            replies,
            polls: 0,
            messages: Vec::new(),
        }
    }

    /// Polls until the stream has ended or there were `limit` polls in all. Returns whether it has
    /// ended, and an error if nothing wakes the run any more.
    pub async fn read(&mut self, limit: usize) -> Result<bool, String> {
        let reading = poll_fn(|cx| {
            loop {
                if self.polls == limit {
                    return Poll::Ready(false);
                }

                self.polls += 1;
                match self.run.poll_next_unpin(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => return Poll::Ready(true),
                    Poll::Ready(Some(message)) => {
                        if let SdkMessage::PermissionRequest(request) = &message {
                            self.responder =
                                answer(self.responder.take(), &request.id, self.replies.pop());
                        }

                        self.messages.push(message);
                    }
                }
            }
        });

        timeout(Duration::from_secs(1_000_000), reading)
            .await
            .map_err(|_| "the run waits for ever".to_owned())
    }

    /// Applies `ending` to the run.
    pub fn act(&self, ending: Ending) {
        match ending {
            Ending::Drop => {}
            Ending::Interrupt => self.handle.interrupt(),
            Ending::Abort => self.handle.abort(),
            Ending::Compact => self.handle.compact(),
            Ending::Steer => {
                self.handle.steer("and this");
                self.handle.steer(Message::human(" "));
                self.handle.steer(Message::ai("not mine"));
                self.handle
                    .steer(Message::tool("x", "par", "not asked for"));
            }
        }
    }
}

/// Answers a question. Without a reply, the responder is dropped.
fn answer(responder: Option<Responder>, id: &str, reply: Option<Reply>) -> Option<Responder> {
    let responder = responder?;
    let answer = match reply? {
        Reply::Allow => Answer::Allow,
        Reply::AllowForSession => Answer::AllowForSession,
        Reply::Edit => Answer::Edit(json!({"edited": true})),
        Reply::Deny => Answer::Deny("no".into()),
        Reply::Leave => return None,
    };
    responder.respond(id, answer);
    Some(responder)
}

/// Runs a future, and returns its output and its time on the paused clock.
pub async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let output = future.await;
    (output, start.elapsed())
}
