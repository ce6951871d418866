// The model of one session, and the changes that the messages of a run make to it. This file does
// not use the DOM: a view sets `view` on the parts that it shows, and is updated once per frame.

/**
 * @typedef {{kind: "user", text: string, uuid?: string, isQueued?: boolean, isExpected?: boolean}} UserItem
 * @typedef {{kind: "response", uuid: string, blocks: object[], isDone: boolean}} ResponseItem
 * @typedef {{kind: "note", tone: string, text: string}} NoteItem
 * @typedef {{kind: "end", tone: string, title: string, text?: string, runId?: string, retry?: boolean}} EndItem
 * @typedef {{items: (UserItem | ResponseItem | NoteItem | EndItem)[], view?: object}} List
 */

/** The texts for the ends of a run that a person should know the reason of. */
const ENDS = {
  max_turns: "The run used up its turns.",
  budget_exhausted: "The run used up its budget.",
  structured_output_retry_exhausted: "The answer never had the required form.",
  hook_stopped: "A hook stopped the run.",
};

/** The states of a call in which it does nothing more. */
const isOver = (call) => ["ok", "failed", "denied", "stopped"].includes(call.state);

class Thread {
  title = "";
  /** @type {List} */
  root = { items: [] };
  calls = new Map();
  todos = [];
  /** The paths of the files that were written, with their contents where these are known. */
  files = new Map();
  questions = new Map();
  tokens = { in: 0, out: 0 };
  cost = null;
  model = "";
  mode = "";
  /** `{id, isStopping}` while a run is in progress. */
  run = null;
  lastRunId = "";
  /** The input that a retry sends again. */
  lastInput = null;
  activity = null;

  #responses = new Map();
  /** The responses that are being written, by the call in which they are. */
  #open = new Map();
  #dirty = new Set();
  #frame = 0;

  /** @param {(part: string, value?: any) => void} onChange is told what changed outside of the items */
  constructor(agent, id, onChange) {
    Object.assign(this, { agent, id, onChange });
  }

  /** Fills the session from its stored state, and keeps nothing else. */
  load(state) {
    this.root.items = [];
    this.calls.clear();
    this.#responses.clear();
    this.#open.clear();
    this.questions.clear();
    this.tokens = { in: 0, out: 0 };
    const messages = state.messages ?? [];
    messages.forEach((message, index) => {
      this.#loadMessage(message, state.infos?.[index]);
      const response = this.root.items.at(-1);
      const isLast = !state.running && index === messages.length - 1;
      if (message.role === "assistant" && !response.isAborted && (isLast || messages[index + 1]?.role === "user")) this.addEnd({ tone: "ok", title: "", response });
    });
    for (const call of this.calls.values()) if (!isOver(call)) call.state = state.running ? "running" : "stopped";
    const { items } = this.root;
    // The log of the run has the messages to it again.
    for (const item of items) if (item.kind === "user") item.isExpected = state.running;
    const input = state.inputs?.at(-1);
    // A state in the stream of a run has no inputs.
    if (state.inputs) this.lastInput = input && { id: input.id, text: items.findLast((item) => item.kind === "user")?.text ?? "" };
    if (!state.running && items.length && (state.interrupted || items.at(-1).isAborted)) {
      this.addEnd({ tone: "warn", title: "The last run ended without an answer.", retry: Boolean(input) });
    }
    this.refresh(state);
    this.#touch(this.root);
  }

  /** Takes over what may have changed beside the messages. */
  refresh(state) {
    this.title = state.title || this.title || (this.root.items[0]?.text ?? "").slice(0, 80);
    this.todos = state.todos ?? [];
    const { files = {} } = state;
    // A state in the stream of a run has the paths alone.
    this.files = new Map(Array.isArray(files) ? files.map((path) => [path, null]) : Object.entries(files));
    for (const pending of state.pending ?? []) this.#ask(questionOf(pending, pending.call));
    this.onChange("panel");
    this.onChange("questions");
    this.onChange("usage");
  }

