//! All checks in order.

use crate::error::Result;
use crate::gateway::MessageBus;

use super::super::checks::Failures;
use super::side::{Inbound, Outbound, Side};
use super::{deliveries, orders};

/// Checks that a [`MessageBus`] fulfills its contract: each message is delivered as it was
/// published and in its order, until it is acknowledged; a message that is given back or dropped is
/// delivered again; repeated ids are dropped; sessions and channels do not wait for each other.
///
/// `make` returns an empty bus for each check. With tokio's paused clock, the suite takes no time
/// for a bus that uses that clock.
///
/// # Errors
///
/// Returns [`ErrorKind::Other`](crate::ErrorKind::Other) with one line for each failed check.
///
/// ```
/// use agentcore::gateway::InProcessBus;
/// use agentcore::testing::conformance;
///
/// # let run = async {
/// # tokio::time::pause();
/// conformance::message_bus(|| async { InProcessBus::default() }).await
/// # };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
pub async fn message_bus<B, M>(make: impl Fn() -> M) -> Result<()>
where
    B: MessageBus,
    M: Future<Output = B>,
{
    let mut failures = Failures::default();
    failures.check("completing", deliveries::completed(&make().await).await);
    failures.check("channels", deliveries::channels(&make().await).await);
    for check in Check::ALL {
        let bus = make().await;
        let name = check.name();
        failures.check(&format!("inbound: {name}"), check.run(&Inbound(&bus)).await);
        let bus = make().await;
        failures.check(
            &format!("outbound: {name}"),
            check.run(&Outbound(&bus)).await,
        );
    }
    failures.check(
        "inbound: other sessions",
        orders::other_keys(&Inbound(&make().await)).await,
    );
    failures.check(
        "outbound: other channels",
        orders::other_keys(&Outbound(&make().await)).await,
    );
    failures.finish()
}

/// A check of either direction.
#[derive(Clone, Copy)]
enum Check {
    Once,
    Waiting,
    TwoConsumers,
    Dropped,
    GivenBack,
    Repeated,
    Order,
    OrderGivenBack,
    OrderDelayed,
}

impl Check {
    const ALL: [Self; 9] = [
        Self::Once,
        Self::Waiting,
        Self::TwoConsumers,
        Self::Dropped,
        Self::GivenBack,
        Self::Repeated,
        Self::Order,
        Self::OrderGivenBack,
        Self::OrderDelayed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Once => "delivered once",
            Self::Waiting => "consumers that wait",
            Self::TwoConsumers => "two consumers",
            Self::Dropped => "dropped deliveries",
            Self::GivenBack => "deliveries given back",
            Self::Repeated => "repeated ids",
            Self::Order => "order",
            Self::OrderGivenBack => "order of deliveries given back",
            Self::OrderDelayed => "order behind a delay",
        }
    }

    async fn run<S: Side>(self, side: &S) -> Result<()> {
        match self {
            Self::Once => deliveries::once(side).await,
            Self::Waiting => deliveries::waiting(side).await,
            Self::TwoConsumers => deliveries::two_consumers(side).await,
            Self::Dropped => deliveries::dropped(side).await,
            Self::GivenBack => deliveries::given_back(side).await,
            Self::Repeated => deliveries::repeated(side).await,
            Self::Order => orders::in_order(side).await,
            Self::OrderGivenBack => orders::given_back(side).await,
            Self::OrderDelayed => orders::delayed(side).await,
        }
    }
}
