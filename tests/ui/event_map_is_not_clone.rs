//! A map over the token stream that cannot be repeated on a retry.

use agentcore::{ModelEvent, hook};

type Filter = Box<dyn FnMut(ModelEvent) -> Option<ModelEvent> + Send + Sync>;

fn main() {
    let _ = hook::wrap_model_call("filter", |request, next| async move {
        let filter: Filter = Box::new(Some);
        next.run(request.map_events(filter)).await
    });
}