  #loadMessage(message, info) {
    const { role, content } = message;
    const parts = partsOf(content);
    if (role === "user") return this.#add(null, { kind: "user", text: textOf(content) });
    if (role === "tool") return this.#finish(message.tool_call_id, message.name, textOf(content), message.is_error, message.details);
    if (role !== "assistant") return;
    const blocks = parts.map((part) => this.#block(part, "running")).filter(Boolean);
    for (const call of message.tool_calls ?? []) blocks.push({ type: "tool", call: this.#call(call.id, call.name, call.args, "running") });
    const item = { kind: "response", uuid: info?.uuid ?? "", blocks, isDone: true, isAborted: info?.aborted };
    if (item.uuid) this.#responses.set(item.uuid, [this.root, item]);
    if (info?.usage) this.#count(info.usage);
    this.root.items.push(item);
  }

  /** A block of the Messages API or a part of the store, as the page has it. */
  #block(block, state) {
    switch (block.type) {
      case "text":
        return { type: "text", text: block.text ?? "" };
      case "thinking":
        return { type: "thinking", text: block.thinking ?? block.block?.thinking ?? "" };
      case "tool_use":
      case "tool_call":
        return { type: "tool", call: this.#call(block.id, block.name, block.input ?? block.args, state) };
      default:
        return null;
    }
  }

  /** The call with this id, which is created when it is new. */
  #call(id, name, args, state) {
    let call = this.calls.get(id);
    if (!call) {
      call = { id, name, state: state ?? "writing", args: undefined, argsText: "", children: { items: [] } };
      this.calls.set(id, call);
    }
    if (args !== undefined) call.args = args;
    if (state && call.state === "writing") call.state = state;
    this.#touch(call);
    return call;
  }

  #finish(id, name, text, isError, details) {
    const call = this.#call(id, name, undefined, "running");
    if (call.state !== "denied") call.state = isError ? "failed" : "ok";
    call.result = text;
    call.details = details ?? call.details;
    this.#closeQuestionsOf(id);
    this.#touch(call);
  }

  /**
   * Adds an input that was sent and is not in the stream; one for a running run waits first.
   * Returns its item.
   */
  addInput(text, isQueued = false) {
    this.removeItems((item) => item.retry);
    return this.#add(null, { kind: "user", text, isQueued });
  }

  addEnd(end) {
    this.#add(null, { kind: "end", ...end });
  }

  removeItems(isUnwanted, list = this.root) {
    list.items = list.items.filter((item) => !isUnwanted(item));
    this.#touch(list);
  }

  /** Changes the session by one message of the stream. Returns true at the end of the run. */
  apply(message) {
    const parent = message.parent_tool_use_id ?? null;
    switch (message.type) {
      case "system":
        this.#system(message, parent);
        break;
      case "stream_event":
        this.#streamEvent(message.event, parent);
        break;
      case "assistant":
        this.#addResponse(message, parent);
        break;
      case "user":
        this.#user(message, parent);
        break;
      case "tool_progress":
        this.#progress(message);
        break;
      case "permission_request":
        this.#ask(questionOf(message, { id: message.tool_use_id, name: message.tool_name, args: message.input }));
        break;
      case "result":
        if (!parent) this.#end(message);
        return !parent;
    }
    return false;
  }

