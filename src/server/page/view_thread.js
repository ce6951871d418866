// The conversation: inputs, responses, notes and the ends of runs.

/** The number of messages that are shown at first, and that are added at the top on request. */
const PAGE_LENGTH = 200;

/** The items of a list, in order; each keeps its element. */
class ListView {
  #limit = PAGE_LENGTH;

  constructor(list, actions) {
    Object.assign(this, { list, actions, node: el(".items") });
    list.view = this;
    this.update();
  }

  update() {
    const { items } = this.list;
    // The rows below responses are not counted.
    let hidden = items.length;
    for (let left = this.#limit; hidden > 0 && left > 0; hidden--) if (items[hidden - 1].kind !== "end") left--;
    const nodes = items.slice(hidden).map((item) => (item.view ??= viewOf(item, this.actions)).node);
    if (hidden) nodes.unshift(this.#more(hidden));
    const isWanted = new Set(nodes);
    for (const child of [...this.node.children]) if (!isWanted.has(child)) child.remove();
    nodes.forEach((node, index) => {
      if (this.node.children[index] !== node) this.node.insertBefore(node, this.node.children[index] ?? null);
    });
  }

  #more(hidden) {
    return el("p.row", button(`Show ${plural(Math.min(hidden, PAGE_LENGTH), "earlier message")}`, () => {
      const distance = ui.scroller.scrollHeight - ui.scroller.scrollTop;
      this.#limit += PAGE_LENGTH;
      this.update();
      ui.scroller.scrollTop = ui.scroller.scrollHeight - distance;
    }), el("span.muted", `${hidden} not shown`));
  }
}

function viewOf(item, actions) {
  if (item.kind === "user") return new UserView(item);
  if (item.kind === "response") return new ResponseView(item, actions);
  return { node: item.kind === "end" ? endNode(item, actions) : noteNode(item), update() {} };
}

class UserView {
  constructor(item) {
    this.item = item;
    this.badge = el("span.badge");
    this.node = el("article.user", { "aria-label": "You" }, el(".text", item.text), this.badge);
    this.update();
  }

  update() {
    const { isQueued, isLate } = this.item;
    this.badge.textContent = isQueued ? "Waits for the next step" : isLate ? "Not read before the run ended" : "";
    show(this.badge, isQueued || isLate);
  }
}

class ResponseView {
  #slots = [];
  #due = 0;
  #timer = 0;

  constructor(item, actions) {
    Object.assign(this, { item, actions, node: el("article.response", { "aria-label": "Agent" }) });
    this.update();
  }

  /** Builds what changed. While text arrives, at most a fifth of the time is spent here. */
  update() {
    const now = performance.now();
    clearTimeout(this.#timer);
    if (!this.item.isDone && now < this.#due) {
      this.#timer = setTimeout(() => this.update(), this.#due - now);
      return;
    }
    const { blocks } = this.item;
    for (let index = 0; index < blocks.length; index++) this.#updateSlot(index, blocks[index]);
    for (const slot of this.#slots.splice(blocks.length)) slot?.node.remove();
    this.#due = now + 4 * (performance.now() - now);
  }

  #updateSlot(index, block) {
    let slot = this.#slots[index];
    if (!block) return;
    if (!slot || slot.type !== block.type || slot.call !== block.call) {
      const fresh = blockSlot(block, this.actions);
      if (slot) slot.node.replaceWith(fresh.node);
      else this.node.append(fresh.node);
      slot = this.#slots[index] = fresh;
    }
    slot.set(block, this.item.isDone || index < this.item.blocks.length - 1);
  }
}

/** The element of one block and the function that brings it up to date. */
function blockSlot(block, actions) {
  const { type, call } = block;
  if (type === "text") {
    const view = new MarkdownView();
    return { type, node: view.node, set: (block, isDone) => view.set(block.text, isDone) };
  }
  if (type === "thinking") {
    const text = el(".thoughts");
    const node = el("details.reasoning", el("summary", icon("chevron"), "Reasoning"), text);
    let source = "";
    const render = () => node.open && (text.textContent = source);
    node.ontoggle = render;
    return { type, node, set: (block) => ((source = block.text), show(node, source), render()) };
  }
  if (type === "tool") {
    call.view ??= new ToolView(call, actions);
    return { type, call, node: call.view.node, set() {} };
  }
  return { type, node: el("span", { hidden: true }), set() {} };
}

function noteNode({ tone, text }) {
  return el(`p.note.${tone}`, icon(tone === "warn" ? "alert" : "circle"), text);
}

function endNode({ tone, title, text, runId, retry, response }, actions) {
  if (tone === "ok" || (tone === "warn" && !retry)) {
    const text = () => response.blocks.filter((block) => block.type === "text").map((block) => block.text).join("\n\n");
    const { uuid } = response ?? {};
    return el("p.end.muted.bar", title && (tone === "warn" ? el("span.warn", icon("alert"), title) : el("span", title)), response && copyButton(text), uuid && button("Fork", () => actions.fork(uuid), "quiet"),
      runId && button("Trace", () => actions.openTrace(runId), "quiet"));
  }
  return el(`section.card.${tone}`, tone === "bad" ? { role: "alert" } : {}, el("h2", icon("alert"), title),
    text && el("p.cause", text.slice(0, 5000)),
    tone === "bad" && runId && el("p.muted", "Trace ", el("code", runId)),
    el(".row", retry && button(tone === "bad" ? "Try again" : "Continue", actions.retry, "primary"),
      runId && button("Open the trace", () => actions.openTrace(runId), "quiet")));
}

/** What is shown in place of messages: a title, one sentence, and one action. */
const emptyNode = (title, text, ...actions) => el("section.empty", el("h2", title), el("p", text), ...actions);
