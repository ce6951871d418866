//! A confirmer that answers permission questions through an interactor.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Error;
use crate::sdk::PermissionRequest;
use crate::tool::{Answer, Asking, Confirmer};

use super::interactor::{Choice, ChoiceOption, Interactor};

const YES: usize = 0;
const ALWAYS: usize = 1;

fn unanswered(error: &Error) -> Answer {
    tracing::info!("a question was not answered: {error}");
    Answer::Unanswered
}

/// Answers the permission questions of a run through an [`Interactor`]: yes, yes for the rest of
/// the session, no, or no with a reason that the model reads. A tool that expects a text receives
/// one.
///
/// If there is no person to ask, the question is passed to the run's
/// [`Responder`](crate::Responder); without one, the call is denied or becomes pending.
///
/// ```
/// use agentcore::testing::{ScriptedInteractor, ScriptedModel};
/// use agentcore::tools::ask::{Chosen, InteractorConfirmer};
/// use agentcore::permission::PermissionRules;
/// use agentcore::{AgentBuilder, FuncTool};
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let deploy = FuncTool::new("deploy", "Deploys", json!({"type": "object"}), |_cx, _args| async {
///     "deployed"
/// });
/// let somebody = ScriptedInteractor::new().choose(Chosen::text("not on a Friday"));
/// let model = ScriptedModel::new()
///     .call("deploy", json!({}))
///     .expect(|request| assert!(request.messages.last_content().contains("not on a Friday")))
///     .say("I wait until Monday.");
/// let agent = AgentBuilder::new(model)
///     .tool(deploy)
///     .permissions(PermissionRules::new())
///     .confirmer(InteractorConfirmer::new(somebody))
///     .build()?;
/// assert_eq!(agent.run("Deploy").await?.text, "I wait until Monday.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct InteractorConfirmer(Arc<dyn Interactor>);

impl InteractorConfirmer {
    /// Creates a confirmer that asks through `interactor`.
    pub fn new(interactor: impl Interactor) -> Self {
        Self(Arc::new(interactor))
    }
}

#[async_trait]
impl Confirmer for InteractorConfirmer {
    async fn confirm(&self, request: &PermissionRequest, asking: &Asking) -> Answer {
        if let Some(choice) = Choice::of_request(request) {
            return match self.0.choose(asking, &choice).await {
                Ok(chosen) => chosen.into(),
                Err(error) => unanswered(&error),
            };
        }
        if request.expects_text {
            return match self.0.ask(asking, &request.question).await {
                Ok(text) => Answer::reply(text),
                Err(error) => unanswered(&error),
            };
        }

        let choice = Choice::new(request.question.as_str())
            .option(ChoiceOption::new("Yes"))
            .option(ChoiceOption::new("Always in this session"))
            .option(ChoiceOption::new("No"))
            .or_text("why not");
        let selection = self.0.choose(asking, &choice).await;
        let selection =
            selection.and_then(|selection| choice.check(&selection).map(|()| selection));
        match selection {
            Err(error) => unanswered(&error),
            Ok(selection) => match (selection.text, selection.picked.first()) {
                (Some(reason), _) => Answer::Deny(format!("the user denied this call: {reason}")),
                (None, Some(&YES)) => Answer::Allow,
                (None, Some(&ALWAYS)) => Answer::AllowForSession,
                _ => Answer::Deny("the user denied this call".to_owned()),
            },
        }
    }
}
