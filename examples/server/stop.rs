//! The request to stop.

use tokio::signal;

/// Waits for Ctrl-C, or for the signal with which service managers and container engines end a
/// program.
pub(crate) async fn requested() {
    let interrupt = async {
        if let Err(error) = signal::ctrl_c().await {
            eprintln!("cannot listen for Ctrl-C: {error}; kill the process to stop the server");
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => {}
        () = terminated() => {}
    }
}

#[cfg(unix)]
async fn terminated() {
    match signal::unix::signal(signal::unix::SignalKind::terminate()) {
        // The stream of signals has no end.
        Ok(mut signals) => drop(signals.recv().await),
        Err(error) => {
            eprintln!("cannot listen for SIGTERM: {error}; use Ctrl-C to stop the server");
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending::<()>().await;
}
