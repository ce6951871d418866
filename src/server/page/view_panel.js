// The panel: tasks, files, and the timeline of the last run.

const TODO_ICONS = { done: ["check", "Done"], in_progress: ["chevron", "In progress"], pending: ["circle", "Open"] };

class PanelView {
  #tab = "todos";
  #thread = null;
  #openFile = "";
  /** The request whose response is shown next: older responses are dropped. */
  #fileRequest = null;

  constructor(app) {
    this.app = app;
    this.tabs = Object.fromEntries(["Todos", "Files", "Trace"].map((title) => {
      const key = title.toLowerCase();
      return [key, el("button.tab", { type: "button", role: "tab", id: `tab-${key}`, "aria-controls": "tab-body", onclick: () => this.select(key) }, title, el("span.count"))];
    }));
    ui.tabs.append(...Object.values(this.tabs));
    ui.tabs.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const keys = Object.keys(this.tabs);
      this.select(keys[(keys.indexOf(this.#tab) + step + keys.length) % keys.length]);
      this.tabs[this.#tab].focus();
    };
    this.update();
  }

  select(key) {
    this.#tab = key;
    this.update();
  }

  /** Shows the state of the session; `changed` has the paths of files that were written again. */
  update(changed) {
    const { thread } = this.app;
    if (thread !== this.#thread) {
      this.#thread = thread;
      this.#setFile("");
    }
    if (this.#openFile && changed?.includes(this.#openFile)) this.#loadFile();
    for (const [key, tab] of Object.entries(this.tabs)) {
      tab.setAttribute("aria-selected", key === this.#tab);
      tab.tabIndex = key === this.#tab ? 0 : -1;
    }
    const todos = thread?.todos ?? [];
    const done = todos.filter((todo) => todo.status === "done").length;
    this.tabs.todos.lastChild.textContent = todos.length ? ` ${done}/${todos.length}` : "";
    this.tabs.files.lastChild.textContent = thread?.files.size ? ` ${thread.files.size}` : "";
    ui.tabBody.setAttribute("aria-labelledby", `tab-${this.#tab}`);
    this[`_${this.#tab}`](ui.tabBody, thread);
  }

  _todos(body, thread) {
    if (!thread?.todos.length) return fill(body, el("p.muted", "The agent has no task list in this session."));
    fill(body, el("ul.todos", thread.todos.slice(0, 500).map(({ title, status }) => {
      const [symbol, word] = TODO_ICONS[status] ?? TODO_ICONS.pending;
      return el("li", { "data-status": status }, icon(symbol), el("span", title, el("span.offscreen", ` (${word})`)));
    })));
  }

  _files(body, thread) {
    if (!thread?.files.size) return fill(body, el("p.muted", "The agent has not written a file in this session."));
    const paths = [...thread.files.keys()].sort();
    fill(body, el("ul.files", paths.slice(0, 1000).map((path) => {
      const isOpen = path === this.#openFile;
      return el("li", el("button.file", { type: "button", "aria-expanded": String(isOpen), title: path, onclick: () => this.#toggleFile(path) },
        icon("chevron"), el("bdi", path)), isOpen && (this.fileBody ?? el("p.muted", "Loading")));
    })));
  }

  #setFile(path) {
    this.#openFile = path;
    this.fileBody = this.#fileRequest = null;
  }

  async #toggleFile(path) {
    this.#setFile(this.#openFile === path ? "" : path);
    this.update();
    this.#focusFile(path);
    if (this.#openFile && (await this.#loadFile())) this.#focusFile(path);
  }

  /** Shows the content of the open file; returns `false` if another was requested meanwhile. */
  async #loadFile() {
    const thread = this.#thread;
    const path = this.#openFile;
    const request = (this.#fileRequest = api.file(thread.agent, path));
    let body;
    try {
      // The file may have been changed since; the copy in the session is the second choice.
      const { content } = await request;
      body = fileNode(content);
    } catch (error) {
      const content = thread.files.get(path);
      body = typeof content === "string" ? fileNode(content) : el("p.bad", `The file cannot be read: ${error.message}`);
    }
    if (this.#fileRequest !== request) return false;
    this.fileBody = body;
    this.update();
    return true;
  }

  #focusFile(path) {
    [...document.querySelectorAll(".file")].find((file) => file.title === path)?.focus();
  }

  async _trace(body, thread) {
    const id = thread?.lastRunId;
    if (!id) return fill(body, el("p.muted", thread?.run ? "The trace is here when the run has ended." : "No run has ended since the page was opened."));
    if (this.traceId === id) return fill(body, this.traceBody);
    fill(body, el("p.muted", "Loading"));
    let node;
    try {
      node = timelineNode((await api.trace(id)).spans);
      Object.assign(this, { traceId: id, traceBody: node });
    } catch (error) {
      node = el("div", el("p", error.status === 404 ? "The server has no trace of this run." : error.message),
        button("Try again", () => this.update()));
    }
    if (this.#tab === "trace" && this.app.thread === thread && thread.lastRunId === id) fill(body, node);
  }
}

const fileNode = (text) => el("div", el(".bar", el("span.muted", `${formatCount(text.length)} characters`), copyButton(() => text)), textNode(text));

/** The spans of a run as bars below each other; `roots` are trees. */
function timelineNode(roots) {
  const rows = [];
  const visit = (span, depth) => {
    const { name, start_ms: start, duration_ms: length, attributes, children } = span;
    rows.push({ name, depth, start, end: start + (length ?? 0), isBad: Boolean(attributes.error) });
    if (depth < 12 && rows.length < 1000) for (const child of children) visit(child, depth + 1);
  };
  for (const span of roots) visit(span, 0);
  if (!rows.length) return el("p.muted", "The trace has no spans.");
  const from = Math.min(...rows.map((row) => row.start));
  const length = Math.max(1, Math.max(...rows.map((row) => row.end)) - from);
  return el("ol.timeline", rows.map(({ name, depth, start, end, isBad }) => {
    const bar = el(isBad ? "span.span.bad" : "span.span", { "aria-hidden": "true" });
    bar.style.marginInlineStart = `${((start - from) / length) * 100}%`;
    bar.style.width = `${Math.max(0.5, ((end - start) / length) * 100)}%`;
    const label = el(".row", el("span.name", name), el("span.muted", `${isBad ? "Failed · " : ""}${formatSeconds((end - start) / 1000)}`));
    label.style.paddingInlineStart = `${depth * 12}px`;
    return el("li", label, el(".track", bar));
  }));
}
