//! Host names that do not resolve.

use agentcore::AgentBuilder;
use agentcore::agent::RetryPolicy;

use super::*;

#[tokio::test]
async fn n2_unresolvable_name_is_a_dns_error_that_is_retried_once() {
    // RFC 2606 reserves the domain `.invalid`.
    for api in ALL {
        let url = "http://no-such-host.invalid";
        let model = api.model(url, PATIENCE);
        let agent = AgentBuilder::new(model)
            .retry(RetryPolicy::default().with_base(Duration::from_millis(1)))
            .build()
            .unwrap();
        let mut run = agent.run("hello");
        let mut retries = 0;
        while let Some(message) = run.next().await {
            retries += usize::from(
                serde_json::to_string(&message)
                    .unwrap()
                    .contains("api_retry"),
            );
        }

        assert_eq!(retries, 1, "{api:?}");
        let error = run.into_output().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dns, "{api:?} {error}");
        assert_no_key(&error);
    }
}
