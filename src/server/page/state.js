// One session: what it contains, and how the messages of a run change it. Nothing here knows the
// page; a view sets `view` on the parts that it shows, and is updated once per frame.

/**
 * @typedef {{kind: "user", text: string, images: object[], isQueued?: boolean}} UserItem
 * @typedef {{kind: "answer", uuid: string, blocks: object[], isDone: boolean}} AnswerItem
 * @typedef {{kind: "note", tone: string, text: string}} NoteItem
 * @typedef {{kind: "end", tone: string, title: string, text?: string, runId?: string, retry?: boolean}} EndItem
 * @typedef {{items: (UserItem | AnswerItem | NoteItem | EndItem)[], view?: object}} List
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
  /** The number of messages in the store. */
  count = 0;

  #answers = new Map();
  /** The answers that are being written, by the call in which they are. */
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
    this.#answers.clear();
    this.#open.clear();
    this.questions.clear();
    this.tokens = { in: 0, out: 0 };
    const infos = state.infos ?? {};
    (state.messages ?? []).forEach((message, index) => this.#loadMessage(message, infos[index]));
    for (const call of this.calls.values()) if (!isOver(call)) call.state = state.running ? "running" : "stopped";
    const input = (state.inputs ?? []).at(-1);
    const answer = this.root.items.at(-1);
    const isOpen = input && input.answer === undefined && !state.pending?.length;
    this.lastInput = input ? { id: input.id, text: this.root.items.findLast((item) => item.kind === "user")?.text ?? "" } : null;
    if (!state.running && answer && (state.interrupted || isOpen || answer.isAborted)) {
      this.root.items.push({ kind: "end", tone: "warn", title: "The run was interrupted.", retry: Boolean(input) });
    }
    this.refresh(state);
    this.#touch(this.root);
  }

  /** Takes over what may have changed beside the messages. */
  refresh(state) {
    this.title = state.title ?? this.title;
    this.count = state.messages?.length ?? 0;
    this.#setTodos(state.todos ?? []);
    this.files = new Map(Object.entries(state.files ?? {}));
    for (const pending of state.pending ?? []) this.#ask(parkedQuestion(pending));
    this.onChange("panel");
    this.onChange("questions");
    this.onChange("usage");
  }

  #loadMessage(message, info) {
    const parts = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content ?? [];
    const text = () => parts.filter((part) => part.type === "text").map((part) => part.text).join("\n");
    if (message.role === "user") return this.root.items.push({ kind: "user", text: text(), images: parts.filter((part) => part.type === "image") });
    if (message.role === "tool") return this.#finish(message.tool_call_id, message.name, text(), message.is_error, message.details);
    if (message.role !== "assistant") return;
    const blocks = parts.map((part) => this.#block(part, "running")).filter(Boolean);
    for (const call of message.tool_calls ?? []) blocks.push({ type: "tool", call: this.#call(call.id, call.name, call.args, "running") });
    const item = { kind: "answer", uuid: info?.uuid ?? "", blocks, isDone: true, isAborted: info?.aborted };
    if (item.uuid) this.#answers.set(item.uuid, [this.root, item]);
    if (info?.usage) this.#count(info.usage);
    this.model = info?.model || this.model;
    this.root.items.push(item);
  }

  /** A block of the Messages API or a part of the store, as the page has it. */
  #block(block, state) {
    switch (block.type) {
      case "text":
        return { type: "text", text: block.text ?? "" };
      case "thinking":
        return { type: "thinking", text: block.thinking ?? block.block?.thinking ?? "" };
      case "image":
        return { type: "image", image: block };
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
    call.since = undefined;
    this.#closeQuestions(id);
    this.#touch(call);
  }

  /** Adds an input that was sent and is not in the stream; one for a running run waits first. */
  addInput(text, isQueued = false) {
    this.root.items = this.root.items.filter((item) => !(item.kind === "end" && item.retry));
    this.root.items.push({ kind: "user", text, images: [], isQueued });
    this.#touch(this.root);
  }

  addEnd(end) {
    this.root.items.push({ kind: "end", ...end });
    this.#touch(this.root);
  }

  /** Removes the last input and returns its text: it was not accepted. */
  takeInput() {
    const item = this.root.items.pop();
    this.#touch(this.root);
    return item?.text ?? "";
  }

  removeEnds() {
    this.root.items = this.root.items.filter((item) => item.kind !== "end");
    this.#touch(this.root);
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
        this.#answer(message, parent);
        break;
      case "user":
        this.#user(message, parent);
        break;
      case "tool_progress":
        this.#progress(message);
        break;
      case "permission_request":
        this.#ask(liveQuestion(message));
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
        if (parent) break;
        Object.assign(this, { model: message.model, mode: message.permissionMode });
        this.#setActivity("Thinking");
        this.onChange("init");
        break;
      case "status":
        if (message.permissionMode) this.mode = message.permissionMode;
        if (!parent && message.status) this.#setActivity(message.status === "compacting" ? "Summarising earlier messages" : "Thinking");
        this.onChange("run");
        break;
      case "stream_restart":
        this.#open.delete(parent);
        for (const item of this.#list(parent).items.filter((item) => item.kind === "answer" && !item.isDone)) this.#remove(parent, item);
        this.#supersede(message.supersedes);
        break;
      case "api_retry":
        this.#setActivity(`${message.error.replaceAll("_", " ")}: attempt ${message.attempt} of ${message.max_retries} in ${formatSeconds(message.retry_delay_ms / 1000)}`);
        break;
      case "compact_boundary": {
        const { pre_tokens: before, post_tokens: after } = message.compact_metadata;
        this.#add(parent, { kind: "note", tone: "info", text: `Earlier messages were summarised: ${formatCount(before)}${after === undefined ? "" : ` to ${formatCount(after)}`} tokens.` });
        break;
      }
      case "informational":
        if (message.level === "warning") this.#add(parent, { kind: "note", tone: "warn", text: message.content });
        break;
      case "notification":
        this.#add(parent, { kind: "note", tone: "info", text: message.text });
        break;
      case "permission_denied": {
        const call = this.#call(message.tool_use_id, message.tool_name);
        Object.assign(call, { state: "denied", reason: message.decision_reason ?? message.message });
        this.#closeQuestions(call.id);
        break;
      }
      case "state_changed":
        if (message.todos) this.#setTodos(message.todos);
        for (const path of message.files ?? []) this.files.set(path, null);
        this.onChange("panel");
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
      this.#open.set(parent, this.#add(parent, { kind: "answer", uuid: "", blocks: [], isDone: false }));
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

  #answer(message, parent) {
    const { content = [], usage, model } = message.message;
    const item = this.#open.get(parent);
    this.#open.delete(parent);
    this.#supersede(message.supersedes);
    const known = this.#answers.get(message.uuid);
    if (known) {
      // It was loaded from the store, and the log of the run has it again.
      if (item) this.#remove(parent, item);
      return;
    }
    const blocks = content.map((block) => this.#block(block, "running")).filter(Boolean);
    // The reasoning of some models is streamed and is not in the answer.
    const hasThoughts = blocks.some((block) => block.type === "thinking");
    if (item && !hasThoughts) blocks.unshift(...item.blocks.filter((block) => block?.type === "thinking"));
    const answer = item ?? this.#add(parent, { kind: "answer" });
    if (!item && !parent) for (const block of blocks) if (block.type === "text") this.onChange("delta", block.text + "\n");
    Object.assign(answer, { uuid: message.uuid, blocks, isDone: true, isAborted: message.aborted });
    if (message.uuid) this.#answers.set(message.uuid, [this.#list(parent), answer]);
    if (!parent && model) this.model = model;
    if (usage) this.#count(usage);
    if (!parent) this.#setActivity("Thinking");
    this.#touch(answer);
  }

  #remove(parent, item) {
    const list = this.#list(parent);
    list.items = list.items.filter((other) => other !== item);
    this.#touch(list);
  }

  #supersede(uuids = []) {
    for (const uuid of uuids) {
      const [list, item] = this.#answers.get(uuid) ?? [];
      if (!list) continue;
      list.items = list.items.filter((other) => other !== item);
      this.#answers.delete(uuid);
      this.#touch(list);
    }
  }

  #user(message, parent) {
    const { content } = message.message;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const data = [message.tool_use_result ?? []].flat();
    for (const block of blocks.filter((block) => block.type === "tool_result")) {
      const details = data.find((one) => one?.tool_use_id === block.tool_use_id)?.details;
      this.#finish(block.tool_use_id, "", resultText(block.content), block.is_error, details);
    }
    const text = blocks.filter((block) => block.type === "text").map((block) => block.text).join("\n");
    if (!text) return;
    const list = this.#list(parent);
    const queued = list.items.find((item) => item.isQueued && item.text === text);
    if (queued) queued.isQueued = false;
    // A message that was loaded from the store is in the log of the run again.
    else if (!list.items.slice(-50).some((item) => item.kind === "user" && item.text === text)) list.items.push({ kind: "user", text, images: [] });
    if (queued) this.#touch(queued);
    this.#touch(list);
  }

  #progress(message) {
    const { tool_use_id: id, tool_name: name, elapsed_time_seconds: seconds, data } = message;
    const call = this.#call(id, name);
    if (!call.name) call.name = name;
    call.elapsed = seconds;
    const isStart = data?.state === "started" && "args" in data;
    const isEnd = data?.state === "done" && "output" in data;
    if (isStart) Object.assign(call, { state: "running", args: data.args, since: Date.now() });
    else if (isEnd) {
      this.#finish(id, name, typeof data.output === "string" ? data.output : resultText(data.output), data.is_error);
    } else if (data !== undefined && data !== null) call.progress = (call.progress ? `${call.progress.slice(-20_000)}\n` : "") + progressText(data);
    if (isStart) this.#closeQuestions(id);
    if (!message.parent_tool_use_id) this.#setActivity(isEnd ? "Thinking" : `Running ${call.name}`);
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

  #closeQuestions(callId) {
    for (const question of this.questions.values()) if (question.callId === callId) this.closeQuestion(question.id);
  }

  #end(result) {
    this.lastRunId = this.run?.id ?? this.lastRunId;
    this.cost = Object.values(result.modelUsage ?? {}).some((usage) => usage.costBasis === "unknown") ? null : result.total_cost_usd;
    const reason = result.terminal_reason ?? "";
    const isParked = reason === "tool_deferred";
    for (const call of this.calls.values()) {
      if (!isOver(call) && !(isParked && call.state === "waiting")) {
        call.state = "stopped";
        this.#touch(call);
      }
    }
    const spent = `${formatSeconds(result.duration_ms / 1000)}, ${result.num_turns} ${result.num_turns === 1 ? "turn" : "turns"}`;
    const end = { tone: "ok", title: spent, runId: this.lastRunId };
    if (this.cost !== null && this.cost > 0) end.title += `, ${formatCost(this.cost)}`;
    if (reason.startsWith("aborted")) Object.assign(end, { tone: "warn", title: "Stopped." });
    else if (ENDS[reason]) Object.assign(end, { tone: "warn", title: ENDS[reason] });
    else if (result.subtype !== "success") Object.assign(end, { tone: "bad", title: "The run failed.", text: (result.errors ?? []).join("\n") || reason, retry: true });
    else if (result.stop_reason === "max_tokens") Object.assign(end, { tone: "warn", title: "The answer reached its greatest length." });
    this.questions.clear();
    if (!isParked) this.addEnd(end);
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
    for (const item of this.root.items) if (item.isQueued) Object.assign(item, { isQueued: false, isLate: true }), this.#touch(item);
    this.run = null;
    this.activity = null;
    this.onChange("run");
    this.onChange("questions");
    this.onChange("usage");
  }

  #setTodos(todos) {
    this.todos = todos;
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

