//! Turns of a gateway, from a message to its reply.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentcore::gateway::{
    DEFAULT_RESPONSE, Delivery, Gateway, InProcessBus, InboundMessage, MessageBus, OutboundMessage,
    ProcessOptions,
};
use agentcore::message::{Media, Part};
use agentcore::prompt::Conversation;
use agentcore::testing::{FunctionModel, ScriptedModel, Step};
use agentcore::{
    AgentBuilder, Error, ErrorKind, FuncTool, Secret, SessionStore, ThreadStore, ToolContext,
    ToolOutput, ToolRegistry,
};
use serde_json::json;

use crate::kit::any_object;
use crate::kit::keys::{Logged, assert_no_leak, listen};

use super::{gateway_of, golden, read, read_none, read_text, run_with, write, write_as};

#[tokio::test(start_paused = true)]
async fn message_is_answered_in_its_session_with_the_id_of_the_input() {
    let store = ThreadStore::new();
    let model = ScriptedModel::new().say("Hello.").say("Fine.");
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(model.clone()).store(store.clone());
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    run_with(&gateway, async {
        write(&bus, "tg:7", "Hi").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.chat_id), ("tg:7:reply", "1"));
        assert_eq!(&*reply.content, "Hello.");
        write(&bus, "tg:8", "How are you?").await;
        assert_eq!(read_text(&bus).await, "Fine.");
    })
    .await;
    let state = store.get("tg:1").unwrap();
    assert_eq!(state.messages.len(), 4);
    assert_eq!(state.user_id.as_deref(), Some("u1"));
    assert_eq!(gateway.active_sessions(), 0);
    model.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn media_become_parts_of_the_input() {
    let (builder, bus) = gateway_of(
        ScriptedModel::new()
            .expect(|request| {
                let content = request.messages.last().unwrap().content();
                assert!(
                    matches!(content.parts(), [Part::Text(text), Part::Image(_)] if text == "Look")
                );
            })
            .say("A cat."),
    );
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        let image = Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
        let message = InboundMessage::new("tg", "1", "u1", "Look").with_media(image);
        bus.publish_inbound(message).await.unwrap();
        assert_eq!(read_text(&bus).await, "A cat.");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn message_that_is_delivered_twice_causes_one_model_call_and_one_reply() {
    let model = ScriptedModel::new().say("Once.").say("Another.");
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(model.clone()).store(store.clone());
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    run_with(&gateway, async {
        write(&bus, "tg:7", "Hi").await;
        assert_eq!(read_text(&bus).await, "Once.");
    })
    .await;

    // A second process, whose bus does not remember the message.
    let other_bus = InProcessBus::default();
    let agent = AgentBuilder::new(model.clone()).store(store.clone());
    let gateway = Gateway::builder(agent)
        .bus(other_bus.clone())
        .build()
        .unwrap();
    run_with(&gateway, async {
        write(&other_bus, "tg:7", "Hi").await;
        let reply = read(&other_bus).await;
        // The channel discards the repeated reply by its id.
        assert_eq!((&*reply.id, &*reply.content), ("tg:7:reply", "Once."));
    })
    .await;
    assert_eq!(model.remaining(), 1);
    assert_eq!(store.get("tg:1").unwrap().messages.len(), 2);
    model.allow_unused();
}

#[tokio::test(start_paused = true)]
async fn run_without_a_text_gets_the_default_response_which_is_stored() {
    let store = ThreadStore::new();
    let model = FunctionModel::new(|request| {
        let count = request.messages.len();
        let args = json!({"text": count});
        vec![Ok(agentcore::ModelEvent::ToolCall(
            agentcore::ToolCall::new(format!("call_{count}"), "echo", args),
        ))]
    });
    let bus = InProcessBus::default();
    let echo = FuncTool::new(
        "echo",
        "Echoes",
        json!({"type": "object"}),
        |_cx, args| async { args },
    );
    let agent = AgentBuilder::new(model).tool(echo).store(store.clone());
    let gateway = Gateway::builder(agent)
        .bus(bus.clone())
        .max_iterations(3)
        .build()
        .unwrap();
    run_with(&gateway, async {
        write(&bus, "tg:7", "Go").await;
        assert_eq!(read_text(&bus).await, DEFAULT_RESPONSE);
    })
    .await;
    let messages = store.get("tg:1").unwrap().messages;
    assert_eq!(messages.last_content(), DEFAULT_RESPONSE);
    assert_eq!(messages.len(), 1 + 3 * 2 + 1);
    messages.validate().unwrap();

    // The stored response is the answer to the repeated input.
    let other_bus = InProcessBus::default();
    let agent = AgentBuilder::new(ScriptedModel::new()).store(store.clone());
    let gateway = Gateway::builder(agent)
        .bus(other_bus.clone())
        .build()
        .unwrap();
    run_with(&gateway, async {
        write(&other_bus, "tg:7", "Go").await;
        assert_eq!(read_text(&other_bus).await, DEFAULT_RESPONSE);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn failure_is_answered_with_its_text_and_the_next_message_works() {
    let failure = Error::new(ErrorKind::Auth, "the key was refused");
    let (builder, bus) = gateway_of(ScriptedModel::new().fail(failure).say("Better."));
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "tg:7", "Hi").await;
        let reply = read(&bus).await;
        assert_eq!(&*reply.id, "tg:7:reply");
        assert_eq!(*reply.content, golden("error_reply.txt"));
        write(&bus, "tg:8", "Again").await;
        assert_eq!(read_text(&bus).await, "Better.");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn direct_entry_points_return_the_text_and_send_nothing() {
    let origin = FuncTool::new("origin", "The chat", json!({"type": "object"}), {
        |cx: ToolContext, _args| async move {
            let conversation = cx.value::<Conversation>().unwrap();
            format!("{}/{}", conversation.channel, conversation.chat_id)
        }
    });
    let chat_is = |expected: &'static str| {
        move |request: &agentcore::ModelRequest| {
            assert_eq!(request.messages.last_content(), expected);
        }
    };
    let model = ScriptedModel::new()
        .call("origin", json!({}))
        .expect(chat_is("cli/direct"))
        .say("one")
        .call("origin", json!({}))
        .expect(chat_is("tg/9"))
        .say("two")
        .say("HEARTBEAT_OK");
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(model.clone())
        .tool(origin)
        .store(store.clone());
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    assert_eq!(gateway.process_direct("Hi", "me").await.unwrap(), "one");
    let reply = gateway
        .process_direct_with_channel("Hi", "me", "tg", "9")
        .await;
    assert_eq!(reply.unwrap(), "two");
    let reply = gateway.process_heartbeat("Anything?", "tg", "9").await;
    assert_eq!(reply.unwrap(), "HEARTBEAT_OK");
    read_none(&bus).await;

    // The heartbeat stores no session.
    assert_eq!(store.len(), 1);
    assert_eq!(store.get("me").unwrap().messages.len(), 8);
    model.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn options_send_the_reply_and_the_texts_that_tools_show() {
    let show = FuncTool::new(
        "show",
        "Shows",
        json!({"type": "object"}),
        |_cx, _args| async { ToolOutput::new("for the model").with_display("for the user") },
    );
    let hide = FuncTool::new(
        "hide",
        "Hides",
        json!({"type": "object"}),
        |_cx, _args| async {
            ToolOutput::new("for the model")
                .with_display("never")
                .silent()
        },
    );
    let steps = ScriptedModel::new()
        .calls([("show", json!({})), ("hide", json!({}))])
        .say("Done.");
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(steps).tool(show).tool(hide);
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    let options = ProcessOptions::new("me", "tg", "1", "Go").with_input_id("i1");
    gateway
        .run_agent_loop(options.with_response_sent())
        .await
        .unwrap();
    let shown = read(&bus).await;
    assert_eq!(
        (&*shown.content, &*shown.id),
        ("for the user", "i1:call_1:display")
    );
    assert_eq!(read_text(&bus).await, "Done.");
    read_none(&bus).await;
}

#[tokio::test(start_paused = true)]
async fn system_message_calls_no_model_and_notifies_its_chat() {
    let (builder, bus) = gateway_of(ScriptedModel::new());
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        let message = InboundMessage::new("system", "tg:1", "subagent-4", "Task 'L' completed.");
        bus.publish_inbound(message.with_id("m1")).await.unwrap();
        let notice = read(&bus).await;
        assert_eq!((&*notice.chat_id, &*notice.id), ("1", "m1:notice"));
        assert_eq!(&*notice.content, "Task 'L' completed.");
    })
    .await;
    let message = InboundMessage::new("system", "tg:1", "subagent-4", "done");
    assert_eq!(gateway.process_message(message).await.unwrap(), "");
}

#[tokio::test]
async fn log_of_a_system_message_shows_no_part_of_a_key() {
    const KEY: &str = "wvzkqjxqhgzwjyxvqzkwjqxzgkvqzhwxjqkvbzwtpd";
    let _known = Secret::new(KEY);
    let (builder, _bus) = gateway_of(ScriptedModel::new());
    let gateway = builder.build().unwrap();
    for before in (100..200).step_by(5) {
        let text = format!("{}{KEY}{}", "x".repeat(before), "y".repeat(300));
        let message = InboundMessage::new("system", "tg:1", "subagent-4", text);
        let logged = Logged::default();
        {
            let _listening = listen(logged.clone());
            gateway.process_system_message(&message);
        }
        let logged = logged.text();
        assert!(logged.contains("xxxx"), "{logged}");
        assert_no_leak(&logged, KEY, &format!("{before}"));
    }
}

#[tokio::test(start_paused = true)]
async fn registered_tool_serves_later_turns_and_is_listed() {
    let tool = |name: &str| {
        let parameters = json!({"type": "object"});
        FuncTool::new(name, "A tool", parameters, |_cx, _args| async { "" })
    };
    let mut registry = ToolRegistry::new();
    registry.register(tool("off")).unwrap();
    registry.disable("off");
    let bus = InProcessBus::default();
    let model = ScriptedModel::new().call("late", json!({})).say("ok");
    let agent = AgentBuilder::new(model).registry(&registry);
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    gateway.register_tool(tool("late")).unwrap();
    for name in ["late", "message"] {
        let error = gateway.register_tool(tool(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tool, "{name}");
    }
    let info = gateway.startup_info().await;
    assert_eq!(
        info.tools,
        ["AskUserQuestion", "late", "message", "spawn", "subagent"]
    );
    assert_eq!(info.to_string(), "5 tools, 0 skills");
    run_with(&gateway, async {
        write(&bus, "tg:7", "Go").await;
        assert_eq!(read_text(&bus).await, "ok");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn registered_tool_serves_the_next_model_call_of_a_turn_in_progress() {
    let late = || FuncTool::new("late", "A tool", any_object(), |_cx, _args| async { "" });
    let gateway_cell = Arc::new(OnceLock::<Gateway>::new());
    let cell = gateway_cell.clone();
    let register = FuncTool::new("register", "Registers", any_object(), move |_cx, _args| {
        cell.get().unwrap().register_tool(late()).unwrap();
        async { "registered" }
    });

    let bus = InProcessBus::default();
    let model = ScriptedModel::new().call("register", json!({})).say("ok");
    let agent = AgentBuilder::new(model.clone()).tool(register);
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    gateway_cell.set(gateway.clone()).ok().unwrap();
    run_with(&gateway, async {
        write(&bus, "tg:7", "Go").await;
        assert_eq!(read_text(&bus).await, "ok");
    })
    .await;

    let requests = model.requests();
    let has_late = requests.iter().map(|request| {
        let mut tools = request.tools.iter();
        tools.any(|tool| &*tool.name == "late")
    });
    assert_eq!(has_late.collect::<Vec<_>>(), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_turns_and_gives_back_those_that_have_not_begun() {
    let step = Step::text("Done.").delayed(Duration::from_secs(5));
    let (builder, bus) = gateway_of(ScriptedModel::new().step(step));
    let gateway = builder.build().unwrap();
    let chat = async {
        write(&bus, "tg:7", "one").await;
        write(&bus, "tg:8", "two").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.stop();
    };
    let (outcome, ()) = tokio::join!(gateway.run(), chat);
    outcome.unwrap();
    assert_eq!(read_text(&bus).await, "Done.");
    let delivery = bus.consume_inbound().await.unwrap().unwrap();
    assert_eq!(&*delivery.message.id, "tg:8");
    assert_eq!(gateway.active_sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn stop_gives_back_messages_of_sessions_that_wait_for_others() {
    let step = Step::text("Done.").delayed(Duration::from_secs(5));
    let (builder, bus) = gateway_of(ScriptedModel::new().step(step));
    let gateway = builder.parallel_sessions(1).build().unwrap();
    let chat = async {
        write_as(&bus, "1", "u1", "tg:7", "one").await;
        write_as(&bus, "2", "u2", "tg:8", "two").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.stop();
    };
    let (outcome, ()) = tokio::join!(gateway.run(), chat);
    outcome.unwrap();
    assert_eq!(read_text(&bus).await, "Done.");
    read_none(&bus).await;
    let delivery = bus.consume_inbound().await.unwrap().unwrap();
    assert_eq!(&*delivery.message.id, "tg:8");
}

#[tokio::test(start_paused = true)]
async fn stop_interrupts_turns_after_ten_seconds_and_another_process_continues() {
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(ScriptedModel::new().hang()).store(store.clone());
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    let start = tokio::time::Instant::now();
    let chat = async {
        write_as(&bus, "1", "u1", "tg:7", "Hi").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.stop();
    };
    let (outcome, ()) = tokio::join!(gateway.run(), chat);
    outcome.unwrap();
    assert_eq!(start.elapsed().as_secs(), 11);

    let agent = AgentBuilder::new(ScriptedModel::new().say("Late.")).store(store.clone());
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    run_with(&gateway, async {
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("tg:7:reply", "Late."));
    })
    .await;
    let session = store.load("tg:1").await.unwrap().unwrap();
    assert_eq!(session.state.messages.user_messages().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn stop_gives_back_a_message_whose_reply_the_bus_does_not_take() {
    let bus = InProcessBus::new(1);
    let agent = AgentBuilder::new(FunctionModel::text(|_| "Done.".into()));
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    let chat = async {
        // The first reply fills the queue of the channel.
        write(&bus, "tg:7", "one").await;
        write(&bus, "tg:8", "two").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.stop();
        tokio::time::Instant::now()
    };
    let (outcome, stopped_at) = tokio::join!(gateway.run(), chat);
    outcome.unwrap();
    assert_eq!(stopped_at.elapsed().as_secs(), 12);
    assert_eq!(&*read(&bus).await.id, "tg:7:reply");
    let delivery = bus.consume_inbound().await.unwrap().unwrap();
    assert_eq!(&*delivery.message.id, "tg:8");
}

#[tokio::test(start_paused = true)]
async fn stop_interrupts_turns_after_the_bus_was_closed() {
    let (builder, bus) = gateway_of(ScriptedModel::new().hang());
    let gateway = builder.build().unwrap();
    let chat = async {
        write(&bus, "tg:7", "Hi").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        bus.close();
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.stop();
    };
    let both = async { tokio::join!(gateway.run(), chat) };
    let (outcome, ()) = tokio::time::timeout(Duration::from_secs(60), both)
        .await
        .expect("the turn is interrupted");
    outcome.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stop_interrupts_direct_turns_after_ten_seconds() {
    for is_running in [true, false] {
        let (builder, _bus) = gateway_of(ScriptedModel::new().hang());
        let gateway = builder.build().unwrap();
        let start = tokio::time::Instant::now();
        let chat = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            gateway.stop();
        };
        let run = async {
            if is_running {
                gateway.run().await.unwrap();
            }
        };
        let (outcome, (), ()) = tokio::join!(gateway.process_direct("Hi", "s"), run, chat);
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(start.elapsed().as_secs(), 11);
    }
}

#[tokio::test(start_paused = true)]
async fn run_is_exclusive_and_ends_with_the_bus() {
    let (builder, bus) = gateway_of(ScriptedModel::new().say("Hello."));
    let gateway = builder.build().unwrap();
    write(&bus, "tg:7", "Hi").await;
    let second = async {
        tokio::task::yield_now().await;
        let error = gateway.run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        bus.close();
    };
    let (outcome, ()) = tokio::join!(gateway.run(), second);
    outcome.unwrap();
}

#[tokio::test(start_paused = true)]
async fn message_with_the_longest_id_is_answered_once() {
    let model = ScriptedModel::new()
        .call("message", json!({"content": "One moment.", "chat_id": "2"}))
        .say("Hello.");
    let (builder, bus) = gateway_of(model.clone());
    let builder = builder.reply_after_message_elsewhere(true);
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, &"i".repeat(1_024), "Hi").await;
        let first = read(&bus).await;
        let second = read(&bus).await;
        assert_eq!(
            (&*first.content, &*second.content),
            ("One moment.", "Hello.")
        );
        assert_ne!(first.id, second.id);
        for message in [first, second] {
            assert!(message.id.len() <= 1_024, "{} bytes", message.id.len());
        }
        read_none(&bus).await;
    })
    .await;
    model.verify().unwrap();
}

/// A bus that refuses all outbound messages and counts the inbound deliveries.
struct RefusingBus {
    bus: InProcessBus,
    deliveries: std::sync::atomic::AtomicUsize,
}

#[agentcore::async_trait]
impl MessageBus for RefusingBus {
    async fn publish_inbound(&self, message: InboundMessage) -> agentcore::Result<()> {
        self.bus.publish_inbound(message).await
    }

    async fn consume_inbound(&self) -> agentcore::Result<Option<Delivery<InboundMessage>>> {
        let delivery = self.bus.consume_inbound().await;
        self.deliveries
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        delivery
    }

    async fn publish_outbound(&self, _message: OutboundMessage) -> agentcore::Result<()> {
        Err(Error::new(ErrorKind::InvalidRequest, "no such channel"))
    }

    async fn consume_outbound(
        &self,
        channel: &str,
    ) -> agentcore::Result<Option<Delivery<OutboundMessage>>> {
        self.bus.consume_outbound(channel).await
    }
}

#[tokio::test(start_paused = true)]
async fn reply_that_the_bus_refuses_for_good_is_not_tried_again() {
    let bus = std::sync::Arc::new(RefusingBus {
        bus: InProcessBus::default(),
        deliveries: Default::default(),
    });
    let agent = AgentBuilder::new(FunctionModel::text(|_| "ok".to_owned()));
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    run_with(&gateway, async {
        write(&bus.bus, "m1", "Hi").await;
        let notice = InboundMessage::new("system", "tg:1", "subagent-1", "done");
        bus.publish_inbound(notice).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    })
    .await;
    let count = bus.deliveries.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(count, 2);
}

/// A bus that clears the session key of each inbound message.
struct ForgetfulBus(InProcessBus);

#[agentcore::async_trait]
impl MessageBus for ForgetfulBus {
    async fn publish_inbound(&self, message: InboundMessage) -> agentcore::Result<()> {
        self.0.publish_inbound(message).await
    }

    async fn consume_inbound(&self) -> agentcore::Result<Option<Delivery<InboundMessage>>> {
        let mut delivery = self.0.consume_inbound().await?;
        if let Some(delivery) = &mut delivery {
            delivery.message.session_key = "".into();
        }
        Ok(delivery)
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> agentcore::Result<()> {
        self.0.publish_outbound(message).await
    }

    async fn consume_outbound(
        &self,
        channel: &str,
    ) -> agentcore::Result<Option<Delivery<OutboundMessage>>> {
        self.0.consume_outbound(channel).await
    }
}

#[tokio::test(start_paused = true)]
async fn message_without_a_session_belongs_to_the_session_of_its_chat() {
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(FunctionModel::text(|_| "ok".to_owned())).store(store.clone());
    let gateway = Gateway::builder(agent)
        .bus(ForgetfulBus(bus.clone()))
        .build()
        .unwrap();
    run_with(&gateway, async {
        write_as(&bus, "1", "u1", "tg:7", "Hi").await;
        write_as(&bus, "2", "u2", "tg:8", "Hello").await;
        for _ in 0..2 {
            assert_eq!(read_text(&bus).await, "ok");
        }
    })
    .await;
    for (id, text) in [("tg:1", "Hi"), ("tg:2", "Hello")] {
        let messages = store.get(id).unwrap().messages;
        assert_eq!(messages.len(), 2);
        assert_eq!(messages.get(0).unwrap().text(), text);
    }
}
