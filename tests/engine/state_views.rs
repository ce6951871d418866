//! Views of a run's state: the cost of reading it, and the events of changes.

use std::sync::{Arc, Mutex};

use agentcore::hook;
use agentcore::sdk::SystemKind;
use agentcore::testing::ScriptedModel;
use agentcore::{AgentState, FuncTool, SdkMessage, StopDecision, Todo, ToolContext};
use serde_json::json;

use crate::kit::{agent, any_object, warnings, watch};

/// Fills the task list and the files of a state.
fn filled(mut state: AgentState) -> AgentState {
    state.todos = Arc::new(vec![Todo::new("1", "Look")]);
    state.files = Arc::new([("a".into(), "text".into())].into());
    state
}

#[tokio::test]
async fn with_state_for_reading_copies_nothing() {
    let fill = hook::before_agent("fill", |_cx, state| async move { Ok(filled(state)) });
    let look = hook::before_agent("look", |cx, state: AgentState| async move {
        cx.with_state(|view| {
            assert_eq!((view.todos().len(), view.files().len()), (1, 1));
            assert!(std::ptr::eq(view.todos(), &*state.todos));
            assert!(std::ptr::eq(view.files(), &*state.files));
        });

        Ok(state)
    });

    let contexts = Arc::new(Mutex::new(Vec::<ToolContext>::new()));
    let keep = FuncTool::new("keep", "Keeps its context", any_object(), {
        let contexts = contexts.clone();
        move |cx, _args| {
            contexts.lock().unwrap().push(cx);
            async { "ok" }
        }
    });

    let late = hook::before_stop_with("late", contexts, |contexts, cx, _response| async move {
        let ended = contexts.lock().unwrap().pop().unwrap();
        let own = cx.with_state(|view| {
            (
                std::ptr::from_ref(view.todos()) as usize,
                std::ptr::from_ref(view.files()) as usize,
            )
        });

        let later = ended.with_state(|view| {
            (
                std::ptr::from_ref(view.todos()) as usize,
                std::ptr::from_ref(view.files()) as usize,
            )
        });

        assert_eq!(
            own, later,
            "a context whose call has ended reads the same lists"
        );
        Ok(StopDecision::Stop)
    });

    let model = ScriptedModel::new().call("keep", json!({})).say("done");
    let agent = agent(model)
        .tool(keep)
        .hook(fill)
        .hook(look)
        .hook(late)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    let warned = warnings(&messages);
    assert!(warned.is_empty(), "{warned:?}");
}

#[tokio::test]
async fn with_state_for_writing_emits_a_state_change_only_for_changes() {
    let fill = hook::before_agent("fill", |_cx, state| async move { Ok(filled(state)) });
    let write = hook::before_agent("write", |cx, state: AgentState| async move {
        // These writes change nothing.
        cx.with_state(|mut view| *view.todos_mut() = vec![Todo::new("1", "Look")]);
        cx.with_state(|mut view| view.files_mut().insert("a".into(), "text".into()));
        cx.with_state(|view| assert!(std::ptr::eq(view.todos(), &*state.todos)));
        cx.with_state(|mut view| view.files_mut().insert("b".into(), "text".into()));
        assert_eq!(
            state.files.len(),
            1,
            "the argument of the hook is unchanged"
        );
        Ok(state)
    });

    let agent = agent(ScriptedModel::new().say("done"))
        .hook(fill)
        .hook(write)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    output.unwrap();
    // The first change is that of the hook `fill`.
    let expected = [
        (Some(1), vec!["a".to_owned()]),
        (None, vec!["b".to_owned()]),
    ];
    assert_eq!(state_changes(&messages), expected);
}

/// Returns, for each change of the state, the length of the task list and the paths.
fn state_changes(messages: &[SdkMessage]) -> Vec<(Option<usize>, Vec<String>)> {
    let changes = messages.iter().filter_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::StateChanged { todos, files } => {
                let files = files.clone().unwrap_or_default();
                Some((todos.as_ref().map(Vec::len), files))
            }
            _ => None,
        },
        _ => None,
    });
    changes.collect()
}

#[tokio::test]
async fn state_that_hooks_return_is_emitted_once_where_it_differs() {
    let both = hook::before_agent("both", |cx, mut state: AgentState| async move {
        cx.with_state(|mut view| view.files_mut().insert("a".into(), "text".into()));
        state.todos = Arc::new(vec![Todo::new("1", "Look")]);
        Ok(state)
    });
    let same = hook::before_agent("same", |_cx, mut state: AgentState| async move {
        state.todos = Arc::new(state.todos.to_vec());
        Ok(state)
    });
    let done = hook::after_agent("done", |_cx, mut state: AgentState| async move {
        state.todos = Arc::default();
        Ok(state)
    });
    let agent = agent(ScriptedModel::new().say("done"))
        .hooks([both, same, done])
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().state.files.len(), 1);
    let expected = [
        (None, vec!["a".to_owned()]),
        (Some(1), Vec::new()),
        (Some(0), Vec::new()),
    ];
    assert_eq!(state_changes(&messages), expected);
}

#[tokio::test]
async fn state_of_a_hook_is_taken_back_if_a_later_one_fails() {
    let fill = hook::before_agent("fill", |_cx, state| async move { Ok(filled(state)) });
    let fail = hook::before_agent("fail", |_cx, _state| async { Err("broken".into()) });
    let agent = agent(ScriptedModel::new()).hooks([fill, fail]).build();
    let (messages, output) = watch(agent.unwrap().run("Go")).await;
    output.unwrap_err();
    let files = vec!["a".to_owned()];
    let expected = [(Some(1), files.clone()), (Some(0), files)];
    assert_eq!(state_changes(&messages), expected);
}