function liveQuestion(message) {
  return { id: message.id, callId: message.tool_use_id, tool: message.tool_name, args: message.input, text: message.question,
    expectsText: message.expects_text, ...choicesOf(message, message.input) };
}

function parkedQuestion({ id, call, question, expects_text: expectsText, args_hash: hash, choices, expires_at_ms: expires }) {
  return { id, callId: call.id, tool: call.name, args: call.args, text: question, expectsText, hash, expires, isParked: true,
    ...choicesOf({ choices, expects_text: expectsText }, call.args) };
}

/** The answers to pick from: those of the request, else those of the only question in the arguments. */
function choicesOf(request, args) {
  const only = args?.questions?.length === 1 ? args.questions[0] : null;
  const isAsking = request.choices || (request.expects_text && only);
  const { options = [], multiple, header } = isAsking ? { ...only, ...(Array.isArray(request.choices) ? { options: request.choices } : request.choices) } : {};
  const choices = options.map((option) => (typeof option === "string" ? { label: option } : option));
  return { choices, isMultiple: Boolean(multiple ?? only?.multiSelect), header: header ?? only?.header };
}

function resultText(content) {
  if (!Array.isArray(content)) return formatValue(content ?? "");
  return content.map((block) => (block.type === "text" ? block.text : `[${block.type}]`)).join("\n");
}

function progressText(data) {
  const text = data.text ?? data.message ?? data.output ?? data.stdout;
  return typeof text === "string" ? text.replace(/\n$/, "") : formatValue(data);
}
