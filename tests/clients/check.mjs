// The official clients read recorded streams: `HttpAgent` of @ag-ui/client, which verifies the
// order of the events, and `DefaultChatTransport` of the AI SDK with the reader behind `useChat`.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { HttpAgent } from "@ag-ui/client";
import { DefaultChatTransport, readUIMessageStream } from "ai";

const folder = process.argv[2];
const complaints = [];
for (const level of ["warn", "error"]) {
  console[level] = (...texts) => complaints.push(texts.map(String).join(" "));
}

/** The requests for the stream of a thread, and what answers them: a recording, or nothing. */
const reconnects = [];
let running = "resumed";

// Serves each recording in pieces that cut lines and characters.
const server = createServer((request, response) => {
  let [, format, name] = request.url.split("/");
  if (format === "agents") {
    reconnects.push([request.method, request.url, request.headers.authorization]);
    if (!running) return response.writeHead(204).end();
    [format, name] = ["ai-sdk", running];
  }
  const bytes = readFileSync(join(folder, `${name}.${format}.txt`));
  request.resume();
  response.writeHead(200, {
    "content-type": "text/event-stream",
    "x-vercel-ai-ui-message-stream": "v1",
  });
  for (let at = 0; at < bytes.length; at += 97) response.write(bytes.subarray(at, at + 97));
  response.end();
});
// The clients reuse connections, and this process may be stopped for longer than the default of five
// seconds while other programs work.
server.keepAliveTimeout = 0;
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${server.address().port}`;

async function agUi(name, agent, parameters) {
  const seen = { kinds: [], errors: [], outcome: undefined };
  const subscriber = {
    onEvent: ({ event }) => void seen.kinds.push(event.type),
    onRunFinishedEvent: ({ event }) => void (seen.outcome = event.outcome?.type),
    onRunErrorEvent: ({ event }) => void seen.errors.push(event.message),
  };
  agent.url = `${base}/ag-ui/${name}`;
  try {
    await agent.runAgent(parameters, subscriber);
  } catch (error) {
    seen.thrown = String(error);
  }
  return seen;
}

const agentOf = (threadId) => {
  const agent = new HttpAgent({ url: base, threadId });
  agent.messages = [{ id: "input_0", role: "user", content: "Read the files" }];
  return agent;
};

const texts = (messages, role) =>
  messages.filter((message) => message.role === role).map((message) => message.content);

async function checkAgUi() {
  const agent = agentOf("th_1");
  const story = await agUi("story", agent);
  assert.equal(story.thrown, undefined);
  assert.equal(story.outcome, "interrupt");
  assert.equal(agent.pendingInterrupts.length, 1);
  assert.ok(agent.state.todos.length === 1, "the task list arrived");
  assert.ok(!JSON.stringify(agent.messages).includes("First half"), "the answer started over");
  assert.ok(texts(agent.messages, "assistant").includes("A scout knows more."));
  assert.ok(story.kinds.includes("SUBAGENT_FINISHED"));

  const [interrupt] = agent.pendingInterrupts;
  const resume = [
    { interruptId: interrupt.id, status: "resolved", payload: { approved: true } },
  ];
  const resumed = await agUi("resumed", agent, { resume });
  assert.equal(resumed.thrown, undefined);
  assert.equal(resumed.outcome, "success");
  assert.ok(texts(agent.messages, "tool").includes("published"));
  assert.deepEqual(agent.pendingInterrupts, []);

  const failure = await agUi("failure", agentOf("th_2"));
  assert.match(failure.errors.join(), /the key was refused/);
  const cancelled = await agUi("interrupt", agentOf("th_3"));
  assert.equal(cancelled.thrown, undefined);
  assert.equal(cancelled.outcome, "cancelled");
}

async function aiSdk(name, message, trigger = "submit-message") {
  const transport = new DefaultChatTransport({ api: `${base}/ai-sdk/${name}` });
  const user = { id: "u1", role: "user", parts: [{ type: "text", text: "Read the files" }] };
  const messages = message ? [user, message] : [user];
  const stream = await transport.sendMessages({ chatId: "th_1", messages, trigger });
  const errors = [];
  const onError = (error) => errors.push(String(error));
  let last = message;
  for await (const next of readUIMessageStream({ message, stream, onError })) last = next;
  return { message: last, errors };
}

async function checkAiSdk() {
  const story = await aiSdk("story");
  assert.deepEqual(story.errors, []);
  const states = (message) =>
    message.parts.filter((part) => part.type === "dynamic-tool").map((part) => part.state);
  assert.deepEqual(states(story.message), [
    "output-available",
    "output-available",
    "output-denied",
    "output-available",
    "output-available",
    "approval-requested",
  ]);
  const written = JSON.stringify(story.message);
  assert.ok(!written.includes("First half"), "the step was reset");
  assert.ok(written.includes("A scout knows more."));

  const message = structuredClone(story.message);
  const part = message.parts.findLast((part) => part.state === "approval-requested");
  part.state = "approval-responded";
  part.approval = { ...part.approval, approved: true };
  const resumed = await aiSdk("resumed", message);
  assert.deepEqual(resumed.errors, []);
  assert.equal(states(resumed.message).at(-1), "output-available");

  // A page that was loaded again has no message to continue.
  const reconnected = await aiSdk("resumed");
  assert.deepEqual(reconnected.errors, []);
  const failure = await aiSdk("failure");
  assert.match(failure.errors.join(), /the key was refused/);
  assert.deepEqual((await aiSdk("interrupt")).errors, []);
}

/** The transport as `docs/clients.md` has it. */
async function checkReconnect() {
  const transport = new DefaultChatTransport({
    api: `${base}/agents/default/stream?format=ai-sdk`,
    headers: { Authorization: "Bearer TOKEN" },
    prepareReconnectToStreamRequest: ({ id }) => ({
      api: `${base}/agents/default/threads/${encodeURIComponent(id)}/events?format=ai-sdk`,
    }),
  });
  const errors = [];
  const stream = await transport.reconnectToStream({ chatId: "th_1" });
  const onError = (error) => errors.push(String(error));
  let last;
  for await (const next of readUIMessageStream({ stream, onError })) last = next;
  assert.deepEqual(errors, []);
  assert.ok(last.parts.length > 0, "the rest of the run arrived");
  running = "";
  assert.equal(await transport.reconnectToStream({ chatId: "th_1" }), null);
  const request = ["GET", "/agents/default/threads/th_1/events?format=ai-sdk", "Bearer TOKEN"];
  assert.deepEqual(reconnects, [request, request]);
}

await checkAgUi();
await checkAiSdk();
await checkReconnect();
server.close();
const unexpected = complaints.filter((text) => !text.includes("the key was refused"));
assert.deepEqual(unexpected, [], "the clients print no warnings");
console.log("the clients accept all recorded streams");
