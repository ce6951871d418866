// The page as a whole: which agent and session are open, the run that is followed, and the controls.

const NARROW = matchMedia("(max-width: 899px)");

class App {
  agents = [];
  agent = null;
  /** @type {Thread | null} */
  thread = null;
  #reader = null;
  #decisions = [];
  #drafts = new Map();
  #isStuck = true;
  #sentence = "";
  #quietUntil = 0;

  constructor() {
    this.sessions = new SessionsView(this);
    this.panel = new PanelView(this);
    this.questions = new QuestionsView(byId("questions"), (question, answer) => this.#answer(question, answer));
    this.actions = {
      fork: (uuid) => this.#fork(uuid),
      retry: () => this.#retry(),
      openTrace: (id) => this.#openTrace(id),
      distanceToEnd: () => byId("scroller").scrollHeight - byId("scroller").scrollTop,
      scrollToDistance: (distance) => (byId("scroller").scrollTop = byId("scroller").scrollHeight - distance),
    };
    this.#bind();
  }

  async start() {
    api.takeToken();
    api.onRejected = () => this.#showGate();
    this.#setConnection("online");
    for (let failures = 0; ; failures++) {
      try {
        this.agents = await api.agents();
        break;
      } catch (error) {
        if (error.status === 401) return;
        if (error.status) return this.#showEmpty({ title: "The agents cannot be loaded.", text: error.message, action: button("Try again", () => location.reload(), "primary") });
        await this.#countDown(WAITS[Math.min(failures, WAITS.length - 1)]);
      }
    }
    this.#setConnection("online");
    byId("agent").replaceChildren(...this.agents.map(({ id, name }) => el("option", { value: id }, name && name !== id ? `${name} (${id})` : id)));
    if (!this.agents.length) {
      return this.#showEmpty({ title: "No agent is registered.", text: "Add one to the server's configuration, then load the page again.", action: button("Load again", () => location.reload(), "primary") });
    }
    const wanted = readFragment().get("agent");
    const first = this.agents.find(({ id }) => id === wanted) ?? this.agents.find(({ id }) => id === "default") ?? this.agents[0];
    await this.#setAgent(first.id, readFragment().get("session"));
  }

  async #setAgent(id, session) {
    this.agent = this.agents.find((agent) => agent.id === id);
    byId("agent").value = id;
    // The list has less than the agent's own description, which the empty session shows.
    const details = api.agent(id).then((info) => Object.assign(this.agent, info, { id }), (error) => this.fail(error));
    const list = this.sessions.load().catch((error) => this.fail(error));
    if (session) await this.open(session);
    else this.newSession();
    await Promise.all([details, list]);
    this.#updateControls();
    if (this.thread && !this.thread.root.items.length) this.#showThread();
  }

  newSession() {
    this.#leave();
    this.thread = this.#makeThread(newId("th_"));
    writeFragment({ agent: this.agent.id, session: null });
    this.#showThread();
    if (!NARROW.matches) byId("composer").focus();
  }

