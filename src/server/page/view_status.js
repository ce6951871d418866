// The state of the connection and of the run.

/** Shows `online`, or the seconds until the next attempt to connect. */
function showConnection(state) {
  const isOnline = state === "online";
  if (isOnline && ui.connection.dataset.state === state) return;
  ui.connection.dataset.state = isOnline ? state : "offline";
  fill(ui.connection, el("span.lamp"), el("span.words", isOnline ? "Connected" : `Offline, next attempt in ${state} s`),
    isOnline ? "" : button("Now", () => retryNow(), "quiet"));
}

function showActivity(thread) {
  const { run, activity, questions } = thread ?? {};
  const isShown = activity && (run || questions.size);
  show(ui.activity, isShown);
  if (!isShown) return;
  ui.activityText.textContent = run?.isStopping ? "Stopping" : questions.size ? "Waiting for your answer" : activity.text;
  const seconds = Math.floor((Date.now() - activity.since) / 1000);
  ui.activityTime.textContent = seconds >= 2 ? formatSeconds(seconds) : "";
}
