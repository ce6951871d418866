// The conversation: inputs, answers, notes and the ends of runs.

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
    const hidden = Math.max(0, items.length - this.#limit);
    const nodes = items.slice(hidden).map((item) => (item.view ??= viewOf(item, this.actions)).node);
    if (hidden) nodes.unshift(this.#more(hidden));
    const isWanted = new Set(nodes);
    for (const child of [...this.node.children]) if (!isWanted.has(child)) child.remove();
    nodes.forEach((node, index) => {
      if (this.node.children[index] !== node) this.node.insertBefore(node, this.node.children[index] ?? null);
    });
  }

  #more(hidden) {
    const count = Math.min(hidden, PAGE_LENGTH);
    return el("p.more", {}, button(`Show ${count} earlier ${count === 1 ? "message" : "messages"}`, () => {
      this.#limit += PAGE_LENGTH;
      const bottom = this.actions.distanceToEnd();
      this.update();
      this.actions.scrollToDistance(bottom);
    }), el("span.muted", {}, `${hidden} not shown`));
  }
}

function viewOf(item, actions) {
  if (item.kind === "user") return new UserView(item);
  if (item.kind === "answer") return new AnswerView(item, actions);
  return { node: item.kind === "end" ? endNode(item, actions) : noteNode(item), update() {} };
}

class UserView {
  constructor(item) {
    this.item = item;
    this.badge = el("span.badge");
    this.node = el("article.user", { "aria-label": "You" }, el(".text", {}, item.text), item.images.map(imageNode), this.badge);
    this.update();
  }

  update() {
    const { isQueued, isLate } = this.item;
    this.badge.textContent = isQueued ? "Waits for the next step" : isLate ? "Not read before the run ended" : "";
    show(this.badge, isQueued || isLate);
  }
}

class AnswerView {
  #slots = [];
  #due = 0;
  #timer = 0;

  constructor(item, actions) {
    Object.assign(this, { item, actions, node: el("article.answer", { "aria-label": "Agent" }) });
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
    if (this.item.isDone) this.#addActions();
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

  #addActions() {
    const text = () => this.item.blocks.filter((block) => block.type === "text").map((block) => block.text).join("\n\n");
    if (this.bar) this.node.append(this.bar);
    else if (text()) {
      const fork = button("Fork from here", () => this.actions.fork(this.item.uuid), "quiet");
      this.bar = el(".bar", {}, copyButton(text), this.item.uuid && this.actions.fork && fork);
      this.node.append(this.bar);
    }
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
    const node = el("details.reasoning", {}, el("summary", {}, icon("chevron"), "Reasoning"), text);
    const fill = () => node.open && (text.textContent = text.source);
    node.ontoggle = fill;
    return { type, node, set: (block) => ((text.source = block.text), show(node, block.text), fill()) };
  }
  if (type === "tool") {
    call.view ??= new ToolView(call, actions);
    return { type, call, node: call.view.node, set() {} };
  }
  return { type, node: type === "image" ? imageNode(block.image) ?? el("span") : el("span", { hidden: true }), set() {} };
}

/** An image that is in the message itself; of others the address is shown, and not requested. */
function imageNode({ data, media_type: type, url, source }) {
  const bytes = data ?? source?.data;
  const mime = type ?? source?.media_type ?? "";
  if (bytes && /^image\/(png|jpeg|gif|webp)$/.test(mime)) return el("img", { src: `data:${mime};base64,${bytes}`, alt: "Image" });
  const link = safeLink(url ?? source?.url ?? "");
  link?.append("Image");
  return link;
}

function noteNode({ tone, text }) {
  return el(`p.note.${tone}`, {}, icon(tone === "warn" ? "alert" : "dot"), text);
}

function endNode({ tone, title, text, runId, retry }, actions) {
  if (tone === "ok") return el("p.end.muted", {}, title, actions.openTrace && runId && button("Trace", () => actions.openTrace(runId), "quiet"));
  return el(`section.card.${tone}`, tone === "bad" ? { role: "alert" } : {}, el("h2", {}, icon("alert"), title),
    text && el("p.cause", {}, text.slice(0, 5000)),
    tone === "bad" && runId && el("p.muted", {}, "Trace ", el("code", {}, runId)),
    el(".row", {}, retry && button(tone === "bad" ? "Try again" : "Continue", actions.retry, "primary"),
      runId && button("Open the trace", () => actions.openTrace(runId), "quiet")));
}

/** What is shown in place of messages: one sentence and one action. */
function emptyNode({ title, text, details, action }) {
  return el("section.empty", {}, el("h2", {}, title), text && el("p", {}, text), details, action);
}
