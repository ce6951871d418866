//! A map over the token stream that cannot start over on a retry.

use agentcore::hook;

struct Filter;

impl Filter {
    fn keeps(&mut self) -> bool {
        true
    }
}

fn main() {
    let _ = hook::wrap_model_call("filter", |request, next| async move {
        let mut filter = Filter;
        let request = request.map_events(move |event| filter.keeps().then_some(event));
        next.run(request).await
    });
}
