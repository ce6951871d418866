//! The hooks of a plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::hook::{self, FnHook};
use agentcore::tool::TaskOutcome;
use agentcore::{
    Content, Error, ErrorKind, FuncTool, Message, ModelResponse, Part, StopDecision, ToolCall,
    ToolDecision, ToolResult,
};
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::plan::{Does, HookPlan};
use super::world::panic_quietly;

fn failed() -> Error {
    Error::new(ErrorKind::Other, "as planned")
}

fn stray_call() -> ToolCall {
    ToolCall::new("stray", "par", json!({}))
}

fn spoiled() -> Content {
    [Part::text(""), Part::ToolCall(stray_call())].into()
}

/// Creates the hook of a plan, which holds `token`.
pub fn make(plan: HookPlan, token: Arc<()>) -> FnHook {
    use Does::*;
    let called = AtomicUsize::new(0);
    let due = move || {
        let _held = &token;
        let calls = called.fetch_add(1, Ordering::Relaxed) + 1;
        calls.is_multiple_of(plan.every)
    };

    let does = plan.does;
    let name = format!("{does:?}");
    match does {
        BeforeFails | BeforePanics | BeforeSpoils | BeforeRegisters => {
            hook::before_agent(name, move |_cx, mut state| {
                let due = due();
                async move {
                    yield_now().await;
                    match does {
                        _ if !due => {}
                        BeforeFails => return Err(failed()),
                        BeforePanics => panic_quietly(),
                        BeforeSpoils => {
                            state.messages.push(Message::ai_calling("", [stray_call()]));
                        }
                        _ => state.register_tool(FuncTool::new(
                            "nosuch",
                            "now there is",
                            json!({"type": "object"}),
                            |_cx, _args| async { "here" },
                        )),
                    }

                    Ok(state)
                }
            })
        }
        RequestInjects | RequestSpoils | RequestFails | RequestHangs => {
            hook::modify_request(name, move |_cx, mut messages| {
                let due = due();
                async move {
                    match does {
                        _ if !due => {}
                        RequestInjects => messages.push(Message::human("a reminder")),
                        RequestSpoils => messages.push(Message::ai_calling("", [stray_call()])),
                        RequestFails => return Err(failed()),
                        _ => std::future::pending().await,
                    }

                    Ok(messages)
                }
            })
        }
        ModelPasses | ModelTwice | ModelFails | ModelPanics | ModelReplaces(_) | ModelSpoils
        | ModelHangs => hook::wrap_model_call(name, move |request, next| {
            let due = due();
            async move {
                match does {
                    _ if !due => {}
                    ModelTwice => {
                        next.run(request.clone()).await?;
                        yield_now().await;
                    }
                    ModelFails => return Err(failed()),
                    ModelPanics => panic_quietly(),
                    ModelReplaces(text) => return Ok(ModelResponse::new(text)),
                    ModelSpoils => return Ok(ModelResponse::new(spoiled())),
                    ModelHangs => std::future::pending().await,
                    _ => yield_now().await,
                }

                next.run(request).await
            }
        }),
        PreDenies | PreAsks | PreStops | PreRewrites | PreSpoils | PreContext(_) | PrePanics
        | PreSpawns(_) => hook::pre_tool_use(name, move |cx, call| {
            let due = due();
            async move {
                Ok(match does {
                    _ if !due => ToolDecision::proceed(),
                    PreDenies => ToolDecision::deny("no"),
                    PreAsks => ToolDecision::ask("really?"),
                    PreStops => ToolDecision::stop("enough"),
                    PreRewrites => {
                        let mut args = (*call.args).clone();
                        args["more"] = true.into();
                        ToolDecision::proceed().with_args(args)
                    }
                    PreSpoils => ToolDecision::proceed().with_args(json!([1])),
                    PreContext(text) => ToolDecision::proceed().with_context(text),
                    PrePanics => panic_quietly(),
                    PreSpawns(for_ever) => {
                        let held = cx.clone();
                        cx.tasks().spawn("job", async move {
                            yield_now().await;
                            if for_ever {
                                std::future::pending::<()>().await;
                            }

                            TaskOutcome::Completed(held.session_id().to_string())
                        });

                        ToolDecision::allow()
                    }
                    _ => unreachable!("no hook of this phase"),
                })
            }
        }),
        ToolPasses | ToolTwice | ToolReplaces | ToolFails | ToolPanics | ToolHangs => {
            hook::wrap_tool_call(name, move |call, next| {
                let due = due();
                async move {
                    match does {
                        _ if !due => {}
                        ToolTwice => {
                            next.run(call.clone()).await?;
                        }
                        ToolReplaces => return Ok(ToolResult::ok(&call, "instead")),
                        ToolFails => return Err(failed()),
                        ToolPanics => panic_quietly(),
                        ToolHangs => std::future::pending().await,
                        _ => yield_now().await,
                    }

                    next.run(call).await
                }
            })
        }
        PostEmpties | PostRenames | PostSpoils | PostFails => {
            hook::post_tool_use(name, move |_cx, _call, mut result| {
                let due = due();
                async move {
                    match does {
                        _ if !due => {}
                        PostEmpties => result.content = Content::new(),
                        PostRenames => result.tool_call_id = "another".into(),
                        PostSpoils => result.content = spoiled(),
                        _ => return Err(failed()),
                    }

                    Ok(result)
                }
            })
        }
        StopGoesOn(_) | StopSpoils | StopPanics | StopHangs => {
            hook::before_stop(name, move |_cx, _response| {
                let due = due();
                async move {
                    Ok(match does {
                        _ if !due => StopDecision::Stop,
                        StopGoesOn(text) => StopDecision::continue_with(Message::human(text)),
                        StopSpoils => {
                            StopDecision::continue_with(Message::ai_calling("", [stray_call()]))
                        }
                        StopPanics => panic_quietly(),
                        _ => {
                            sleep(Duration::from_secs(3600)).await;
                            StopDecision::Stop
                        }
                    })
                }
            })
        }
        AfterFails | AfterPanics | AfterSpoils => hook::after_agent(name, move |_cx, mut state| {
            let due = due();
            async move {
                match does {
                    _ if !due => {}
                    AfterFails => return Err(failed()),
                    AfterPanics => panic_quietly(),
                    _ => state.messages.push(Message::ai_calling("", [stray_call()])),
                }

                Ok(state)
            }
        }),
    }
}
