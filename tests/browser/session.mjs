// The test of what the page does with a session, without a browser. Argument: the folder with the
// page's sources.

import assert from "node:assert/strict";

import { startPage, streamOf, until } from "./scripted_page.mjs";

const [sources] = process.argv.slice(2);
const END = { type: "result", subtype: "success", duration_ms: 1, num_turns: 1, total_cost_usd: 0 };

const userMessage = (uuid, text) => ({ type: "user", uuid, message: { content: text } });
const pendingCall = (id) => ({ id, args_hash: "h", call: { id, name: "write_file", args: {} } });
const buttons = (node, text) => node.all(({ tag, textContent }) => tag === "button" && textContent.endsWith(text));

/** A server with two agents, whose sessions are `threads`; other routes are `routes`. */
function server(threads, routes = {}) {
  return (method, path, body) => {
    const route = routes[`${method} ${path}`];
    if (route) return route(body);
    const [, , agent, , id] = path.split("/");
    if (id) return { messages: [], ...threads[id] };
    if (path.endsWith("/threads")) return { threads: Object.keys(threads).map((id) => ({ id, title: id })), next: null };
    return agent ? { name: agent } : [{ id: "a" }, { id: "b" }];
  };
}

async function openPage(threads, routes) {
  const { app, elements } = await startPage(sources, server(threads, routes));
  await until(() => app.thread?.isLoaded && app.sessions.sessions.length === Object.keys(threads).length, "the page has started");
  return { app, elements };
}

function send({ elements }, text) {
  elements.composer.value = text;
  elements.composerForm.onsubmit({ preventDefault() {} });
}

async function inputDropsDecisionsThatWereNotSent() {
  const bodies = [];
  const thread = { pending: [pendingCall("c1"), pendingCall("c2")] };
  const page = await openPage({ s: thread }, {
    "POST /agents/a/stream": () => {
      thread.pending = [pendingCall("c3")];
      return streamOf(END);
    },
    "POST /agents/a/resume": (body) => {
      bodies.push(body);
      return streamOf(END);
    },
  });
  const { app, elements } = page;
  await app.open("s");
  buttons(elements.questions, "Allow once")[0].onclick();
  assert.deepEqual([...app.thread.questions.keys()], ["c2"]);
  send(page, "Do something else");
  assert.equal(app.thread.questions.size, 0, "a question is open during the run that ended its wait");
  await until(() => app.thread.questions.has("c3"), "the third call is pending");
  buttons(elements.questions, "Allow once")[0].onclick();
  await until(() => bodies.length, "the decision is sent");
  assert.deepEqual(bodies[0].decisions.map(({ id }) => id), ["c3"]);
}

async function refusedInputLeavesQuestionsOpen() {
  const page = await openPage({ s: { messages: [{ role: "assistant", content: "", tool_calls: [{ id: "c1", name: "write_file", args: {} }] }], pending: [pendingCall("c1")] } }, {
    "POST /agents/a/stream": () => new Response("too large", { status: 413 }),
  });
  await page.app.open("s");
  send(page, "a");
  assert.equal(page.app.thread.questions.size, 0);
  await until(() => page.app.thread.questions.has("c1"), "the call is pending again");
}

async function fileOfAnotherSessionIsNotShown() {
  let content = "first content of a";
  const page = await openPage({ s: { files: { "notes.md": null } }, t: { files: { "notes.md": null } } }, {
    "GET /agents/a/files/read": () => ({ content }),
    "GET /agents/b/files/read": () => ({ content: "content of b" }),
  });
  const { app, elements } = page;
  const panel = () => elements.tabBody.textContent;
  await app.open("s");
  app.panel.select("files");
  buttons(elements.tabBody, "notes.md")[0].onclick();
  await until(() => panel().includes("first content of a"), "the file is shown");

  content = "second content of a";
  app.thread.apply({ type: "system", subtype: "state_changed", files: ["notes.md"] });
  await until(() => panel().includes("second content of a"), "the file is shown after it was written again");

  elements.agent.value = "b";
  await elements.agent.onchange();
  await app.open("t");
  assert.ok(panel().includes("notes.md") && !panel().includes("content of"), panel());
  buttons(elements.tabBody, "notes.md")[0].onclick();
  await until(() => panel().includes("content of b"), "the file of the other agent is shown");
}

