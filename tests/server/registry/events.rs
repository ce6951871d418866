//! Events for clients that observe a registry.

use agentcore::config::AgentConfig;
use agentcore::registry::EventBus;
use agentcore::testing::ScriptedModel;
use futures::{FutureExt, StreamExt};

use super::registry;

#[tokio::test]
async fn only_a_full_client_loses_events() {
    let bus = EventBus::new();
    let (mut slow, mut fast) = (bus.subscribe("ann"), bus.subscribe("ann"));
    for number in 0..40 {
        bus.publish(format!("event_{number}"));
        assert_eq!(
            fast.next().await.as_deref(),
            Some(&*format!("event_{number}"))
        );
    }
    for number in 0..16 {
        assert_eq!(
            slow.next().await.as_deref(),
            Some(&*format!("event_{number}"))
        );
    }
    assert!(slow.next().now_or_never().is_none());
    bus.publish("later");
    assert_eq!(slow.next().await.as_deref(), Some("later"));
}

#[tokio::test]
async fn event_of_a_user_reaches_the_clients_of_the_user_alone() {
    let bus = EventBus::new();
    let mut clients = [
        bus.subscribe("ann"),
        bus.subscribe("ann"),
        bus.subscribe("bob"),
    ];
    bus.publish_to("ann", "container_status:ann");
    let [ann, also_ann, bob] = &mut clients;
    assert_eq!(ann.next().await.as_deref(), Some("container_status:ann"));
    assert_eq!(
        also_ann.next().await.as_deref(),
        Some("container_status:ann")
    );
    assert!(bob.next().now_or_never().is_none());
}

#[tokio::test]
async fn client_that_is_gone_is_forgotten_and_the_stream_ends_with_the_bus() {
    let bus = EventBus::new();
    let (first, second) = (bus.subscribe("ann"), bus.subscribe("ann"));
    assert_eq!(bus.clients(), 2);
    drop(first);
    assert_eq!(bus.clients(), 1);
    bus.publish("last");
    drop(bus);
    let events: Vec<_> = second.collect().await;
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn changes_of_templates_and_hooks_are_published() {
    let registry = registry(ScriptedModel::new());
    let mut ann = registry.events().subscribe("ann");
    let mut bob = registry.events().subscribe("bob");
    registry
        .register_template("other", AgentConfig::new("m"))
        .unwrap();
    assert_eq!(ann.next().await.as_deref(), Some("agents_changed"));
    assert_eq!(bob.next().await.as_deref(), Some("agents_changed"));

    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    instance
        .set_hooks(&[], &["tracing".to_owned()])
        .await
        .unwrap();
    assert_eq!(ann.next().await.as_deref(), Some("hooks_changed:default"));
    assert!(bob.next().now_or_never().is_none());
}
