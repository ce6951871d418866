//! Messages, tools, rules and the wire form, which need no run.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

mod auto_traits;
mod decision_json;
mod deep_json;
mod fuzz_parsers;
#[cfg(feature = "yaml")]
mod hostile_values;
mod linear_work;
mod messages_json;
mod messages_odd;
mod messages_order;
mod messages_repair;
mod messages_validate;
mod model_data;
mod model_dates;
mod outside_figures;
mod permission_agents;
mod permission_arguments;
#[cfg(unix)]
mod permission_bash_diff;
mod permission_constructs;
mod permission_corpus;
mod permission_decisions;
mod permission_explain;
mod permission_rules;
mod permission_shell_stack;
mod permission_urls;
mod pretty;
mod prices;
mod sdk_content;
mod sdk_foreign;
mod sdk_golden;
mod sdk_stream_event;
mod sdk_unknown;
mod sdk_wire;
mod testing_kit;
mod text;
mod tokens;
mod tool_schema;
mod tool_schema_limits;
mod tools;
mod two_validators;