async function traceOfAnEarlierRunIsNotShown() {
  let reply;
  const trace = (name) => ({ spans: [{ name, start_ms: 0, duration_ms: 1, attributes: {}, children: [] }] });
  const { app, elements } = await openPage({ s: {} }, {
    "GET /agents/traces/1": () => new Promise((resolve) => (reply = () => resolve(trace("first run")))),
    "GET /agents/traces/2": () => trace("second run"),
  });
  await app.open("s");
  app.thread.lastRunId = "1";
  app.panel.select("trace");
  await until(() => reply, "the first trace is requested");
  app.thread.lastRunId = "2";
  app.panel.update();
  await until(() => elements.tabBody.textContent.includes("second run"), "the second trace is shown");
  reply();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(elements.tabBody.textContent.includes("second run"), elements.tabBody.textContent);
}

async function equalMessagesToARunAreAllRead() {
  const { app } = await openPage({ s: { messages: [{ role: "user", content: "yes" }] } });
  await app.open("s");
  const { thread } = app;
  thread.startRun();
  for (const text of ["yes", "yes", "no"]) thread.addInput(text, true);
  for (const uuid of ["1", "2", "2"]) thread.apply(userMessage(uuid, "yes"));
  thread.apply(userMessage("3", "yes"));
  thread.finishRun();
  const users = thread.root.items.map(({ text, isLate }) => [text, Boolean(isLate)]);
  // The first one is from before the run, and the last one was sent by another page.
  assert.deepEqual(users, [["yes", false], ["yes", false], ["yes", false], ["no", true], ["yes", false]]);
}

async function refusedMessageLeavesAnEqualOneQueued() {
  let count = 0;
  const page = await openPage({ s: {} }, {
    "POST /agents/a/threads/s/steer": () => (++count === 1 ? {} : new Response("the run has ended", { status: 409 })),
  });
  await page.app.open("s");
  const { thread } = page.app;
  thread.startRun();
  send(page, "yes");
  send(page, "yes");
  await until(() => thread.root.items.length === 1, "the refused message is removed");
  assert.ok(thread.root.items[0].isQueued);
  assert.equal(page.elements.composer.value, "yes");
}

async function messagesInTheLogOfARunAreShownOnce() {
  const { app } = await openPage({ s: {} });
  const { thread } = app;
  thread.load({ running: true, messages: [{ role: "user", content: "a" }, { role: "user", content: "b" }] });
  thread.startRun();
  thread.apply(userMessage("1", "b"));
  thread.apply(userMessage("2", "b"));
  assert.deepEqual(thread.root.items.map(({ text }) => text), ["a", "b", "b"]);
}

async function stateInTheStreamOfARunHasThePathsOfFiles() {
  const { app } = await openPage({ s: {} });
  const { thread } = app;
  thread.lastInput = { id: "in_1", text: "Go" };
  thread.load({ running: true, messages: [{ role: "user", content: "Go" }], todos: [], files: ["b.md", "a.md"] });
  assert.deepEqual([...thread.files], [["b.md", null], ["a.md", null]]);
  assert.equal(thread.lastInput?.id, "in_1", "the input cannot be sent again");
}

async function progressWithAStateOfItsOwnDoesNotEndACall() {
  const { app } = await openPage({ s: {} });
  const { thread } = app;
  const progress = (data) => thread.apply({ type: "tool_progress", tool_use_id: "c1", tool_name: "act", elapsed_time_seconds: 0, data });
  const call = () => thread.calls.get("c1");
  thread.startRun();
  progress({ state: "started", args: {} });
  progress({ state: "done", output: "half" });
  assert.equal(call().state, "running");
  const text = call().progress;
  progress({ state: "waiting" });
  assert.deepEqual([call().state, call().progress], ["waiting", text]);
  progress({ percent: 50 });
  assert.equal(call().state, "running");
  progress({ state: "done", is_error: false, output: "whole" });
  assert.equal(call().state, "ok");
}

for (const test of [
  inputDropsDecisionsThatWereNotSent,
  refusedInputLeavesQuestionsOpen,
  fileOfAnotherSessionIsNotShown,
  traceOfAnEarlierRunIsNotShown,
  equalMessagesToARunAreAllRead,
  refusedMessageLeavesAnEqualOneQueued,
  messagesInTheLogOfARunAreShownOnce,
  stateInTheStreamOfARunHasThePathsOfFiles,
  progressWithAStateOfItsOwnDoesNotEndACall,
]) {
  await test();
  console.log(`ok: ${test.name}`);
}
