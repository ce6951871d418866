//! Agents that are built from environment variables, in child processes.

use std::process::Command;

use agentcore::AgentBuilder;

/// The variable of a process that builds an agent and prints the result.
const CHILD: &str = "AGENTCORE_TEST_FROM_ENV";

fn built(variables: &[(&str, &str)]) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "--exact",
            "from_env::from_env_selects_the_model_of_the_environment",
        ])
        .args(["--nocapture", "--test-threads=1"])
        .env(CHILD, "1");
    for name in [
        "AGENTCORE_MODEL",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GEMINI_BASE_URL",
    ] {
        child.env_remove(name);
    }

    let output = child.envs(variables.iter().copied()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = stdout
        .lines()
        .find_map(|line| Some(line.split_once('@')?.1));
    line.unwrap_or_else(|| panic!("{stdout}")).to_owned()
}

#[test]
fn from_env_selects_the_model_of_the_environment() {
    if std::env::var_os(CHILD).is_some() {
        let built = AgentBuilder::from_env().and_then(AgentBuilder::build);
        match built {
            Ok(agent) => println!("@{} {}", agent.info().model, agent.info().max_turns),
            Err(error) => println!("@{:?}: {error}", error.kind()),
        }

        return;
    }

    let (claude, gpt) = (("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k"));
    let named = |model| ("AGENTCORE_MODEL", model);
    for (variables, expected) in [
        (vec![], "Config: no model is set"),
        (
            vec![named("  "), ("OPENAI_API_KEY", "")],
            "Config: no model is set",
        ),
        (vec![claude], "anthropic:claude-sonnet-5 100"),
        (vec![gpt], "openai:gpt-6-luna 100"),
        (vec![gpt, claude], "anthropic:claude-sonnet-5 100"),
        (
            vec![claude, named("ollama:llama3.1:8b")],
            "ollama:llama3.1:8b 100",
        ),
        (vec![claude, named("gpt-5")], "Auth: "),
        (vec![("GEMINI_API_KEY", "k")], "gemini:gemini-3.8-flash 100"),
        (
            vec![("GOOGLE_API_KEY", "k"), named("google:gemini-3.6-flash")],
            "gemini:gemini-3.6-flash 100",
        ),
        (
            vec![("GEMINI_API_KEY", "k"), named("gemini-4-argon")],
            "gemini:gemini-4-argon 100",
        ),
        (
            vec![("GOOGLE_API_KEY", " "), named("gemini:gemini-4-argon")],
            "Auth: gemini: there is no key; set the environment variable GEMINI_API_KEY",
        ),
        (
            vec![
                ("GEMINI_API_KEY", "k"),
                ("GEMINI_BASE_URL", "ftp://host/v1"),
                named("gemini:gemini-4-argon"),
            ],
            "Config: gemini: the base URL has the scheme \"ftp\"; use http or https",
        ),
        (
            vec![("GEMINI_API_KEY", "k"), named("gemini:a/b")],
            "Config: gemini: \"a/b\" is no name of a model",
        ),
        (vec![named("nobody:x")], "Config: "),
    ] {
        let built = built(&variables);
        assert!(built.starts_with(expected), "{variables:?}: {built}");
    }
}
