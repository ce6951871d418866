//! Questions in chats.

use std::time::Duration;

use agentcore::gateway::{
    Delivery, Gateway, InProcessBus, InboundMessage, MessageBus, OutboundMessage,
};
use agentcore::testing::ScriptedModel;
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{
    AgentBuilder, Answer, BoxError, FuncTool, ModelRequest, Result, ThreadStore, ToolContext,
    ToolDecision, ToolError, async_trait, tools,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{golden, read, read_none, read_text, run_with, write, write_as};

struct AskFor(&'static str);

#[async_trait]
impl PermissionGate for AskFor {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        if *request.call.name == *self.0 {
            let question = format!("May {} run with {}?", self.0, request.call.args);
            return Ok(ToolDecision::ask(question));
        }
        Ok(ToolDecision::allow())
    }
}

fn deploy() -> FuncTool {
    FuncTool::new(
        "deploy",
        "Deploys",
        json!({"type": "object"}),
        |_cx, args| async move { format!("deployed {}", args["to"].as_str().unwrap_or_default()) },
    )
}

fn gateway_that_asks(model: ScriptedModel, store: &ThreadStore) -> (Gateway, InProcessBus) {
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(model)
        .tool(deploy())
        .tool(tools::request_user_input())
        .tool(name_it())
        .permissions(AskFor("deploy"))
        .store(store.clone());
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    (gateway, bus)
}

/// A tool of an application that asks for a text.
fn name_it() -> FuncTool {
    let run = |cx: ToolContext, _args: Value| async move {
        match cx.ask_for_text("Which name?").await {
            Answer::Reply { text, .. } => Ok::<_, BoxError>(text),
            _ => Err(ToolError::new("no name")
                .with_text_question("Which name?")
                .into()),
        }
    };
    FuncTool::new("name_it", "Asks for a name", json!({"type": "object"}), run)
}

fn last(expected: &'static str) -> impl Fn(&ModelRequest) {
    move |request| assert_eq!(request.messages.last_content(), expected)
}

#[tokio::test(start_paused = true)]
async fn next_message_of_the_sender_answers_and_others_queue() {
    let model = ScriptedModel::new()
        .call("deploy", json!({"to": "a"}))
        .expect(last("deployed a"))
        .say("Done.")
        .say("Hello, Bob.");
    let (gateway, bus) = gateway_that_asks(model.clone(), &ThreadStore::new());
    run_with(&gateway, async {
        write(&bus, "m1", "Deploy a").await;
        assert_eq!(read_text(&bus).await, golden("permission_question.txt"));
        write_as(&bus, "1", "bob", "m2", "yes").await;
        read_none(&bus).await;
        write(&bus, "m3", "Yes.").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("m1:reply", "Done."));
        assert_eq!(read_text(&bus).await, "Hello, Bob.");
    })
    .await;
    model.verify().unwrap();
}

/// A bus whose inbound messages have no ids, like those of other publishers.
struct WithoutIds(InProcessBus);

#[async_trait]
impl MessageBus for WithoutIds {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<()> {
        self.0.publish_inbound(message).await
    }

