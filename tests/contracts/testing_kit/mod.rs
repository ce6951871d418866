//! The testing kit, which must detect mistakes.

mod cassette;
mod function;
mod scripted;
mod strict;
mod suite;

use std::sync::Arc;
use std::time::Duration;

use agentcore::message::{Annotations, Citation, Media, ProviderBlock};
use agentcore::model::{
    ModelEvent, ModelProfile, ModelSettings, ModelStream, Prices, ResponseHead, Stability,
    StopReason, SystemPrompt, ToolDefinition,
};
use agentcore::testing::{Cassette, FunctionModel, ScriptedModel, Step, StrictModel, conformance};
use agentcore::{
    Error, ErrorKind, Message, Messages, Model, ModelRequest, ModelResponse, Part, Result, Secret,
    ToolCall, Usage,
};
use futures::StreamExt;
use serde_json::json;
use serde_json::value::RawValue;

fn block(provider: &str, raw: &str) -> ProviderBlock {
    ProviderBlock::new(provider, RawValue::from_string(raw.to_owned()).unwrap())
}

async fn events(model: &impl Model, request: ModelRequest) -> Vec<Result<ModelEvent>> {
    model.stream(request).await.unwrap().collect().await
}

async fn ask(model: &impl Model, request: impl Into<ModelRequest>) -> Result<ModelResponse> {
    model.call(request.into()).await
}

fn plain(events: Vec<Result<ModelEvent>>) -> Vec<ModelEvent> {
    events.into_iter().map(Result::unwrap).collect()
}
