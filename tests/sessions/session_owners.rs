//! Sessions of several users in one store.

use agentcore::testing::FunctionModel;
use agentcore::{Agent, ErrorKind, ModelEvent};

use crate::kit::agent;

async fn agent_with_a_session_of_ann() -> Agent {
    let model = FunctionModel::new(|_| vec![Ok(ModelEvent::Text("1".to_owned()))]);
    let agent = agent(model).build().unwrap();
    let session = agent.session("th_1").owned_by("ann");
    session.run("My secret is 42").await.unwrap();
    agent
}

#[tokio::test]
async fn session_of_another_user_does_not_exist() {
    let agent = agent_with_a_session_of_ann().await;
    let of_bob = || agent.session("th_1").owned_by("bob");
    let run = of_bob().run("What is the secret?").await.unwrap_err();
    assert_eq!(run.kind(), ErrorKind::SessionNotFound);
    assert!(of_bob().state().await.unwrap().is_none());
    assert!(of_bob().pending().await.unwrap().is_empty());
    assert!(!of_bob().delete().await.unwrap());
    for error in [
        of_bob().set_title("Mine").await.unwrap_err(),
        of_bob().fork("th_2").await.unwrap_err(),
        of_bob().fork_at("th_2", 1).await.unwrap_err(),
        of_bob().compact().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::SessionNotFound);
    }

    let state = agent.session("th_1").state().await.unwrap().unwrap();
    assert_eq!(state.user_id.as_deref(), Some("ann"));
    assert_eq!((state.messages.len(), state.title), (2, None));
}

#[tokio::test]
async fn session_of_another_user_does_not_exist_while_it_is_leased() {
    let agent = agent_with_a_session_of_ann().await;
    let lease = agent.store().lease("th_1").await.unwrap();
    let of_bob = || agent.session("th_1").owned_by("bob");
    for error in [
        of_bob().run("What is the secret?").await.unwrap_err(),
        of_bob().set_title("Mine").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::SessionNotFound);
    }
    assert!(!of_bob().delete().await.unwrap());
    let of_ann = agent.session("th_1").owned_by("ann");
    let error = of_ann.run("Go on").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionBusy);
    drop(lease);
}

#[tokio::test]
async fn owner_and_handle_without_a_user_continue_the_session() {
    let agent = agent_with_a_session_of_ann().await;
    agent.session("th_1").run("Go on").await.unwrap();
    let of_ann = agent.session("th_1").owned_by("ann");
    of_ann.clone().run("And on").await.unwrap();
    assert_eq!(of_ann.state().await.unwrap().unwrap().messages.len(), 6);

    let copy = of_ann.fork("th_2").await.unwrap();
    assert_eq!(
        copy.state().await.unwrap().unwrap().user_id.as_deref(),
        Some("ann")
    );
    assert!(of_ann.delete().await.unwrap());
}

/// A group chat has such sessions.
#[tokio::test]
async fn session_that_is_not_owned_has_the_user_of_its_last_run() {
    let agent = agent_with_a_session_of_ann().await;
    let of_bob = agent.session("th_1").user_id("bob");
    of_bob.run("Hi").await.unwrap();
    let state = agent.session("th_1").state().await.unwrap().unwrap();
    assert_eq!(state.user_id.as_deref(), Some("bob"));
}