  async open(id) {
    if (!id || id === this.thread?.id) return this.setDrawer(null);
    this.#leave();
    const thread = (this.thread = this.#makeThread(id));
    byId("title").textContent = "Loading";
    byId("conversation").replaceChildren(el(".skeleton", { role: "status", "aria-label": "Loading the session" }, el("span"), el("span"), el("span")));
    try {
      const state = await api.thread(this.agent.id, id);
      if (this.thread !== thread) return;
      thread.load(state);
      writeFragment({ agent: this.agent.id, session: id });
      this.#showThread();
      if (state.running) this.#follow();
    } catch (error) {
      if (this.thread !== thread) return;
      const isGone = error.status === 404;
      if (isGone) writeFragment({ session: null });
      this.#showEmpty({ title: isGone ? "This session does not exist." : "The session cannot be loaded.", text: isGone ? "It may have been deleted." : error.message,
        action: isGone ? button("New session", () => this.newSession(), "primary") : button("Try again", () => ((this.thread = null), this.open(id)), "primary") });
    }
  }

  #makeThread(id) {
    const thread = new Thread(this.agent.id, id, (part, value) => {
      if (thread === this.thread) this.#changed(part, value);
    });
    return thread;
  }

  /** Stops to follow the open session; its run goes on. */
  #leave() {
    if (this.thread) this.#drafts.set(this.thread.id, byId("composer").value);
    this.#reader?.close();
    this.#reader = null;
    this.#decisions = [];
    this.#sentence = "";
    this.setDrawer(null);
    this.#setConnection("online");
  }

  /** Sends what was written: as the input of a run, or as a message to the run in progress. */
  async #send() {
    const text = byId("composer").value.trim();
    const { thread } = this;
    if (!text || !thread) return;
    this.#setComposer("");
    this.#isStuck = true;
    if (!thread.root.items.length) byId("conversation").replaceChildren(this.#listNode());
    if (!thread.run) return this.#startRun({ id: newId("in_"), text });
    thread.addInput(text, true);
    try {
      await api.control(thread.agent, thread.id, "steer", { content: text });
    } catch (error) {
      thread.root.items = thread.root.items.filter((item) => !(item.isQueued && item.text === text));
      thread.addEnd({ tone: "warn", title: "The message was not sent.", text: error.message });
      this.#setComposer(text);
    }
  }

  #startRun(input, isRepeated = false) {
    const { thread } = this;
    if (!isRepeated) thread.addInput(input.text);
    thread.lastInput = input;
    thread.title ||= input.text.slice(0, 80);
    writeFragment({ session: thread.id });
    const body = { thread_id: thread.id, input_id: input.id, messages: [{ role: "user", content: input.text }] };
    return this.#follow((signal) => api.stream(thread.agent, body, signal));
  }

  /** Follows the run that `open` starts, or the one in progress. */
  async #follow(open) {
    const { thread } = this;
    if (!open) this.#quietUntil = Date.now() + 500;
    thread.startRun();
    this.#reader?.close();
    const sink = {
      event: (event) => this.#event(thread, event),
      connection: (state) => thread === this.thread && this.#setConnection(state),
      gone: () => {
        thread.finishRun();
        if (thread === this.thread) this.#reload(thread);
      },
    };
    const reader = (this.#reader = new RunReader(thread.agent, thread.id, sink, open));
    try {
      await reader.read();
    } catch (error) {
      if (this.#reader !== reader) return;
      this.#setConnection("online");
      thread.finishRun();
      if (open && error.status === 409 && thread.root.items.at(-1)?.kind === "user") {
        this.#setComposer(thread.takeInput());
        toast("Another run of this session is in progress; send the message again to reach it.");
        return this.#follow();
      }
      if (error.status !== 401) thread.addEnd({ tone: "bad", title: "The run did not start.", text: error.message, retry: true });
    }
  }

  #event(thread, { id, event, data }) {
    const message = JSON.parse(data);
    if (id && thread.run) thread.run.id = id.slice(0, id.lastIndexOf(":"));
    if (event === "state") thread.load({ ...message, running: true });
    else if (event === "error") {
      thread.finishRun();
      thread.addEnd({ tone: "bad", title: "The run failed.", text: message.error ?? data, runId: thread.lastRunId, retry: true });
      return true;
    } else if (thread.apply(message)) {
      this.#runEnded(thread);
      return true;
    }
    return false;
  }

  async #runEnded(thread) {
    this.#speak("\n");
    try {
      thread.refresh(await api.thread(thread.agent, thread.id));
      await this.sessions.load();
    } catch (error) {
      this.fail(error);
    }
  }

  async #reload(thread) {
    try {
      thread.load(await api.thread(thread.agent, thread.id));
      await this.sessions.load();
    } catch (error) {
      this.fail(error);
    }
  }

  #retry() {
    const { thread } = this;
    if (!thread.lastInput || thread.run) return;
    thread.removeEnds();
    this.#startRun(thread.lastInput, true);
  }

  async #stop() {
    const { thread } = this;
    if (!thread?.run || thread.run.isStopping) return;
    thread.run.isStopping = true;
    this.#changed("run");
    try {
      await api.control(thread.agent, thread.id, "interrupt");
    } catch (error) {
      if (thread.run) thread.run.isStopping = false;
      this.#changed("run");
      this.fail(error);
    }
  }

  async #answer(question, answer) {
    const { thread } = this;
    const labels = (answer.picked ?? []).map((index) => question.choices[index]?.label);
    const text = answer.text || labels.join(", ");
    try {
      if (question.isParked) return this.#decide(question, answer.answer ? answer : { answer: "reply", text, picked: answer.picked });
      await api.answer(question.id, answer.answer ? answer : { picked: answer.picked, text });
      thread.closeQuestion(question.id);
    } catch (error) {
      if (error.status !== 404 && error.status !== 409) return this.fail(error);
      thread.closeQuestion(question.id);
      toast("The question was answered elsewhere, or no longer waits.");
    }
  }

  /** Answers a call that waits in the store. The run continues when all of them have an answer. */
  #decide(question, { answer, ...more }) {
    const { thread } = this;
    this.#decisions.push({ id: question.id, decision: answer, args_hash: question.hash, ...more });
    thread.closeQuestion(question.id);
    if ([...thread.questions.values()].some((other) => other.isParked)) return;
    const body = { thread_id: thread.id, decisions: this.#decisions.splice(0) };
    this.#follow((signal) => api.resume(thread.agent, body, signal));
  }

  async #fork(uuid) {
    const { thread } = this;
    try {
      let at;
      if (uuid) {
        const { infos = {} } = await api.thread(thread.agent, thread.id);
        const index = Object.keys(infos).find((index) => infos[index].uuid === uuid);
        if (index === undefined) return toast("This answer is not stored yet.", true);
        at = Number(index) + 1;
      }
      const { thread_id: copy } = await api.fork(thread.agent, thread.id, at);
      await Promise.all([this.sessions.load(), this.open(copy)]);
      toast("This is the copy; the other session stays as it was.");
    } catch (error) {
      this.fail(error);
    }
  }

  async #rename() {
    const { thread } = this;
    const title = await openDialog({ title: "Rename the session", value: thread.title, action: "Rename" });
    if (!title) return;
    try {
      await api.rename(thread.agent, thread.id, title);
      thread.title = title;
      this.#changed("title");
      await this.sessions.load();
    } catch (error) {
      this.fail(error);
    }
  }

  async #remove() {
    const { thread } = this;
    const isSure = await openDialog({ title: "Delete this session?", text: `“${thread.title || "Untitled session"}” is removed for good.`, action: "Delete", kind: "danger" });
    if (!isSure) return;
    try {
      await api.remove(thread.agent, thread.id);
      this.newSession();
      this.sessions.sessions = this.sessions.sessions.filter(({ id }) => id !== thread.id);
      await this.sessions.load();
    } catch (error) {
      this.fail(error.status === 409 ? new Error("A run is in progress; stop it first.") : error);
    }
  }

  #openTrace(id) {
    this.thread.lastRunId = id;
    this.setPanel(true);
    this.panel.select("trace");
    this.panel.tabs.trace.focus();
  }

  async #control(verb, value) {
    const { thread } = this;
    thread.wanted = { ...thread.wanted, [verb]: value };
    if (!thread.run) return;
    try {
      await api.control(thread.agent, thread.id, verb, { [verb]: value });
    } catch (error) {
      this.fail(error);
      delete thread.wanted[verb];
      this.#updateControls();
    }
  }

  /** Reports an error that no part of the page shows otherwise. */
  fail(error) {
    if (error.status !== 401) toast(error.message, true);
  }

  #changed(part, value) {
    const { thread } = this;
    switch (part) {
      case "init":
        for (const [verb, wanted] of Object.entries(thread.wanted ?? {})) {
          if (wanted && wanted !== thread[verb]) this.#control(verb, wanted);
        }
        this.sessions.load().catch((error) => this.fail(error));
        this.#updateControls();
        break;
      case "delta":
        this.#speak(value);
        break;
      case "panel":
        this.panel.update();
        break;
      case "questions":
        this.questions.update(thread.questions);
        this.#updateTitle();
        this.#updateActivity();
        break;
      case "flushed":
        if (this.#isStuck) this.#toEnd();
        break;
      case "usage": {
        const { tokens, cost } = thread;
        const texts = [tokens.in && `${formatCount(tokens.in)} tokens in`, tokens.out && `${formatCount(tokens.out)} out`, cost && `last run ${formatCost(cost)}`];
        byId("usage").textContent = texts.filter(Boolean).join(" · ");
        break;
      }
      default:
        this.#updateTitle();
        this.#updateControls();
        this.#updateActivity();
    }
  }

  #showThread() {
    const { thread } = this;
    const isEmpty = !thread.root.items.length;
    byId("conversation").replaceChildren(isEmpty ? this.#emptySession() : this.#listNode());
    this.#setComposer(this.#drafts.get(thread.id) ?? "");
    show(byId("composer-form"), true);
    show(byId("title-row"), true);
    for (const part of ["questions", "panel", "usage", "run"]) this.#changed(part);
    this.sessions.update();
    this.#isStuck = true;
    this.#toEnd();
  }

  #listNode() {
    this.list = new ListView(this.thread.root, this.actions);
    return this.list.node;
  }

  #emptySession() {
    const { name, id, description, tools = [] } = this.agent;
    const names = tools.map((tool) => tool.name ?? tool);
    const details = names.length > 0 && el("details.tools", {}, el("summary", {}, icon("chevron"), `${names.length} ${names.length === 1 ? "tool" : "tools"}`),
      el("ul", {}, names.map((tool) => el("li", {}, el("code", {}, tool)))));
    return emptyNode({ title: name ?? id, text: description || "Write a message to begin a session.", details });
  }

  #showEmpty(parts) {
    byId("conversation").replaceChildren(emptyNode(parts));
    byId("title").textContent = "";
    show(byId("composer-form"), false);
    show(byId("title-row"), false);
  }

  #showGate() {
    const hadToken = sessionStorage.getItem(TOKEN_KEY);
    const gate = byId("gate");
    if (!gate.hidden) return;
    const input = el("input", { type: "password", "aria-label": "Token", autocomplete: "off", required: true });
    const submit = (event) => {
      event.preventDefault();
      api.setToken(input.value.trim());
      location.reload();
    };
    gate.replaceChildren(el("form.card", { onsubmit: submit }, el("h2", { role: "alert" }, icon("alert"), hadToken ? "The server rejected the token." : "The server needs a token."),
      el("p", {}, "Open the address that the server printed at its start, or enter the token from it."), input, el("button.primary", {}, "Connect")));
    show(gate, true);
    for (const node of document.querySelectorAll("header, nav, main, aside")) node.inert = true;
    input.focus();
  }

  #updateTitle() {
    const { thread } = this;
    const title = thread.title || "New session";
    byId("title").textContent = title;
    const hasItems = thread.root.items.length > 0;
    show(byId("session-actions"), hasItems);
    document.title = `${thread.questions.size ? "Question · " : ""}${title} · ${this.agent.name ?? this.agent.id}`;
  }

  #updateControls() {
    const { thread, agent } = this;
    if (!thread) return;
    const model = thread.wanted?.model ?? (thread.model || agent.model || "");
    const models = agent.models ?? [];
    byId("model-name").textContent = model;
    show(byId("model-name"), !models.length);
    show(byId("model"), models.length);
    byId("model").replaceChildren(...[...new Set([model, ...models])].map((id) => el("option", { value: id }, id)));
    byId("model").value = model;
    byId("mode").value = thread.wanted?.mode ?? (thread.mode || agent.mode || "default");
    const { run } = thread;
    show(byId("stop"), run);
    byId("stop").disabled = Boolean(run?.isStopping);
    byId("send").disabled = !byId("composer").value.trim();
    const label = run ? "Send to the running agent" : "Send";
    byId("send").title = label;
    byId("send").setAttribute("aria-label", label);
    byId("composer").placeholder = run ? "Message to the running agent" : `Message to ${agent.name ?? agent.id}`;
  }

  #updateActivity() {
    const { run, activity, questions } = this.thread ?? {};
    const isShown = Boolean(activity && (run || questions.size));
    show(byId("activity"), isShown);
    if (!isShown) return;
    byId("activity-text").textContent = run?.isStopping ? "Stopping" : questions.size ? "Waiting for your answer" : activity.text;
    const seconds = Math.floor((Date.now() - activity.since) / 1000);
    byId("activity-time").textContent = seconds >= 2 ? formatSeconds(seconds) : "";
  }

  #setConnection(state) {
    const node = byId("connection");
    const isOnline = state === "online";
    if (isOnline && node.dataset.state === "online" && node.firstChild) return;
    node.dataset.state = isOnline ? "online" : "offline";
    node.replaceChildren(el("span.lamp", { "aria-hidden": "true" }), el("span.words", {}, isOnline ? "Connected" : `Offline, next attempt in ${state} s`));
    if (!isOnline) node.append(button("Now", () => (this.#reader ?? this.waiting)?.retryNow(), "quiet"));
  }

  async #countDown(seconds) {
    let isWoken = false;
    this.waiting = { retryNow: () => (isWoken = true) };
    for (let left = seconds * 4; left > 0 && !isWoken; left--) {
      if (left % 4 === 0) this.#setConnection(left / 4);
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }

  /** Reads out the answer sentence by sentence. */
  #speak(text) {
    if (Date.now() < this.#quietUntil) return;
    this.#sentence += text;
    const end = Math.max(...[". ", "! ", "? ", ": ", "\n"].map((mark) => this.#sentence.lastIndexOf(mark)));
    if (end < 0) return;
    const sentence = this.#sentence.slice(0, end + 1).replace(/[`*#>|_]+/g, "").trim();
    this.#sentence = this.#sentence.slice(end + 1);
    if (!sentence) return;
    byId("speech").append(el("p", {}, sentence.slice(0, 1000)));
    while (byId("speech").children.length > 10) byId("speech").firstChild.remove();
  }

  #toEnd() {
    byId("scroller").scrollTop = byId("scroller").scrollHeight;
  }

  #setComposer(text) {
    byId("composer").value = text;
    this.#fitComposer();
  }

  #fitComposer() {
    const area = byId("composer");
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * 0.4)}px`;
    byId("send").disabled = !area.value.trim();
  }

  /** Opens `sessions` or `panel` over a narrow page, or closes what is open. */
  setDrawer(name) {
    const old = document.body.dataset.drawer;
    if (!name && !old) return;
    if (name) document.body.dataset.drawer = name;
    else delete document.body.dataset.drawer;
    for (const key of ["sessions", "panel"]) byId(`open-${key}`).setAttribute("aria-expanded", String(name === key));
    show(byId("scrim"), name);
    for (const node of document.querySelectorAll("header, main")) node.inert = Boolean(name);
    byId(name ? `close-${name}` : `open-${old}`).focus();
  }

  setPanel(isOpen) {
    if (NARROW.matches) return this.setDrawer(isOpen ? "panel" : null);
    document.body.dataset.panel = isOpen ? "open" : "closed";
    byId("open-panel").setAttribute("aria-expanded", String(isOpen));
  }

  #bind() {
    const name = (id, symbol, label, onclick) => {
      const node = byId(id);
      node.append(icon(symbol));
      node.title = label;
      node.setAttribute("aria-label", label);
      node.onclick = onclick;
    };
    name("open-sessions", "menu", "Sessions", () => this.setDrawer("sessions"));
    name("close-sessions", "close", "Close the sessions", () => this.setDrawer(null));
    name("open-panel", "panel", "Tasks, files and trace", () => this.setPanel(NARROW.matches || document.body.dataset.panel !== "open"));
    name("close-panel", "close", "Close the panel", () => this.setPanel(false));
    name("theme", "light", "Switch between light and dark", () => switchTheme());
    name("stop", "stop", "Stop", () => this.#stop());
    name("send", "send", "Send", null);
    name("to-end", "down", "Go to the latest message", () => this.#toEnd());
    byId("session-actions").append(iconButton("pencil", "Rename the session", () => this.#rename()), iconButton("fork", "Copy the session", () => this.#fork()),
      iconButton("trash", "Delete the session", () => this.#remove()));
    byId("new-session").prepend(icon("plus"));
    byId("new-session").onclick = () => this.agent && this.newSession();
    byId("scrim").onclick = () => this.setDrawer(null);
    byId("skip").onclick = (event) => (event.preventDefault(), byId("composer").focus());
    byId("agent").onchange = () => this.#setAgent(byId("agent").value).catch((error) => this.fail(error));
    byId("mode").onchange = () => this.#control("mode", byId("mode").value);
    byId("model").onchange = () => this.#control("model", byId("model").value);
    byId("composer").oninput = () => this.#fitComposer();
    byId("composer-form").onsubmit = (event) => (event.preventDefault(), this.#send());
    byId("scroller").onscroll = () => {
      const { scrollHeight, scrollTop, clientHeight } = byId("scroller");
      this.#isStuck = scrollHeight - scrollTop - clientHeight < 80;
      show(byId("to-end"), !this.#isStuck);
    };
    document.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("visibilitychange", () => document.hidden || this.#look());
    addEventListener("online", () => (this.#reader ?? this.waiting)?.retryNow());
    NARROW.onchange = () => this.setDrawer(null);
    setInterval(() => this.#updateActivity(), 1000);
    this.setPanel(innerWidth >= 1200);
  }

  /** Looks for what happened while the page was in the background. */
  async #look() {
    if (!this.agent || !byId("gate").hidden) return;
    try {
      await this.sessions.load();
    } catch {
      return; // The connection is shown where something waits for it.
    }
    const open = this.sessions.sessions.find(({ id }) => id === this.thread?.id);
    if (open?.running && !this.thread.run) this.#follow();
  }

  #key(event) {
    const { key, target, altKey } = event;
    if (event.isComposing || document.querySelector("dialog[open]")) return;
    const isField = target.matches("input, textarea, select");
    if (key === "Enter" && target.id === "composer" && !event.shiftKey) {
      event.preventDefault();
      this.#send();
    } else if (key === "Escape") {
      if (document.body.dataset.drawer) this.setDrawer(null);
      else if (target.closest(".extra")) target.closest(".extra").querySelector(".quiet").click();
      else if (target.id === "search" && target.value) return;
      else this.#stop();
    } else if (altKey && (key === "ArrowUp" || key === "ArrowDown")) {
      event.preventDefault();
      this.open(this.sessions.neighbour(key === "ArrowUp" ? -1 : 1)?.id);
    } else if (key === "/" && !isField) {
      event.preventDefault();
      if (NARROW.matches) this.setDrawer("sessions");
      byId("search").focus();
    }
  }
}

function switchTheme() {
  const isDark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("agentcore.theme", document.documentElement.dataset.theme);
}

const theme = localStorage.getItem("agentcore.theme");
if (theme) document.documentElement.dataset.theme = theme;
const app = new App();
app.start().catch((error) => app.fail(error));
