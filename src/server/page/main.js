// The page as a whole: which agent and session are open, the run that is followed, and the controls.

class App {
  agents = [];
  agent = null;
  /** @type {Thread | null} */
  thread = null;
  #reader = null;
  /** The decisions about pending calls, until all of them have one. */
  #decisions = [];
  #drafts = new Map();
  #isAtEnd = true;
  #speaker = new Speaker();

  constructor() {
    this.sessions = new SessionsView(this);
    this.panel = new PanelView(this);
    this.questions = new QuestionsView(ui.questions, (question, answer) => this.#answer(question, answer));
    this.actions = {
      fork: (uuid) => this.#try(() => this.#fork(uuid)),
      retry: () => this.#retry(),
      openTrace: (id) => this.#openTrace(id),
    };
    this.#bindButtons();
    this.#bindEvents();
  }

  async start() {
    api.takeToken();
    api.onRejected = (text) => this.#showGate(text);
    await this.#loadAgents();
    showConnection("online");
    if (!this.agents.length) {
      return this.#showEmpty("No agent is registered.", "Add one to the server's configuration.", reloadButton());
    }
    ui.agent.append(...this.agents.map(({ id, name }) => el("option", { value: id }, name || id)));
    const fragment = readFragment();
    const id = [fragment.get("agent"), "default", this.agents[0].id].find((id) => this.agents.some((agent) => agent.id === id));
    await this.#setAgent(id, fragment.get("session"));
  }

  async #loadAgents() {
    for (let failures = 0; ; failures++) {
      try {
        return (this.agents = await api.agents());
      } catch (error) {
        if (error.status) throw error;
        await countDown(failures, (left) => showConnection(left));
      }
    }
  }

