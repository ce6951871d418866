//! The groups of routes in their order.

use super::super::api::Api;
use super::{
    agents, available, backend, control, events, files, flow, hitl, invoke, messages, resume, site,
    stream, threads, tools, traces,
};

/// Returns all routes.
pub(in super::super) fn all() -> Api {
    let groups: [fn(Api) -> Api; 16] = [
        agents::routes,
        invoke::routes,
        stream::routes,
        resume::routes,
        control::routes,
        hitl::routes,
        threads::routes,
        events::routes,
        available::routes,
        tools::routes,
        messages::routes,
        traces::routes,
        flow::routes,
        backend::routes,
        files::routes,
        site::routes,
    ];
    let add_group = |api, add: fn(Api) -> Api| add(api);
    groups.into_iter().fold(Api::default(), add_group)
}
