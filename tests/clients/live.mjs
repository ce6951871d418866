// The official clients use a server as `docs/clients.md` describes: they run, approve, refuse, stop
// and reconnect. Argument: the address that the example server prints, with its token. The agents
// must answer from the example's script.
import assert from "node:assert/strict";

import { HttpAgent } from "@ag-ui/client";
import { DefaultChatTransport, readUIMessageStream } from "ai";

const address = new URL(process.argv[2]);
const base = address.origin;
const headers = { Authorization: `Bearer ${new URLSearchParams(address.hash.slice(1)).get("token")}` };
const complaints = [];
for (const level of ["warn", "error"]) {
  console[level] = (...texts) => complaints.push(texts.map(String).join(" "));
}

const stop = (threadId) => {
  const url = `${base}/agents/default/threads/${threadId}/interrupt`;
  return fetch(url, { method: "POST", headers });
};

async function runAgUi(agent, parameters, onText = () => {}) {
  const seen = { texts: "", errors: [], outcome: undefined };
  const subscriber = {
    onTextMessageContentEvent: ({ event }) => {
      seen.texts += event.delta;
      onText();
    },
    onRunFinishedEvent: ({ event }) => void (seen.outcome = event.outcome?.type),
    onRunErrorEvent: ({ event }) => void seen.errors.push(event.message),
  };
  try {
    await agent.runAgent(parameters, subscriber);
  } catch (error) {
    seen.thrown = String(error);
  }
  return seen;
}

function agUiAgent(threadId, text, id = "default") {
  const agent = new HttpAgent({ url: `${base}/agents/${id}/stream?format=ag-ui`, threadId, headers });
  agent.messages = [{ id: "input_0", role: "user", content: text }];
  return agent;
}

async function checkAgUi() {
  const greeted = await runAgUi(agUiAgent("ag-hello", "Hello"));
  assert.deepEqual([greeted.thrown, greeted.outcome], [undefined, "success"]);
  assert.match(greeted.texts, /scripted/);

  for (const approved of [true, false]) {
    const agent = agUiAgent(`ag-${approved}`, "approve");
    const asked = await runAgUi(agent);
    assert.deepEqual([asked.thrown, asked.outcome], [undefined, "interrupt"]);
    const [interrupt] = agent.pendingInterrupts;
    const resume = [{ interruptId: interrupt.id, status: "resolved", payload: { approved } }];
    const resumed = await runAgUi(agent, { resume });
    assert.deepEqual([resumed.thrown, resumed.outcome], [undefined, "success"]);
    assert.deepEqual(agent.pendingInterrupts, []);
    const result = agent.messages.find((message) => message.role === "tool");
    assert.equal(/written/i.test(result.content), approved, result.content);
  }

  let stopped;
  const cancelled = await runAgUi(agUiAgent("ag-slow", "slow"), {}, () => (stopped ??= stop("ag-slow")));
  assert.equal((await stopped).status, 202);
  assert.deepEqual([cancelled.thrown, cancelled.outcome], [undefined, "cancelled"]);

  const missing = await runAgUi(agUiAgent("ag-none", "Hello", "none"));
  assert.match(missing.thrown ?? missing.errors.join(), /404/);
}

function transport() {
  return new DefaultChatTransport({
    api: `${base}/agents/default/stream?format=ai-sdk`,
    headers,
    prepareReconnectToStreamRequest: ({ id }) => ({
      api: `${base}/agents/default/threads/${encodeURIComponent(id)}/events?format=ai-sdk`,
    }),
  });
}

/** Reads a stream; `message` is the answer that it continues, `onText` sees its text so far. */
async function readAnswer(stream, message, onText = () => {}) {
  const errors = [];
  const onError = (error) => errors.push(String(error));
  let last = message;
  for await (const next of readUIMessageStream({ message, stream, onError })) {
    last = next;
    if (textOf(next)) onText();
  }
  assert.deepEqual(errors, []);
  return last;
}

async function send(chatId, text, answer) {
  const user = { id: `${chatId}-input`, role: "user", parts: [{ type: "text", text }] };
  const messages = answer ? [user, answer] : [user];
  return transport().sendMessages({ chatId, messages, trigger: "submit-message" });
}

const callOf = (message) => message.parts.findLast((part) => part.type === "dynamic-tool");
const textOf = (message) => message.parts.map((part) => part.text ?? "").join("");

async function checkAiSdk() {
  assert.match(textOf(await readAnswer(await send("ai-hello", "Hello"))), /scripted/);

  for (const [approved, state] of [[true, "output-available"], [false, "output-denied"]]) {
    const chatId = `ai-${approved}`;
    const asked = structuredClone(await readAnswer(await send(chatId, "approve")));
    const call = callOf(asked);
    assert.equal(call.state, "approval-requested");
    call.state = "approval-responded";
    call.approval = { ...call.approval, approved };
    const resumed = await readAnswer(await send(chatId, "approve", asked), asked);
    assert.equal(callOf(resumed).state, state);
  }

  // The page is loaded again while its run is in progress.
  const first = await send("ai-slow", "slow");
  await first.cancel();
  const rest = await transport().reconnectToStream({ chatId: "ai-slow" });
  let stopped;
  const answer = await readAnswer(rest, undefined, () => (stopped ??= stop("ai-slow")));
  assert.equal((await stopped).status, 202);
  assert.match(textOf(answer), /Slowly/);
  assert.equal(await transport().reconnectToStream({ chatId: "ai-slow" }), null);
}

await checkAgUi();
await checkAiSdk();
const unexpected = complaints.filter((text) => !text.includes("404"));
assert.deepEqual(unexpected, [], "the clients print no warnings");
console.log("the clients run, approve, refuse, stop and reconnect");
