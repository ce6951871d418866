// The list of sessions, with a search in their titles.

class SessionsView {
  sessions = [];
  #next = null;
  #filter = "";

  constructor(app) {
    this.app = app;
    ui.search.oninput = () => this.#search(ui.search.value);
    ui.moreSessions.onclick = () => this.#loadMore();
  }

  /** Loads the newest sessions of the agent again; `removed` is one that no longer exists. */
  async load(removed) {
    const agent = this.app.agent.id;
    const { threads, next } = await api.threads(agent);
    if (agent !== this.app.agent.id) return;
    const fresh = new Set([removed, ...threads.map((thread) => thread.id)]);
    const isSame = this.agent === agent;
    // Older sessions that were loaded stay, unless the list is now shorter than a page.
    this.sessions = isSame && next ? [...threads, ...this.sessions.filter((thread) => !fresh.has(thread.id))] : threads;
    if (!isSame || !this.#next || !next) this.#next = next;
    this.agent = agent;
    this.update();
  }

  async #loadMore() {
    const agent = this.agent;
    const { threads, next } = await api.threads(agent, this.#next);
    if (agent !== this.agent) return;
    const known = new Set(this.sessions.map((thread) => thread.id));
    this.sessions.push(...threads.filter((thread) => !known.has(thread.id)));
    this.#next = next;
    this.update();
  }

  /** Shows the sessions with the text in their titles; looks at up to 20 more pages of them. */
  async #search(text) {
    this.#filter = text.trim().toLowerCase();
    this.update();
    for (let page = 0; page < 20 && this.#next && this.#filter === text.trim().toLowerCase() && text && this.#shown().length < 10; page++) {
      await this.#loadMore().catch((error) => this.app.fail(error));
    }
  }

  #shown() {
    return this.sessions.filter((thread) => titleOf(thread).toLowerCase().includes(this.#filter));
  }

  /** The session before or after the open one. */
  neighbor(step) {
    const shown = this.#shown();
    const index = shown.findIndex((thread) => thread.id === this.app.thread?.id);
    return shown[index < 0 ? 0 : Math.min(Math.max(index + step, 0), shown.length - 1)];
  }

  update() {
    const shown = this.#shown();
    const list = ui.sessionList;
    const focused = list.contains(document.activeElement) && document.activeElement.name;
    fill(list, ...shown.map((thread) => this.#row(thread)));
    if (focused) list.querySelector(`[name="${CSS.escape(focused)}"]`)?.focus();
    const hint = ui.sessionHint;
    hint.textContent = this.#filter ? `No session has “${this.#filter}” in its title.` : "No session yet.";
    show(hint, !shown.length);
    show(ui.moreSessions, this.#next);
  }

  #row(thread) {
    const isOpen = thread.id === this.app.thread?.id;
    const title = titleOf(thread);
    const state = thread.pending ? "Waiting" : thread.running && "Running";
    return el("li", el("button.session", { name: thread.id, "aria-current": isOpen && "true", title, onclick: () => this.app.open(thread.id) },
      el("span.name", title), el("span.muted", state ? el("b", state) : formatAge(thread.updated_at))));
  }
}

const titleOf = (thread) => thread.title || "Untitled session";
