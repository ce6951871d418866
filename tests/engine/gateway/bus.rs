//! Buses between channels and the gateway, and the suite for buses.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::gateway::{
    Delivery, Gateway, InProcessBus, InboundMessage, MessageBus, OutboundMessage, Receipt,
};
use agentcore::testing::{ScriptedModel, conformance};
use agentcore::{AgentBuilder, ErrorKind, Result, async_trait};
use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn in_process_bus_keeps_the_contract() {
    let outcome = conformance::message_bus(|| async { InProcessBus::default() }).await;
    outcome.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bus_of_this_file_keeps_the_contract_without_a_fault() {
    let outcome = conformance::message_bus(|| async { FaultyBus::new(None) }).await;
    outcome.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_broken_bus_is_rejected_for_its_fault() {
    let faults = [
        (Fault::Loss, "order: "),
        (Fault::Duplicate, "delivered once: "),
        (Fault::Reorder, "order: "),
        (Fault::NoRedelivery, "dropped deliveries: "),
        (Fault::Alteration, "delivered once: "),
        (Fault::NoDelay, "deliveries given back: "),
        (Fault::ToTheEnd, "order of deliveries given back: "),
        (Fault::Overtaking, "order behind a delay: "),
        (Fault::NoAck, "delivered once: "),
        (Fault::MixedChannels, "channels: "),
        (Fault::RepeatedIds, "repeated ids: "),
        (Fault::OneLine, "other sessions: "),
    ];
    for (fault, check) in faults {
        let outcome = conformance::message_bus(|| async move { FaultyBus::new(Some(fault)) }).await;
        let text = outcome.expect_err(&format!("{fault:?}")).to_string();
        assert!(text.contains(check), "{fault:?}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn message_that_is_given_back_for_ever_keeps_its_space() {
    let bus = InProcessBus::new(1);
    let message = || InboundMessage::new("cli", "direct", "u1", "one");
    bus.publish_inbound(message()).await.unwrap();
    let delivery = bus.consume_inbound().await.unwrap().unwrap();
    delivery.give_back(Duration::MAX).await.unwrap();
    let waiting = timeout(Duration::from_secs(60), bus.consume_inbound()).await;
    assert!(waiting.is_err(), "it was delivered at once");
    let publish = timeout(Duration::from_secs(60), bus.publish_inbound(message())).await;
    assert!(publish.is_err(), "its space is free");
}

#[tokio::test(start_paused = true)]
async fn publish_waits_while_the_bus_is_full_and_loses_nothing() {
    let bus = InProcessBus::new(2);
    for text in ["one", "two"] {
        let message = InboundMessage::new("cli", "direct", "u1", text);
        bus.publish_inbound(message).await.unwrap();
    }
    let third = || bus.publish_inbound(InboundMessage::new("cli", "direct", "u1", "three"));
    assert!(timeout(Duration::from_secs(60), third()).await.is_err());

    // A message in progress takes up space until it is acknowledged.
    let first = bus.consume_inbound().await.unwrap().unwrap();
    assert!(timeout(Duration::from_secs(60), third()).await.is_err());
    first.ack().await.unwrap();
    third().await.unwrap();
    for text in ["two", "three"] {
        let delivery = bus.consume_inbound().await.unwrap().unwrap();
        assert_eq!(&*delivery.message.content, text);
        delivery.ack().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn publish_waits_while_the_bus_has_too_many_bytes() {
    let bus = InProcessBus::default();
    let publish = |bytes: usize| {
        let message = InboundMessage::new("cli", "direct", "u1", "x".repeat(bytes));
        timeout(Duration::from_secs(60), bus.publish_inbound(message))
    };
    let error = publish(64 << 20).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(
        error.to_string().contains("the limit is 67108864"),
        "{error}"
    );
    publish((64 << 20) - 1_024).await.unwrap().unwrap();
    assert!(publish(1_024).await.is_err());
    let first = bus.consume_inbound().await.unwrap().unwrap();
    assert!(publish(1_024).await.is_err());
    first.ack().await.unwrap();
    publish(32 << 20).await.unwrap().unwrap();
    assert!(publish(33 << 20).await.is_err());
    publish(1).await.unwrap().unwrap();
}

#[tokio::test]
async fn long_ids_are_refused() {
    let bus = InProcessBus::default();
    let publish = |len: usize| {
        let message = InboundMessage::new("cli", "direct", "u1", "hi");
        bus.publish_inbound(message.with_id("i".repeat(len)))
    };
    publish(1_024).await.unwrap();
    let error = publish(1_025).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("1025 bytes"), "{error}");
}

#[tokio::test]
async fn consumer_that_drops_each_message_lets_other_tasks_run() {
    let bus = InProcessBus::default();
    let message = InboundMessage::new("cli", "direct", "u1", "hi");
    bus.publish_inbound(message).await.unwrap();
    let has_run = Arc::new(AtomicBool::new(false));
    let flag = has_run.clone();
    tokio::spawn(async move { flag.store(true, Ordering::Relaxed) });
    for _ in 0..10_000 {
        drop(bus.consume_inbound().await.unwrap());
        if has_run.load(Ordering::Relaxed) {
            return;
        }
    }
    panic!("the other task did not run");
}

#[tokio::test(start_paused = true)]
async fn channel_that_is_full_does_not_delay_another() {
    let bus = InProcessBus::new(1);
    let send = |channel| bus.publish_outbound(OutboundMessage::new(channel, "1", "hi"));
    send("slow").await.unwrap();
    assert!(
        timeout(Duration::from_secs(60), send("slow"))
            .await
            .is_err()
    );
    send("fast").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closed_bus_delivers_the_remaining_messages_and_ends() {
    let bus = InProcessBus::default();
    bus.publish_inbound(InboundMessage::new("cli", "direct", "u1", "hi"))
        .await
        .unwrap();
    bus.close();
    let refused = bus.publish_inbound(InboundMessage::new("cli", "direct", "u1", "late"));
    assert_eq!(refused.await.unwrap_err().to_string(), "the bus is closed");
    bus.consume_inbound()
        .await
        .unwrap()
        .unwrap()
        .ack()
        .await
        .unwrap();
    assert!(bus.consume_inbound().await.unwrap().is_none());
    assert!(bus.consume_outbound("cli").await.unwrap().is_none());
}

#[tokio::test]
async fn close_wakes_those_that_wait() {
    let bus = InProcessBus::new(1);
    bus.publish_outbound(OutboundMessage::new("cli", "1", "hi"))
        .await
        .unwrap();
    let (inbound, publish, ()) = tokio::join!(
        bus.consume_inbound(),
        bus.publish_outbound(OutboundMessage::new("cli", "1", "again")),
        async {
            tokio::task::yield_now().await;
            bus.close();
        }
    );
    assert!(inbound.unwrap().is_none());
    assert!(publish.is_err());
}

#[tokio::test]
async fn channels_are_limited_in_number() {
    let bus = InProcessBus::default();
    for index in 0..1_024 {
        let message = OutboundMessage::new(format!("c{index}"), "1", "hi");
        bus.publish_outbound(message).await.unwrap();
    }
    let error = bus.publish_outbound(OutboundMessage::new("one more", "1", "hi"));
    let text = error.await.unwrap_err().to_string();
    assert_eq!(
        text,
        r#"cannot add channel "one more": the bus has 1024 already"#
    );
    // A channel that was consumed is not refused.
    assert!(bus.consume_outbound("own").now_or_never().is_none());
    let message = OutboundMessage::new("own", "1", "hi");
    bus.publish_outbound(message).await.unwrap();
}

#[tokio::test]
async fn long_names_are_refused() {
    let bus = InProcessBus::default();
    let longest = "n".repeat(1_024);
    let long = "n".repeat(1_025);
    bus.publish_outbound(OutboundMessage::new(longest.as_str(), "1", "hi"))
        .await
        .unwrap();
    let inbound = |channel: &str, chat_id: &str, sender_id: &str| {
        bus.publish_inbound(InboundMessage::new(channel, chat_id, sender_id, "hi"))
    };
    let outcomes = [
        (inbound(&long, "1", "u1").await, "channel"),
        (inbound("cli", &long, "u1").await, "chat"),
        (inbound("cli", "1", &long).await, "sender"),
        (
            bus.publish_outbound(OutboundMessage::new(long.as_str(), "1", "hi"))
                .await,
            "channel",
        ),
        (
            bus.publish_outbound(OutboundMessage::new("cli", long.as_str(), "hi"))
                .await,
            "chat",
        ),
    ];
    for (outcome, name) in outcomes {
        let error = outcome.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        let text = format!("the name of a message's {name} has 1025 bytes");
        assert!(error.to_string().contains(&text), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn name_of_a_channel_with_a_colon_is_refused() {
    let bus = InProcessBus::default();
    let inbound = bus.publish_inbound(InboundMessage::new("a:b", "1", "u1", "hi"));
    let outbound = bus.publish_outbound(OutboundMessage::new("a:b", "1", "hi"));
    let agent = AgentBuilder::new(ScriptedModel::new());
    let gateway = Gateway::builder(agent).build().unwrap();
    let direct = gateway.process_direct_with_channel("hi", "s", "a:b", "1");
    let outcomes = [inbound.await, outbound.await, direct.await.map(drop)];
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        let text = r#"the name of channel "a:b" has a colon; use a name without one"#;
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn outbound_messages_of_all_channels_share_their_bytes() {
    let bus = InProcessBus::default();
    let send = |channel: usize, bytes: usize| {
        let message = OutboundMessage::new(format!("c{channel}"), "1", "x".repeat(bytes));
        timeout(Duration::from_secs(60), bus.publish_outbound(message))
    };
    // A channel may hold a quarter of the bytes.
    for channel in 0..4 {
        send(channel, 20 << 20).await.unwrap().unwrap();
        assert!(send(channel, 1).await.is_err(), "channel {channel}");
    }
    assert!(send(4, 1).await.is_err());
    let first = bus.consume_outbound("c0").await.unwrap().unwrap();
    first.ack().await.unwrap();
    send(4, 1).await.unwrap().unwrap();
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Loss,
    Duplicate,
    Reorder,
    NoRedelivery,
    Alteration,
    NoDelay,
    ToTheEnd,
    Overtaking,
    NoAck,
    MixedChannels,
    RepeatedIds,
    OneLine,
}

/// A simple bus with at most one fault.
struct FaultyBus {
    inbound: Arc<Line<InboundMessage>>,
    outbound: Arc<Line<OutboundMessage>>,
}

impl FaultyBus {
    fn new(fault: Option<Fault>) -> Self {
        Self {
            inbound: Line::new(fault),
            outbound: Line::new(fault),
        }
    }
}

trait Item: Clone + Send + Sync + 'static {
    fn id(&self) -> String;
    fn key(&self) -> String;
    fn alter(&mut self);
}

impl Item for InboundMessage {
    fn id(&self) -> String {
        self.id.to_string()
    }

    fn key(&self) -> String {
        self.session_key.to_string()
    }

    fn alter(&mut self) {
        self.media.clear();
    }
}

impl Item for OutboundMessage {
    fn id(&self) -> String {
        format!("{}:{}", self.channel, self.id)
    }

    fn key(&self) -> String {
        self.channel.to_string()
    }

    fn alter(&mut self) {
        self.metadata.clear();
    }
}

struct Line<M> {
    fault: Option<Fault>,
    state: Mutex<State<M>>,
}

struct State<M> {
    items: BTreeMap<u64, (M, Instant)>,
    count: u64,
    ids: Vec<String>,
}

impl<M: Item> Line<M> {
    fn new(fault: Option<Fault>) -> Arc<Self> {
        let state = State {
            items: BTreeMap::new(),
            count: 0,
            ids: Vec::new(),
        };
        Arc::new(Self {
            fault,
            state: Mutex::new(state),
        })
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn publish(&self, mut message: M) {
        let mut state = self.state.lock().unwrap();
        if !self.has(Fault::RepeatedIds) && state.ids.contains(&message.id()) {
            return;
        }
        state.ids.push(message.id());
        state.count += 1;
        let count = state.count;
        if self.has(Fault::Loss) && count.is_multiple_of(5) {
            return;
        }
        if self.has(Fault::Alteration) {
            message.alter();
        }
        if self.has(Fault::Duplicate) {
            let item = (message.clone(), Instant::now());
            state.items.insert(2 * count + 1, item);
        }
        state.items.insert(2 * count, (message, Instant::now()));
    }

    async fn consume(self: &Arc<Self>, key: Option<&str>) -> Delivery<M> {
        loop {
            if let Some((number, message)) = self.take(key) {
                let receipt = LineReceipt {
                    line: self.clone(),
                    number,
                    message: Some(message.clone()),
                };
                return Delivery::new(message, receipt);
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn take(&self, key: Option<&str>) -> Option<(u64, M)> {
        let mut state = self.state.lock().unwrap();
        let mut numbers: Vec<_> = state.items.keys().copied().collect();
        if self.has(Fault::Reorder) {
            numbers.reverse();
        }
        let mut delayed_keys = Vec::new();
        for number in numbers {
            let (message, ready_at) = &state.items[&number];
            let is_other = key.is_some_and(|key| key != message.key());
            if is_other && !self.has(Fault::MixedChannels) && !self.has(Fault::OneLine) {
                continue;
            }
            if delayed_keys.contains(&message.key()) && !self.has(Fault::Overtaking) {
                continue;
            }
            if *ready_at > Instant::now() {
                if self.has(Fault::OneLine) {
                    return None;
                }
                delayed_keys.push(message.key());
            } else if !is_other || self.has(Fault::MixedChannels) {
                let (message, _) = state.items.remove(&number)?;
                return Some((number, message));
            }
        }
        None
    }
}

struct LineReceipt<M: Item> {
    line: Arc<Line<M>>,
    number: u64,
    message: Option<M>,
}

impl<M: Item> LineReceipt<M> {
    fn put_back(&mut self, delay: Duration) {
        let Some(message) = self.message.take() else {
            return;
        };
        let mut state = self.line.state.lock().unwrap();
        let is_at_end = self.line.has(Fault::ToTheEnd);
        state.count += u64::from(is_at_end);
        let number = if is_at_end {
            2 * state.count
        } else {
            self.number
        };
        let delay = if self.line.has(Fault::NoDelay) {
            Duration::ZERO
        } else {
            delay
        };
        state
            .items
            .insert(number, (message, Instant::now() + delay));
    }
}

#[async_trait]
impl<M: Item> Receipt for LineReceipt<M> {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        if !self.line.has(Fault::NoAck) {
            self.message = None;
        }
        Ok(())
    }

    async fn give_back(mut self: Box<Self>, delay: Duration) -> Result<()> {
        self.put_back(delay);
        Ok(())
    }
}

impl<M: Item> Drop for LineReceipt<M> {
    fn drop(&mut self) {
        if !self.line.has(Fault::NoRedelivery) {
            self.put_back(Duration::ZERO);
        }
    }
}

#[async_trait]
impl MessageBus for FaultyBus {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<()> {
        self.inbound.publish(message.completed());
        Ok(())
    }

    async fn consume_inbound(&self) -> Result<Option<Delivery<InboundMessage>>> {
        Ok(Some(self.inbound.consume(None).await))
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<()> {
        self.outbound.publish(message.completed());
        Ok(())
    }

    async fn consume_outbound(&self, channel: &str) -> Result<Option<Delivery<OutboundMessage>>> {
        Ok(Some(self.outbound.consume(Some(channel)).await))
    }
}
