// A tool call: one line, which opens to its arguments, its progress, its result, and the messages
// of the subagent that it runs.

/** The part of a long text that is shown at first, in characters. */
const FIRST_PART = 8000;

/** The icon and the word for each state of a call. */
const CALL_STATES = {
  writing: ["circle", "Preparing"],
  waiting: ["ask", "Needs an answer"],
  running: ["circle", "Running"],
  ok: ["check", ""],
  failed: ["close", "Failed"],
  denied: ["close", "Denied"],
  stopped: ["stop", "Stopped"],
};

/** The arguments that say most about a call, in this order. */
const TELLING = ["command", "file_path", "path", "pattern", "query", "url", "expression", "question", "description", "prompt", "name"];

class ToolView {
  constructor(call, actions) {
    Object.assign(this, { call, actions });
    this.state = el("span.state");
    this.name = el("span.name");
    this.gist = el("span.gist");
    this.aside = el("span.aside");
    this.body = el(".body");
    this.node = el("details.tool", el("summary", this.state, this.name, this.gist, this.aside, icon("chevron")), this.body);
    this.node.ontoggle = () => this.update();
    this.update();
  }

  update() {
    const { call } = this;
    const [symbol, word] = CALL_STATES[call.state];
    if (this.node.dataset.state !== call.state) {
      this.node.dataset.state = call.state;
      fill(this.state, icon(symbol));
    }
    this.name.textContent = call.agent?.name ? `${call.name}: ${call.agent.name}` : call.name || "tool";
    this.gist.textContent = gistOf(call);
    const seconds = call.elapsed >= 0.1 ? formatSeconds(call.elapsed) : "";
    this.aside.textContent = [word || (seconds ? "" : "Done"), seconds].filter(Boolean).join(" · ");
    if (this.node.open) this.#fill();
  }

  #fill() {
    const { call } = this;
    this.#section("reason", "Reason", call.state === "denied" && call.reason, textNode);
    this.#section("args", "Arguments", call.args === undefined ? call.argsText : formatArgs(call.args), textNode);
    this.#section("children", "Subagent", call.children.items.length && "", () => new ListView(call.children, this.actions).node);
    this.#section("progress", "Progress", call.progress, textNode);
    this.#section("diff", "Change", call.details?.diff, diffNode);
    this.#section("result", call.state === "failed" ? "Error" : "Result", call.result, textNode);
  }

  /** Shows a part of the body; builds it again only if its text is another. */
  #section(key, title, text, build) {
    const parts = (this.parts ??= {});
    if (typeof text !== "string" || parts[key]?.text === text) return;
    const node = el("section", { "data-part": key }, el(".bar", el("h3", title), text && copyButton(() => text)), build(text));
    if (parts[key]) parts[key].node.replaceWith(node);
    else this.body.append(node);
    parts[key] = { text, node };
  }
}

/** The line of a call that says what it is about. */
function gistOf({ args, argsText, agent }) {
  if (agent?.text) return agent.text;
  if (args === undefined) return argsText.slice(0, 200);
  const key = TELLING.find((key) => typeof args?.[key] === "string");
  if (key) return args[key].slice(0, 200).replaceAll("\n", " ");
  const text = JSON.stringify(args) ?? "";
  return text === "{}" ? "" : text.slice(0, 200);
}

/** Arguments with one line for each short text, so that most are read without JSON's escapes. */
function formatArgs(args) {
  const entries = args && typeof args === "object" && !Array.isArray(args) ? Object.entries(args) : null;
  if (!entries?.length) return formatValue(args);
  return entries.map(([key, value]) => {
    const text = formatValue(value);
    return text.includes("\n") ? `${key}:\n${text.replace(/^/gm, "  ")}` : `${key}: ${text}`;
  }).join("\n");
}

/** A long text in parts, so that the page stays quick. */
function textNode(text) {
  const pre = el("pre", { tabindex: 0 }, text.slice(0, FIRST_PART));
  if (text.length <= FIRST_PART) return pre;
  const all = button(`Show all of ${formatCount(text.length)} characters`, () => {
    pre.textContent = text;
    all.remove();
    pre.focus();
  });
  return el("div", pre, all);
}

function diffNode(diff) {
  const pre = el("pre.diff", { tabindex: 0 });
  for (const line of diff.slice(0, 60_000).split("\n")) {
    const isHead = /^(---|\+\+\+) /.test(line);
    const kind = isHead ? "head" : { "+": "added", "-": "removed", "@": "place" }[line[0]];
    pre.append(el("span", { class: kind }, line + "\n"));
  }
  return pre;
}
