//! Reports of the enforced limits, and errors if some of the requested limits are missing.

use agentcore::ErrorKind;
use agentcore::backend::{Backend, Command, Sandbox, SandboxLimit};

use super::{Confined, is_able};

#[test]
fn report_lists_enforced_limits() {
    if !is_able() {
        return;
    }

    let report = Sandbox::new().check();
    assert!(report.abi >= 6 && report.seccomp);
    assert!(report.enforced.contains(&SandboxLimit::Files));
    assert!(report.enforced.contains(&SandboxLimit::Tcp));
    assert!(report.to_string().contains("signals"), "{report}");

    // Limits that are not requested are neither enforced nor missing.
    let report = Sandbox::new().any_network().signals().check();
    assert!(report.is_complete());
    for limit in [
        SandboxLimit::Tcp,
        SandboxLimit::Sockets,
        SandboxLimit::Signals,
    ] {
        assert!(!report.enforced.contains(&limit), "{limit}");
    }
}

#[test]
fn backend_reports_its_sandbox() {
    let confined = Confined::with(|sandbox| sandbox.max_abi(1));
    let report = confined.backend.sandbox_report().unwrap();
    assert!(report.missing.contains(&SandboxLimit::Truncation));
    assert!(confined.workspace.backend.sandbox_report().is_none());
}

#[tokio::test]
async fn command_is_a_config_error_when_limits_are_missing() {
    for (abi, port, missing) in [
        (0, None, &["files", "truncation", "signals"][..]),
        (2, None, &["truncation", "signals"]),
        (3, Some(443), &["truncation", "tcp", "signals"][1..]),
        (5, Some(443), &["signals"]),
    ] {
        let confined = Confined::with(|sandbox| sandbox.tcp_connect(port).max_abi(abi));
        let command = || Command::new("touch ran");
        let outcomes = [
            confined.backend.execute(command()).await.map(drop),
            confined.backend.start(command()).await.map(drop),
        ];
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let text = error.to_string();
            for limit in missing {
                assert!(text.contains(&format!("{limit} (needs ")), "{abi}: {text}");
            }

            assert!(text.contains("best_effort(true)"), "{text}");
        }
        assert!(!confined.workspace.root.join("ran").exists());
    }
}

#[tokio::test]
async fn best_effort_runs_with_missing_limits() {
    if !is_able() {
        return;
    }

    let confined = Confined::with(|sandbox| sandbox.max_abi(3).best_effort(true));
    let report = confined.backend.sandbox_report().unwrap();
    assert_eq!(report.missing, [SandboxLimit::Signals]);
    assert!(confined.run("touch ran").await.is_success());
    confined.refused("cat ../out/secret").await;
    confined.refused("echo > /dev/tcp/127.0.0.1/9").await;

    // Without Landlock, the system call filter is still active.
    let confined = Confined::with(|sandbox| sandbox.max_abi(0).best_effort(true));
    assert!(confined.run("cat ../out/secret").await.is_success());
    confined.refused("echo > /dev/tcp/127.0.0.1/9").await;
}