  #list(parent) {
    return parent ? this.#call(parent, "").children : this.root;
  }

  #add(parent, item) {
    const list = this.#list(parent);
    list.items.push(item);
    this.#touch(list);
    return item;
  }

  #system(message, parent) {
    switch (message.subtype) {
      case "init":
        Object.assign(this, { model: message.model, mode: message.permissionMode });
        this.#setActivity("Thinking");
        this.onChange("init");
        break;
      case "status":
        if (message.permissionMode) this.mode = message.permissionMode;
        if (!parent && message.status) this.#setActivity(message.status === "compacting" ? "Summarizing earlier messages" : "Thinking");
        this.onChange("run");
        break;
      case "stream_restart":
        this.#open.delete(parent);
        this.removeItems((item) => item.kind === "response" && !item.isDone, this.#list(parent));
        this.#supersede(message.supersedes);
        break;
      case "api_retry":
        this.#setActivity(`Trying again (${message.attempt} of ${message.max_retries}): ${message.error.replaceAll("_", " ")}`);
        break;
      case "compact_boundary": {
        const { pre_tokens: before, post_tokens: after } = message.compact_metadata;
        this.#add(parent, { kind: "note", tone: "info", text: `Earlier messages were summarized: ${formatCount(before)}${after === undefined ? "" : ` to ${formatCount(after)}`} tokens.` });
        break;
      }
      case "informational":
      case "notification":
        this.#add(parent, { kind: "note", tone: message.level === "warning" ? "warn" : "info", text: message.content ?? message.text });
        break;
      case "permission_denied":
        Object.assign(this.#call(message.tool_use_id, message.tool_name), { state: "denied", reason: message.decision_reason ?? message.message });
        this.#closeQuestionsOf(message.tool_use_id);
        break;
      case "state_changed":
        this.todos = message.todos ?? this.todos;
        for (const path of message.files ?? []) this.files.set(path, null);
        this.onChange("panel", message.files);
        break;
      case "task_started":
      case "task_progress":
      case "task_notification": {
        const id = message.tool_use_id ?? parent;
        if (!id) break;
        const call = this.#call(id, "");
        call.agent = { ...call.agent, name: message.subagent_type ?? call.agent?.name, text: message.description || call.agent?.text, usage: message.usage };
        break;
      }
    }
  }

  #streamEvent(event, parent) {
    if (event.type === "message_start") {
      this.#open.set(parent, this.#add(parent, { kind: "response", uuid: "", blocks: [], isDone: false }));
      return;
    }
    const item = this.#open.get(parent);
    if (!item) return;
    if (event.type === "content_block_start") {
      const start = event.content_block;
      item.blocks[event.index] = this.#block(start.type === "tool_use" ? { ...start, input: undefined } : start) ?? { type: "other" };
      if (!parent) this.#setActivity({ text: "Writing", thinking: "Reasoning", tool_use: `Preparing ${start.name}` }[start.type] ?? "Thinking");
      this.#touch(item);
    } else if (event.type === "content_block_delta") {
      const block = item.blocks[event.index];
      const { text, thinking, partial_json: json } = event.delta;
      if (block?.call) block.call.argsText += json ?? "";
      else if (block) block.text = (block.text ?? "") + (text ?? thinking ?? "");
      if (text && !parent) this.onChange("delta", text);
      this.#touch(block?.call ?? item);
    }
  }

  #addResponse(message, parent) {
    const { content = [], usage, model } = message.message;
    const item = this.#open.get(parent);
    this.#open.delete(parent);
    this.#supersede(message.supersedes);
    if (this.#responses.has(message.uuid)) {
      // It was loaded from the store, and the log of the run has it again.
      if (item) this.removeItems((other) => other === item, this.#list(parent));
      return;
    }
    const blocks = content.map((block) => this.#block(block, "running")).filter(Boolean);
    // The reasoning of some models is streamed and is not in the message.
    const hasThoughts = blocks.some((block) => block.type === "thinking");
    if (item && !hasThoughts) blocks.unshift(...item.blocks.filter((block) => block?.type === "thinking"));
    const response = item ?? this.#add(parent, { kind: "response" });
    if (!item && !parent) for (const block of blocks) if (block.type === "text") this.onChange("delta", block.text + "\n");
    Object.assign(response, { uuid: message.uuid, blocks, isDone: true, isAborted: message.aborted });
    if (message.uuid) this.#responses.set(message.uuid, [this.#list(parent), response]);
    this.model ||= model;
    if (usage) this.#count(usage);
    if (!parent) this.#setActivity("Thinking");
    this.#touch(response);
  }

  #supersede(uuids = []) {
    for (const uuid of uuids) {
      const [list, item] = this.#responses.get(uuid) ?? [];
      if (list) this.removeItems((other) => other === item, list);
    }
  }

  #user(message, parent) {
    const blocks = partsOf(message.message.content);
    const data = [message.tool_use_result ?? []].flat();
    const results = blocks.filter((block) => block.type === "tool_result");
    for (const { tool_use_id: id, content, is_error: isError } of results) {
      this.#finish(id, "", textOf(content), isError, data.find((one) => one?.tool_use_id === id)?.details);
    }
    if (results.length) return;
    const text = textOf(blocks);
    const { uuid } = message;
    const { items } = this.#list(parent);
    if (uuid && items.some((item) => item.uuid === uuid)) return;
    // It was sent here, or was loaded from the store and is in the log of the run again.
    const isSame = (item) => item.kind === "user" && item.text === text;
    const known = items.find((item) => item.isQueued && isSame(item)) ?? items.find((item) => item.isExpected && isSame(item));
    const item = known ?? this.#add(parent, { kind: "user", text });
    this.#touch(Object.assign(item, { uuid, isQueued: false, isExpected: false }));
  }

  #progress(message) {
    const { tool_use_id: id, tool_name: name, elapsed_time_seconds: seconds, data } = message;
    const call = Object.assign(this.#call(id, name), { name, elapsed: seconds });
    const isStart = data?.state === "started" && "args" in data;
    const isEnd = data?.state === "done" && "output" in data && "is_error" in data;
    const isWaiting = data?.state === "waiting" && Object.keys(data).length === 1;
    if (isStart) Object.assign(call, { state: "running", args: data.args });
    else if (isEnd) {
      this.#finish(id, name, textOf(data.output), data.is_error);
    } else if (isWaiting) call.state = "waiting";
    else if (data !== undefined && data !== null) {
      // A tool's own progress may have the form of the message of a call that waits.
      if (call.state === "waiting" && ![...this.questions.values()].some((question) => question.callId === id)) call.state = "running";
      call.progress = (call.progress ? `${call.progress.slice(-20_000)}\n` : "") + progressText(data);
    }
    if (isStart) this.#closeQuestionsOf(id);
    if (!message.parent_tool_use_id && !isWaiting) this.#setActivity(isEnd ? "Thinking" : `Running ${call.name}`);
  }

  #ask(question) {
    const call = this.calls.get(question.callId);
    if (call) {
      call.state = "waiting";
      this.#touch(call);
    }
    this.questions.set(question.id, question);
    this.#setActivity("Waiting for your answer");
    this.onChange("questions");
  }

  closeQuestion(id) {
    const question = this.questions.get(id);
    const call = this.calls.get(question?.callId);
    if (call?.state === "waiting") call.state = "running";
    if (call) this.#touch(call);
    this.questions.delete(id);
    this.onChange("questions");
  }

  /** Closes all questions: nothing waits for their answers any more. */
  closeQuestions() {
    for (const id of [...this.questions.keys()]) this.closeQuestion(id);
  }

  #closeQuestionsOf(callId) {
    for (const question of this.questions.values()) if (question.callId === callId) this.closeQuestion(question.id);
  }

  #end(result) {
    this.lastRunId = this.run?.id ?? this.lastRunId;
    this.cost = Object.values(result.modelUsage ?? {}).some((usage) => usage.costBasis === "unknown") ? null : result.total_cost_usd;
    const reason = result.terminal_reason ?? "";
    const isPending = reason === "tool_deferred";
    for (const call of this.calls.values()) {
      if (!isOver(call) && !(isPending && call.state === "waiting")) {
        call.state = "stopped";
        this.#touch(call);
      }
    }
    const spent = [formatSeconds(result.duration_ms / 1000), plural(result.num_turns, "turn"), this.cost > 0 && formatCost(this.cost)];
    const end = { tone: "ok", title: spent.filter(Boolean).join(", "), runId: this.lastRunId, response: this.root.items.findLast((item) => item.kind === "response") };
    if (reason.startsWith("aborted")) Object.assign(end, { tone: "warn", title: "Stopped." });
    else if (ENDS[reason]) Object.assign(end, { tone: "warn", title: ENDS[reason] });
    else if (result.subtype !== "success") Object.assign(end, { tone: "bad", title: "The run failed.", text: (result.errors ?? []).join("\n") || reason, retry: true });
    else if (["max_tokens", "model_context_window_exceeded"].includes(result.stop_reason)) Object.assign(end, { tone: "warn", title: "The answer reached its greatest length." });
    this.questions.clear();
    if (!isPending) this.addEnd(end);
    this.finishRun();
  }

  /** Sets the run that is in progress. */
  startRun() {
    this.run = { id: "", isStopping: false };
    this.#setActivity("Starting");
    this.onChange("run");
  }

  finishRun() {
    for (const [parent, item] of this.#open) {
      item.isDone = true;
      this.#touch(item);
      this.#open.delete(parent);
    }
    for (const item of this.root.items) {
      item.isExpected = false;
      if (item.isQueued) this.#touch(Object.assign(item, { isQueued: false, isLate: true }));
    }
    this.run = null;
    this.activity = null;
    this.onChange("run");
    this.onChange("questions");
    this.onChange("usage");
  }

  #count(usage) {
    this.tokens.in += (usage.input_tokens ?? 0) + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
    this.tokens.out += usage.output_tokens ?? 0;
    this.onChange("usage");
  }

  #setActivity(text) {
    if (this.questions.size && text !== "Waiting for your answer") text = "Waiting for your answer";
    if (this.activity?.text === text) return;
    this.activity = { text, since: Date.now() };
    this.onChange("activity");
  }

  /** Updates the views of a part with the next frame. */
  #touch(part) {
    this.#dirty.add(part);
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#flush());
  }

  #flush() {
    this.#frame = 0;
    const parts = [...this.#dirty];
    this.#dirty.clear();
    for (const part of parts) part.view?.update();
    this.onChange("flushed");
  }
}

/**
 * A question as the page has it: of a `permission_request`, or of a pending call.
 * The answers to pick from are those of the request, else those of the only question that the
 * arguments have.
 */
function questionOf(request, call) {
  const { id, question: text, expects_text: expectsText, args_hash: hash, expires_at_ms: expires } = request;
  const { questions } = call.args ?? {};
  const only = expectsText && questions?.length === 1 && questions[0];
  const { options: choices = [], multiple, multiSelect, header } = request.choices ?? (only || {});
  return { id, callId: call.id, tool: call.name, args: call.args, text, expectsText, hash, expires, isPending: Boolean(hash), choices, header,
    isMultiple: multiple ?? multiSelect };
}

/** The content of a message as a list, and as a text. */
const partsOf = (content) => (content && typeof content === "string" ? [{ type: "text", text: content }] : content || []);

function textOf(content) {
  if (!Array.isArray(content)) return formatValue(content ?? "");
  return content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("\n");
}

function progressText(data) {
  const text = data.text ?? data.message ?? data.output ?? data.stdout;
  return typeof text === "string" ? text.replace(/\n$/, "") : formatValue(data);
}
