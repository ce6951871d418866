//! The groups of routes in their order.

use super::super::api::Api;
use super::{
    agents, available, backend, control, events, files, flow, hitl, invoke, messages, resume, site,
    stream, threads, tools, traces,
};

/// All routes.
pub(in super::super) fn all() -> Api {
    let api = Api::default();
    let api = agents::routes(api);
    let api = invoke::routes(api);
    let api = stream::routes(api);
    let api = resume::routes(api);
    let api = control::routes(api);
    let api = hitl::routes(api);
    let api = threads::routes(api);
    let api = events::routes(api);
    let api = available::routes(api);
    let api = tools::routes(api);
    let api = messages::routes(api);
    let api = traces::routes(api);
    let api = flow::routes(api);
    let api = backend::routes(api);
    let api = files::routes(api);
    site::routes(api)
}
