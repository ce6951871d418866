//! A run that is read, steered and interrupted while it is in progress.
//!
//! ```sh
//! cargo run --example streaming
//! ```

use std::io::{self, Write};

use agentcore::testing::{ScriptedModel, Step};
use agentcore::{Agent, FuncTool, SdkMessage};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let search = FuncTool::new(
        "search",
        "Searches the archive",
        json!({"type": "object"}),
        |cx, _args| async move {
            for shelf in 1..=3 {
                cx.progress(json!({"shelf": shelf})).await;
            }

            "Nothing about cats."
        },
    );
    let model = ScriptedModel::new()
        .step(Step::text("I will search for cats.").and_call("search", json!({"for": "cats"})))
        .expect(|request| assert_eq!(request.messages.last_content(), "I meant dogs."))
        .say("Dogs, then. There is a shelf full of them.")
        .step(Step::text("Once upon a time there was a dog, and").then_hang());
    let agent = Agent::builder(model)
        .tool(search)
        .include_partial_messages(true)
        .build()?;
    let session = agent.session("library");

    let mut run = session.clone().run("What do we have on cats?");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        match &message {
            SdkMessage::ToolProgress(progress) => {
                let data = progress.data.as_ref().ok_or("progress without data")?;
                println!("  [{} {data}]", progress.tool_name);
                if data["shelf"] == 2 {
                    handle.steer("I meant dogs.");
                }
            }
            SdkMessage::Assistant(_) => println!(),
            _ => print(&message),
        }
    }

    println!("-> {}\n", run.into_output()?.end);

    let mut run = session.run("Write a story");
    let handle = run.handle();
    let mut words = 0;
    while let Some(message) = run.next().await {
        print(&message);
        words += usize::from(message.text_delta().is_some());
        if words == 7 {
            handle.interrupt();
        }
    }

    let output = run.into_output()?;
    println!(
        "\n-> {}; the session stays valid, with {} messages",
        output.end,
        output.messages.len()
    );
    output.messages.validate_for_model()?;
    Ok(())
}

/// Prints a piece of a response at once, although it does not end with a line break.
fn print(message: &SdkMessage) {
    print!("{}", message.text_delta().unwrap_or_default());
    let _ = io::stdout().flush();
}
