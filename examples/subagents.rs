//! A lead agent that gives three researchers a file each, at the same time, and combines their
//! texts. The models are functions, so no key is needed; the files are in this repository.
//!
//! ```sh
//! cargo run --example subagents --features tools
//! ```

use agentcore::backend::LocalBackend;
use agentcore::sdk::SystemKind;
use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::FunctionModel;
use agentcore::tools::{self, preset};
use agentcore::{Agent, ModelEvent, ModelRequest, SdkMessage, ToolCall};
use serde_json::json;

const FILES: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    let mut agents = SubagentRegistry::new();
    let researcher = SubagentDefinition::new(
        "Finds the headings of a file",
        "You read a file and report its headings.",
    );
    agents.register("researcher", researcher.with_tools(["Grep"]))?;

    let files = LocalBackend::new(env!("CARGO_MANIFEST_DIR"))?;
    let task = tools::task(agents).model(FunctionModel::new(|request| research(&request)));
    let lead = Agent::builder(FunctionModel::new(|request| lead(&request)))
        .registry(&preset::coding(files))
        .tools(task.build()?)
        .build()?;

    let mut run = lead.run("What are the documents of this repository about?");
    while let Some(message) = run.next().await {
        print(&message);
    }
    let output = run.into_output()?;
    println!("({} turns of the lead)", output.turns);
    Ok(())
}

/// Prints the work of the researchers, indented, and the responses of the lead.
fn print(message: &SdkMessage) {
    match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::TaskStarted(task) => println!("    {} begins", task.description),
            SystemKind::TaskNotification(task) => println!("    {}", task.summary),
            _ => {}
        },
        SdkMessage::Assistant(response) if message.parent_tool_use_id().is_none() => {
            println!("{}", response.text());
        }
        _ => {}
    }
}

/// Responds as the model of the lead: three tasks in one response, then their results.
fn lead(request: &ModelRequest) -> Vec<agentcore::Result<ModelEvent>> {
    let mut results = request.messages.tool_messages().peekable();
    if results.peek().is_some() {
        let texts = results.map(|result| {
            let text = result.text().into_owned();
            // The first line has the id with which the subagent could be continued.
            text.lines().last().unwrap_or_default().to_owned()
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        return vec![Ok(ModelEvent::Text(format!("I have read them.\n{text}")))];
    }

    let calls = FILES.into_iter().map(|file| {
        let args = json!({
            "subagent_type": "researcher",
            "description": format!("Read {file}"),
            "prompt": file,
        });
        Ok(ModelEvent::ToolCall(ToolCall::new(file, "Task", args)))
    });
    let text = ModelEvent::Text("Three researchers read a file each.".to_owned());
    std::iter::once(Ok(text)).chain(calls).collect()
}

/// Responds as the model of a researcher: searches the file that the prompt names, and lists its
/// headings.
fn research(request: &ModelRequest) -> Vec<agentcore::Result<ModelEvent>> {
    let file = request.messages.user_messages().next();
    let file = file
        .map(|prompt| prompt.text().into_owned())
        .unwrap_or_default();
    let Some(result) = request.messages.tool_messages().next() else {
        let args = json!({"pattern": "^## ", "path": file, "output_mode": "content"});
        return vec![Ok(ModelEvent::ToolCall(ToolCall::new(
            "search", "Grep", args,
        )))];
    };
    let result = result.text();
    let headings: Vec<_> = result
        .lines()
        .filter_map(|line| line.split_once("## ").map(|(_, heading)| heading))
        .collect();
    let text = format!("{file}: {}", headings.join(", "));
    vec![Ok(ModelEvent::Text(text))]
}