  async #setAgent(id, session) {
    this.agent = this.agents.find((agent) => agent.id === id);
    ui.agent.value = id;
    // The list has less than the agent's own description.
    const details = this.#try(async () => Object.assign(this.agent, await api.agent(id), { id }));
    const list = this.#try(() => this.sessions.load());
    if (session) await this.open(session);
    else this.newSession();
    await Promise.all([details, list]);
    if (this.thread.isLoaded && !this.thread.root.items.length) this.#showWelcome();
    this.#updateControls();
  }

  newSession() {
    this.#leave(newId("th_"));
    this.thread.isLoaded = true;
    writeFragment({ agent: this.agent.id, session: null });
    this.#showThread();
    if (!NARROW.matches) ui.composer.focus();
  }

  async open(id) {
    if (!id || id === this.thread?.id) return setDrawer(null);
    this.#leave(id);
    const { thread } = this;
    ui.title.textContent = "Loading";
    fill(ui.conversation, el(".skeleton", { role: "status", "aria-label": "Loading the session" }));
    try {
      const state = await api.thread(this.agent.id, id);
      if (this.thread !== thread) return;
      thread.load(state);
      thread.isLoaded = true;
      writeFragment({ agent: this.agent.id, session: id });
      this.#showThread();
      if (state.running) this.#follow();
    } catch (error) {
      if (this.thread !== thread) return;
      this.#showEmpty("The session cannot be loaded.", error.message, button("New session", () => this.newSession(), "primary"),
        error.status !== 404 && button("Try again", () => ((this.thread = null), this.open(id))));
    }
  }

  /** Turns to another session. The run of the one before goes on. */
  #leave(id) {
    if (this.thread) this.#drafts.set(this.thread.id, ui.composer.value);
    this.#reader?.close();
    this.#reader = null;
    this.#decisions = [];
    setDrawer(null);
    showConnection("online");
    const thread = (this.thread = new Thread(this.agent.id, id, (part, value) => {
      if (thread === this.thread) this.#changed(part, value);
    }));
  }

  /** Sends what was written: as the input of a run, or as a message to the run in progress. */
  async #send() {
    const text = ui.composer.value.trim();
    const { thread } = this;
    if (!text || !thread?.isLoaded) return;
    this.#setComposer("");
    this.#isAtEnd = true;
    if (!thread.root.items.length) this.#showItems();
    if (!thread.run) return this.#startRun({ id: newId("in_"), text });
    const item = thread.addInput(text, true);
    try {
      await api.control(thread, "steer", { content: text });
    } catch (error) {
      thread.removeItems((other) => other === item);
      this.fail(error);
      this.#setComposer(text);
    }
  }

  #startRun(input, isRepeated = false) {
    const { thread } = this;
    // An input ends the wait of pending calls, and with it the decisions that are not sent yet.
    this.#decisions = [];
    thread.closeQuestions();
    if (!isRepeated) thread.addInput(input.text);
    thread.lastInput = input;
    thread.title ||= input.text.slice(0, 80);
    writeFragment({ session: thread.id });
    const body = { thread_id: thread.id, input_id: input.id, messages: [{ role: "user", content: input.text }] };
    this.#follow((signal) => api.stream(thread.agent, body, signal), input);
  }

  #retry() {
    const { thread } = this;
    if (!thread.lastInput || thread.run) return;
    thread.removeItems((item) => item.retry);
    this.#startRun(thread.lastInput, true);
  }

  /** Follows the run that `open` starts, by an input or by decisions; without it, the one in progress. */
  async #follow(open, input) {
    const { thread } = this;
    if (!open) this.#speaker.pause();
    thread.startRun();
    const sink = {
      event: (event) => this.#event(thread, event),
      connection: (state) => thread === this.thread && showConnection(state),
      gone: () => (thread.finishRun(), this.#refresh(thread, "load")),
    };
    const reader = (this.#reader = new RunReader(thread.agent, thread.id, sink, open));
    try {
      await reader.read();
    } catch (error) {
      if (this.#reader !== reader) return;
      showConnection("online");
      thread.finishRun();
      if (input && error.status === 409) {
        thread.removeItems((item) => item.text === input.text && item === thread.root.items.at(-1));
        this.#setComposer(input.text);
        toast("Another run of this session is in progress. Send the message again to reach it.");
        return this.#follow();
      }
      thread.addEnd({ tone: "bad", title: "The run cannot be followed.", text: error.message, retry: Boolean(input) });
      // The calls whose questions the input closed may be pending still.
      if (!input || thread.calls.size) this.#refresh(thread, "refresh");
    }
  }

  #event(thread, { id, data }) {
    if (id && thread.run) thread.run.id = id.slice(0, id.lastIndexOf(":"));
    try {
      const message = JSON.parse(data);
      // The server no longer has all that this page missed.
      if (message.subtype === "state") thread.load({ ...message, running: true });
      if (!thread.apply(message)) return false;
    } catch (error) {
      console.error(error);
      return this.fail(error);
    }
    this.#speaker.say("\n");
    this.#refresh(thread, "refresh");
    return true;
  }

  #refresh(thread, how) {
    return this.#try(async () => {
      thread[how](await api.thread(thread.agent, thread.id));
      await this.sessions.load();
    });
  }

  #stop() {
    const { thread } = this;
    if (!thread?.run || thread.run.isStopping) return;
    thread.run.isStopping = true;
    this.#changed("run");
    api.control(thread, "interrupt").catch((error) => {
      if (thread.run) thread.run.isStopping = false;
      this.#changed("run");
      this.fail(error);
    });
  }

  async #answer(question, answer) {
    const { thread } = this;
    const labels = (answer.picked ?? []).map((index) => question.choices[index]?.label);
    const text = answer.text || labels.join(", ");
    if (question.isPending) return this.#decide(question, answer.answer ? answer : { answer: "reply", text, picked: answer.picked });
    try {
      await api.answer(question.id, answer.answer ? answer : { picked: answer.picked, text });
    } catch (error) {
      if (error.status !== 404 && error.status !== 409) return this.fail(error);
      toast("The question was answered elsewhere, or no longer waits.");
    }
    thread.closeQuestion(question.id);
  }

  /** Decides about a pending call. The run continues when all of them have a decision. */
  #decide(question, { answer, ...more }) {
    const { thread } = this;
    this.#decisions.push({ id: question.id, decision: answer, args_hash: question.hash, ...more });
    thread.closeQuestion(question.id);
    if (thread.questions.size) return;
    const body = { thread_id: thread.id, decisions: this.#decisions.splice(0) };
    this.#follow((signal) => api.resume(thread.agent, body, signal));
  }

  async #fork(uuid) {
    const { agent, id } = this.thread;
    let at;
    if (uuid) {
      const { infos = {} } = await api.thread(agent, id);
      at = Number(Object.keys(infos).find((index) => infos[index].uuid === uuid)) + 1;
      if (!at) throw new Error("This answer is not in the store.");
    }
    const { thread_id: copy } = await api.fork(this.thread, at);
    await Promise.all([this.sessions.load(), this.open(copy)]);
    toast("This is the copy. The other session stays as it was.");
  }

  async #rename() {
    const { thread } = this;
    const title = await openDialog({ title: "Rename the session", value: thread.title, action: "Rename" });
    if (!title) return;
    await api.rename(thread, title);
    thread.title = title;
    this.#updateTitle();
    await this.sessions.load();
  }

  async #remove() {
    const { thread } = this;
    const text = `“${thread.title}” is removed for good.`;
    if (!(await openDialog({ title: "Delete this session?", text, action: "Delete", kind: "danger" }))) return;
    await api.remove(thread);
    this.newSession();
    await this.sessions.load(thread.id);
  }

  #openTrace(id) {
    this.thread.lastRunId = id;
    setPanel(true);
    this.panel.select("trace");
    this.panel.tabs.trace.focus();
  }

  /** Sets the `mode` or the `model` of the run; without one, of the next. */
  #control(verb, value) {
    const { thread } = this;
    if (thread) thread.wanted = { ...thread.wanted, [verb]: value };
    if (!thread?.run) return;
    return api.control(thread, verb, { [verb]: value }).catch((error) => {
      thread.wanted = { ...thread.wanted, [verb]: "" };
      this.#updateControls();
      this.fail(error);
    });
  }

  async #try(work) {
    try {
      return await work();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Reports an error that no other part of the page shows. */
  fail(error) {
    if (error.status !== 401) toast(error.message, true);
  }

  #changed(part, value) {
    const { thread } = this;
    if (part === "delta") return this.#speaker.say(value);
    if (part === "panel") return this.panel.update(value);
    if (part === "flushed") return this.#isAtEnd && this.#toEnd();
    if (part === "questions") this.questions.update(thread.questions);
    if (part === "init") {
      for (const [verb, wanted] of Object.entries(thread.wanted ?? {})) if (wanted && wanted !== thread[verb]) this.#control(verb, wanted);
      this.#try(() => this.sessions.load());
    }
    if (part === "usage") {
      const { tokens, cost } = thread;
      const texts = [tokens.in && `${formatCount(tokens.in)} tokens in`, tokens.out && `${formatCount(tokens.out)} out`, cost && `last run ${formatCost(cost)}`];
      ui.usage.textContent = texts.filter(Boolean).join(" · ");
    }
    this.#updateTitle();
    this.#updateControls();
    showActivity(this.thread);
  }

  #showThread() {
    const { thread } = this;
    document.body.classList.remove("idle");
    if (thread.root.items.length) this.#showItems();
    else this.#showWelcome();
    this.#setComposer(this.#drafts.get(thread.id) ?? "");
    for (const part of ["questions", "panel", "usage"]) this.#changed(part);
    this.sessions.update();
    this.#isAtEnd = true;
    this.#toEnd();
  }

  #showItems() {
    fill(ui.conversation, new ListView(this.thread.root, this.actions).node);
  }

  #showWelcome() {
    const { name, id, description, tools = [] } = this.agent;
    const list = tools.length > 0 && el("details", el("summary", icon("chevron"), plural(tools.length, "tool")),
      el("ul", tools.map((tool) => el("li", el("code", tool.name ?? tool)))));
    fill(ui.conversation, emptyNode(name || id, description || "Write a message to begin a session.", list));
  }

  #showEmpty(...parts) {
    fill(ui.conversation, emptyNode(...parts));
    document.body.classList.add("idle");
  }

  async #showGate(login) {
    if (document.querySelector("dialog")) return;
    if (login) return this.#showEmpty("You are not logged in.", login, reloadButton());
    const title = sessionStorage.getItem(TOKEN_KEY) ? "The server rejected the token." : "The server needs a token.";
    const text = "Open the address that the server printed at its start, or enter the token from it.";
    this.#showEmpty(title, text, button("Enter the token", () => this.#showGate(), "primary"));
    const token = await openDialog({ title, text, value: "", type: "password", label: "Token", action: "Connect" });
    if (!token) return;
    sessionStorage.setItem(TOKEN_KEY, token);
    location.reload();
  }

  #updateTitle() {
    const { thread, agent } = this;
    const title = thread.title || "New session";
    ui.title.textContent = title;
    show(ui.sessionActions, thread.root.items.length);
    document.title = `${thread.questions.size ? "Question · " : ""}${title} · ${agent.name || agent.id}`;
  }

  #updateControls() {
    const { agent } = this;
    const { run, wanted, model: current, mode } = this.thread;
    const model = wanted?.model || current || agent.model || "";
    const { models = [] } = agent;
    ui.modelName.textContent = model;
    show(ui.modelName, models.length < 2);
    show(ui.model, models.length > 1);
    fill(ui.model, ...[...new Set([model, ...models])].map((id) => el("option", { value: id }, id)));
    ui.model.value = model;
    ui.mode.value = wanted?.mode || mode || "default";
    show(ui.stop, run);
    ui.stop.disabled = Boolean(run?.isStopping);
    nameControl(ui.send, run ? "Send to the running agent" : "Send");
    ui.composer.placeholder = run ? "Add a message" : `Message to ${agent.name || agent.id}`;
  }

  #toEnd() {
    ui.scroller.scrollTop = ui.scroller.scrollHeight;
  }

  #setComposer(text) {
    ui.composer.value = text;
    this.#fitComposer();
  }

  #fitComposer() {
    const { style, scrollHeight } = (ui.composer.style.height = "auto", ui.composer);
    style.height = `${Math.min(scrollHeight + 2, innerHeight * 0.4)}px`;
    ui.send.disabled = !ui.composer.value.trim();
  }

  #bindButtons() {
    bind(ui.openSessions, "menu", "Sessions", () => setDrawer("sessions"));
    bind(ui.closeSessions, "close", "Close the sessions", () => setDrawer(null));
    bind(ui.openPanel, "panel", "Tasks, files and trace", () => setPanel(NARROW.matches || !document.body.hasAttribute("data-panel")));
    bind(ui.closePanel, "close", "Close the panel", () => setPanel(false));
    bind(ui.theme, "light", "Switch between light and dark", switchTheme);
    bind(ui.stop, "stop", "Stop", () => this.#stop());
    bind(ui.send, "send", "Send", null);
    bind(ui.toEnd, "down", "Go to the latest message", () => this.#toEnd());
    bind(ui.rename, "pencil", "Rename the session", () => this.#try(() => this.#rename()));
    bind(ui.fork, "fork", "Copy the session", () => this.actions.fork());
    bind(ui.remove, "trash", "Delete the session", () => this.#try(() => this.#remove()));
    bind(ui.newSession, "plus", "", () => this.agent && this.newSession());
    ui.scrim.onclick = () => setDrawer(null);
  }

  #bindEvents() {
    ui.skip.onclick = (event) => (event.preventDefault(), ui.composer.focus());
    ui.agent.onchange = () => this.#setAgent(ui.agent.value);
    for (const verb of ["mode", "model"]) ui[verb].onchange = () => this.#control(verb, ui[verb].value);
    ui.composer.oninput = () => this.#fitComposer();
    ui.composerForm.onsubmit = (event) => (event.preventDefault(), this.#send());
    ui.scroller.onscroll = () => {
      const { scrollHeight, scrollTop, clientHeight } = ui.scroller;
      this.#isAtEnd = scrollHeight - scrollTop - clientHeight < 80;
      show(ui.toEnd, !this.#isAtEnd);
    };
    document.onkeydown = (event) => this.#key(event);
    document.onvisibilitychange = () => document.hidden || this.#look();
    window.ononline = () => retryNow();
    // An address with another token or session was entered.
    window.onhashchange = () => location.reload();
    NARROW.onchange = () => setDrawer(null);
    setInterval(() => showActivity(this.thread), 1000);
    setPanel(innerWidth >= 1200);
  }

  /** Looks for what happened while the page was in the background. */
  async #look() {
    // Without a connection there is nothing to see; it is shown where something waits for it.
    if (!this.agent || ui.connection.dataset.state !== "online") return;
    await this.#try(() => this.sessions.load());
    const open = this.sessions.sessions.find(({ id }) => id === this.thread.id);
    if (open?.running && !this.thread.run && this.thread.isLoaded) this.#follow();
  }

  #key(event) {
    const { key, target } = event;
    if (event.isComposing || target.closest("dialog")) return;
    const step = event.altKey && { ArrowUp: -1, ArrowDown: 1 }[key];
    if (key === "Escape") {
      if (document.body.dataset.drawer) setDrawer(null);
      else if (target.closest(".extra")) target.closest(".extra").querySelector(".quiet").click();
      else if (target.id !== "search") this.#stop();
      return;
    }
    if (key === "Enter" && target === ui.composer && !event.shiftKey) this.#send();
    else if (step) this.open(this.sessions.neighbor(step)?.id);
    else if (key === "/" && !target.matches("input, textarea, select")) {
      if (NARROW.matches) setDrawer("sessions");
      ui.search.focus();
    } else return;
    event.preventDefault();
  }
}

const reloadButton = () => button("Load again", () => location.reload(), "primary");

const app = new App();
app.start().catch((error) => app.fail(error));
