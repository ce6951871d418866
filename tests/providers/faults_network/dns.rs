//! Names that lead nowhere.

use agentcore::AgentBuilder;
use agentcore::agent::RetryPolicy;

use super::*;

#[tokio::test]
async fn n2_unresolvable_name_is_a_dns_error() {
    // The domain `.invalid` is kept free of names by RFC 2606.
    for api in ALL {
        let url = "http://no-such-host.invalid";
        let model = api.model(url, PATIENCE);
        let agent = AgentBuilder::new(model)
            .retry(RetryPolicy::never())
            .build()
            .unwrap();
        let error = agent.run("hello").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dns, "{api:?} {error}");
        assert_no_key(&error);
    }
}
