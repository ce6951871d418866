//! Results in the order of their calls.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::message::Message;

/// Returns the results after `response` in the order of its calls, for wire formats without ids.
/// Results of no call are last.
pub(crate) fn in_call_order<'a>(
    response: Option<&Message>,
    results: &'a [Arc<Message>],
) -> Cow<'a, [Arc<Message>]> {
    let Some(response) = response.filter(|response| !is_in_order(response, results)) else {
        return results.into();
    };
    let mut placed: Vec<_> = places(response, results).into_iter().zip(results).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed
        .into_iter()
        .map(|(_, result)| result.clone())
        .collect()
}

/// Returns `true` if the results are in the order of the calls. Allocates nothing, because
/// histories are checked for every request.
fn is_in_order(response: &Message, results: &[Arc<Message>]) -> bool {
    let mut calls = response.tool_calls();
    results.iter().all(|message| {
        match (message.as_tool_result(), calls.next()) {
            // A result usually shares the allocation of its call's id: pointers compare faster.
            (Some(result), Some(call)) => {
                Arc::ptr_eq(&result.tool_call_id, &call.id) || result.tool_call_id == call.id
            }
            _ => false,
        }
    })
}

/// Returns the position of the call of each result: the first call with its id that has no
/// earlier result. `usize::MAX` without one.
fn places(response: &Message, results: &[Arc<Message>]) -> Vec<usize> {
    let mut open_calls: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (place, call) in response.tool_calls().enumerate() {
        open_calls.entry(&*call.id).or_default().push_back(place);
    }
    results
        .iter()
        .map(|message| {
            let id = &message.as_tool_result()?.tool_call_id;
            open_calls.get_mut(&**id)?.pop_front()
        })
        .map(|place| place.unwrap_or(usize::MAX))
        .collect()
}