    async fn consume_inbound(&self) -> Result<Option<Delivery<InboundMessage>>> {
        let mut delivery = self.0.consume_inbound().await?;
        if let Some(delivery) = &mut delivery {
            delivery.message.id = "".into();
        }
        Ok(delivery)
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<()> {
        self.0.publish_outbound(message).await
    }

    async fn consume_outbound(&self, channel: &str) -> Result<Option<Delivery<OutboundMessage>>> {
        self.0.consume_outbound(channel).await
    }
}

#[tokio::test(start_paused = true)]
async fn message_without_an_id_answers_and_later_ones_are_answered() {
    let model = ScriptedModel::new()
        .call("deploy", json!({"to": "a"}))
        .say("Done.")
        .say("Hello.");
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(model)
        .tool(deploy())
        .permissions(AskFor("deploy"));
    let gateway = Gateway::builder(agent).bus(WithoutIds(bus.clone()));
    let gateway = gateway.build().unwrap();
    run_with(&gateway, async {
        for (id, text, reply) in [
            ("m1", "Deploy a", &*golden("permission_question.txt")),
            ("m2", "yes", "Done."),
            ("m3", "Hi", "Hello."),
        ] {
            write(&bus, id, text).await;
            assert_eq!(read_text(&bus).await, reply);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_chats_that_are_asked_at_once_get_their_own_questions() {
    let model = agentcore::testing::FunctionModel::new(|request| {
        use agentcore::{ModelEvent, ToolCall};
        let text = request.messages.last_content().into_owned();
        vec![Ok(match request.messages.len() {
            1 => ModelEvent::ToolCall(ToolCall::new("call_1", "deploy", json!({"to": text}))),
            _ => ModelEvent::Text(text),
        })]
    });
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(model)
        .tool(deploy())
        .permissions(AskFor("deploy"));
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    run_with(&gateway, async {
        write_as(&bus, "1", "u1", "m1", "a").await;
        write_as(&bus, "2", "u2", "m2", "b").await;
        for (chat, name) in [("1", "a"), ("2", "b")] {
            let question = read(&bus).await;
            assert_eq!(&*question.chat_id, chat);
            assert!(question.content.contains(&format!("{{\"to\":\"{name}\"}}")));
        }
        write_as(&bus, "2", "u2", "m3", "no, it is late").await;
        let reply = read(&bus).await;
        assert_eq!(&*reply.chat_id, "2");
        assert!(reply.content.contains("it is late"), "{}", reply.content);
        write_as(&bus, "1", "u1", "m4", "yes").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.chat_id, &*reply.content), ("1", "deployed a"));
    })
    .await;
}

fn choice() -> Value {
    json!({"questions": [{
        "question": "Which format?",
        "header": "Format",
        "options": [{"label": "JSON"}, {"label": "YAML", "description": "with comments"}]
    }]})
}

#[tokio::test(start_paused = true)]
async fn choice_is_asked_with_numbers() {
    let model = ScriptedModel::new()
        .call("AskUserQuestion", choice())
        .expect(last("Which format?\n> YAML"))
        .say("YAML it is.")
        .call("request_user_input", json!({"question": "Which city?"}))
        .expect(last("Oslo"))
        .say("Sunny.");
    let (gateway, bus) = gateway_that_asks(model.clone(), &ThreadStore::new());
    run_with(&gateway, async {
        write(&bus, "m1", "Write it").await;
        assert_eq!(read_text(&bus).await, golden("choice_question.txt"));
        write(&bus, "m2", "2").await;
        assert_eq!(read_text(&bus).await, "YAML it is.");
        write(&bus, "m3", "The weather?").await;
        assert_eq!(read_text(&bus).await, "Which city?");
        write(&bus, "m4", "Oslo").await;
        assert_eq!(read_text(&bus).await, "Sunny.");
    })
    .await;
    model.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn question_without_an_answer_waits_and_a_late_answer_continues() {
    let cases = [
        ("deploy", json!({"to": "a"}), "yes", "deployed a"),
        ("AskUserQuestion", choice(), "2", "YAML"),
        ("name_it", json!({}), "No name", "No name"),
    ];
    for (tool, args, answer, result) in cases {
        let store = ThreadStore::new();
        let model = ScriptedModel::new().call(tool, args);
        let (gateway, bus) = gateway_that_asks(model.clone(), &store);
        run_with(&gateway, async {
            write(&bus, "m1", "Go").await;
            read(&bus).await;
            sleep(Duration::from_secs(301)).await;
            assert_eq!(gateway.active_sessions(), 0);
            read_none(&bus).await;
        })
        .await;
        assert_eq!(store.get("tg:1").unwrap().pending.len(), 1);
        model.verify().unwrap();

        // The answer is delivered to another process.
        let model = ScriptedModel::new().expect(last(result)).say("Done.");
        let (gateway, bus) = gateway_that_asks(model.clone(), &store);
        run_with(&gateway, async {
            write(&bus, "m2", answer).await;
            let reply = read(&bus).await;
            assert_eq!((&*reply.id, &*reply.content), ("m2:reply", "Done."));
        })
        .await;
        assert!(store.get("tg:1").unwrap().pending.is_empty());
        model.verify().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeat_asks_nothing() {
    let denied = |request: &ModelRequest| {
        let content = request.messages.last_content();
        assert!(content.contains("cannot be answered"), "{content}");
    };
    let model = ScriptedModel::new()
        .call("deploy", json!({"to": "a"}))
        .expect(denied)
        .call("request_user_input", json!({"question": "Where to?"}))
        .expect(denied)
        .say("Nothing was deployed.");
    let (gateway, bus) = gateway_that_asks(model.clone(), &ThreadStore::new());
    run_with(&gateway, async {
        let reply = gateway.process_heartbeat("Look", "tg", "1").await.unwrap();
        assert_eq!(reply, "Nothing was deployed.");
        read_none(&bus).await;
    })
    .await;
    model.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn question_in_a_full_channel_fails_and_the_next_turn_runs() {
    let bus = InProcessBus::new(2);
    let args = json!({"to": "a"});
    let model = ScriptedModel::new()
        .call("deploy", args)
        .say("I was not allowed to.")
        .say("Hello.");
    let agent = AgentBuilder::new(model.clone())
        .tool(deploy())
        .permissions(AskFor("deploy"));
    let builder = Gateway::builder(agent).bus(bus.clone());
    let gateway = builder.parallel_sessions(1).build().unwrap();
    for _ in 0..2 {
        let message = OutboundMessage::new("stuck", "1", "It is full.");
        bus.publish_outbound(message).await.unwrap();
    }
    run_with(&gateway, async {
        // Its turn has the only permit until the bus takes too long to accept its messages.
        let message = InboundMessage::new("stuck", "1", "u1", "Deploy");
        bus.publish_inbound(message).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        write(&bus, "m1", "Hi").await;
        assert_eq!(read_text(&bus).await, "Hello.");
    })
    .await;
    model.verify().unwrap();
}
