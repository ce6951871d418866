//! Parsing the text of a configuration into values with their positions.

mod deserializer;
mod fault;
mod fields;
mod tree;

pub(super) use deserializer::read;
pub(super) use fault::{Fault, unknown_name};
pub(super) use fields::{
    address, model_name, model_schema, permissions_schema, secret, secret_schema,
};
pub(super) use tree::{Entry, MAX_BYTES, Node, Tree, parse_json, parse_yaml};
