// The list of sessions, with a search in their titles.

class SessionsView {
  sessions = [];
  #next = null;
  #filter = "";
  #rows = new Map();

  constructor(app) {
    this.app = app;
    byId("search").oninput = () => this.#search(byId("search").value);
    byId("more-sessions").onclick = () => this.#loadMore();
  }

  /** Loads the newest sessions of the agent again. */
  async load() {
    const agent = this.app.agent?.id;
    if (!agent) return this.update();
    const { threads, next } = await api.threads(agent);
    if (agent !== this.app.agent?.id) return;
    const fresh = new Set(threads.map((thread) => thread.id));
    const isSame = this.agent === agent;
    // Older ones that were loaded stay, unless the list is now shorter than a page.
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
  neighbour(step) {
    const shown = this.#shown();
    const index = shown.findIndex((thread) => thread.id === this.app.thread?.id);
    return shown[index < 0 ? 0 : Math.min(Math.max(index + step, 0), shown.length - 1)];
  }

  update() {
    const shown = this.#shown();
    const rows = shown.map((thread) => this.#row(thread));
    const list = byId("session-list");
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    list.replaceChildren(...rows);
    focused?.focus();
    const hint = byId("session-hint");
    hint.textContent = this.#filter ? `No session has “${this.#filter}” in its title.` : "No session yet.";
    show(hint, !shown.length);
    show(byId("more-sessions"), this.#next);
  }

  #row(thread) {
    const isOpen = thread.id === this.app.thread?.id;
    const title = titleOf(thread);
    const key = JSON.stringify([thread, isOpen, formatAge(thread.updated_at)]);
    const old = this.#rows.get(thread.id);
    if (old?.key === key) return old.node;
    const node = el("li", {}, el("button.session", { type: "button", "aria-current": isOpen && "true", title, onclick: () => this.app.open(thread.id) },
      el("span.name", {}, title),
      el("span.muted", {}, thread.running ? el("b.running", {}, "Running") : formatAge(thread.updated_at))));
    this.#rows.set(thread.id, { key, node });
    return node;
  }
}

const titleOf = (thread) => thread.title || "Untitled session";
