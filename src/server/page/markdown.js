// Markdown as elements: a subset, without any HTML. Each part is linear in the length of the text,
// and bounded in depth and in the number of elements; what is over a bound is shown as plain text.
// So no two repetitions in a row of a pattern match the same characters, unless a lookahead settles
// where the first ends, and none that may begin at any place begins within its own match.

const MAX_MARKDOWN = 256 * 1024;
const MAX_ELEMENTS = 10_000;
const MAX_NESTING = 8;
const MAX_PARAGRAPH = 20_000;

const FENCE = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]([^]*)$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?: +|$)/;
const BLANK = /^\s*$/;
const DELIMITER_ROW = /^ *(?:\| *)?(?::?-+:? *\| *)+(?::?-+:? *)?$/;

/** The line of `text` at `offset`, and the offset of the next one. */
function lineAt(text, offset) {
  const end = text.indexOf("\n", offset);
  return end < 0 ? [text.slice(offset), text.length] : [text.slice(offset, end), end + 1];
}

/** The kind of the block that a line begins, unless it is a table. */
function kindOf(line) {
  if (BLANK.test(line)) return "blank";
  if (FENCE.test(line)) return "code";
  if (HEADING.test(line)) return "heading";
  if (RULE.test(line)) return "rule";
  if (QUOTE.test(line)) return "quote";
  return ITEM.test(line) ? "list" : "text";
}

/** The kind and the end of the block at `offset`. */
function blockAt(text, offset) {
  const [line, next] = lineAt(text, offset);
  const kind = kindOf(line);
  if (kind === "heading" || kind === "rule") return [kind, next];
  if (kind === "code") return [kind, fenceEnd(text, line, next)];
  if (kind === "text" && line.includes("|") && DELIMITER_ROW.test(lineAt(text, next)[0])) {
    return ["table", endWhile(text, next, (row) => row.includes("|"))];
  }
  if (kind !== "list") return [kind, endWhile(text, next, (row) => kindOf(row) === kind)];
  const isOrdered = /\d/.test(ITEM.exec(line)[2]);
  let isAfterBlank = false;
  return [kind, endWhile(text, next, (row) => {
    const item = ITEM.exec(row);
    const isBlank = BLANK.test(row);
    const isInside = isBlank || /^(?: {2,}|\t)/.test(row) || (item ? /\d/.test(item[2]) === isOrdered : !isAfterBlank && kindOf(row) === "text");
    isAfterBlank = isBlank;
    return isInside;
  })];
}

function endWhile(text, offset, isInside) {
  while (offset < text.length) {
    const [line, next] = lineAt(text, offset);
    if (!isInside(line)) break;
    offset = next;
  }
  return offset;
}

function isFenceEnd(line, mark) {
  const text = line.trim();
  return text.length >= mark.length && text === mark[0].repeat(text.length);
}

function fenceEnd(text, line, offset) {
  const mark = FENCE.exec(line)[1];
  while (offset < text.length) {
    const [row, next] = lineAt(text, offset);
    offset = next;
    if (isFenceEnd(row, mark)) break;
  }
  return offset;
}

/** A part of the page that has one text, which may grow. Only its last block is built again. */
class MarkdownView {
  #start = 0;
  #last = null;
  #budget = { elements: MAX_ELEMENTS };
  #isPlain = false;

  constructor() {
    this.node = el(".markdown");
    this.text = "";
  }

  set(text, isDone) {
    if (!text.startsWith(this.text)) this.#reset();
    this.text = text;
    if (!this.#isPlain) this.#build(text.length > MAX_MARKDOWN ? text.slice(0, MAX_MARKDOWN) : text, isDone);
    if (text.length > MAX_MARKDOWN) {
      if (!this.#isPlain) this.node.append(el("pre.plain"));
      this.#isPlain = true;
      this.node.lastChild.textContent = text.slice(MAX_MARKDOWN);
    }
  }

  #reset() {
    fill(this.node);
    this.#start = 0;
    this.#last = null;
    this.#isPlain = false;
    this.#budget.elements = MAX_ELEMENTS;
  }

  #build(text, isDone) {
    while (this.#start < text.length) {
      const [kind, end] = blockAt(text, this.#start);
      // The line that ends a block may still change until it is complete.
      const isClosed = isDone || text.indexOf("\n", end) >= 0;
      const source = text.slice(this.#start, end);
      const budget = isClosed ? this.#budget : { ...this.#budget };
      const old = this.#last;
      if (old?.kind === "code" && kind === "code") fillCode(old.node, source);
      else {
        const node = renderBlock(kind, source, 0, budget);
        if (old?.node) node ? old.node.replaceWith(node) : old.node.remove();
        else if (node) this.node.append(node);
        this.#last = { kind, node };
      }
      if (!isClosed) return;
      this.#last = null;
      this.#start = end;
    }
  }
}

function renderBlocks(text, depth, budget, parent) {
  for (let offset = 0; offset < text.length; ) {
    const [kind, end] = blockAt(text, offset);
    if (budget.elements <= 0 || depth > MAX_NESTING) return parent.append(el("p", text.slice(offset)));
    const node = renderBlock(kind, text.slice(offset, end), depth, budget);
    if (node) parent.append(node);
    offset = end;
  }
}

function renderBlock(kind, source, depth, budget) {
  budget.elements--;
  if (budget.elements < 0) return el("p", source);
  switch (kind) {
    case "blank":
      return null;
    case "code":
      return renderCode(source);
    case "rule":
      return el("hr");
    case "heading": {
      const [, marks, title] = HEADING.exec(lineAt(source, 0)[0]);
      return renderInline(title.trim().replace(/ #+$/, ""), el(`h${Math.min(marks.length + 2, 6)}`), budget);
    }
    case "quote": {
      const quote = el("blockquote");
      renderBlocks(source.split("\n").map((line) => line.replace(QUOTE, "")).join("\n"), depth + 1, budget, quote);
      return quote;
    }
    case "list":
      return renderList(source, depth, budget);
    case "table":
      return renderTable(source, budget);
    default:
      return renderInline(source.trimEnd(), el("p"), budget);
  }
}

function renderCode(source) {
  const code = el("code");
  const box = el(".code", el(".bar", el("span"), copyButton(() => code.textContent)),
    el("pre", { tabindex: 0 }, code));
  fillCode(box, source);
  return box;
}

function fillCode(box, source) {
  const lines = source.replace(/\n$/, "").split("\n");
  const [, mark, language] = FENCE.exec(lines[0]);
  const isClosed = lines.length > 1 && isFenceEnd(lines.at(-1), mark);
  box.querySelector("span").textContent = language.trim() || "text";
  box.querySelector("code").textContent = lines.slice(1, isClosed ? -1 : undefined).join("\n");
}

function renderList(source, depth, budget) {
  const first = ITEM.exec(lineAt(source, 0)[0])[2];
  const isOrdered = /\d/.test(first);
  const list = el(isOrdered ? "ol" : "ul", { start: isOrdered && first !== "1." && parseInt(first, 10) });
  let item = null;
  const close = () => {
    if (!item) return;
    const text = item.lines.join("\n").trimEnd();
    const node = el("li");
    budget.elements--;
    // The text of a plain item stands in it without a paragraph of its own.
    const [kind, end] = text ? blockAt(text, 0) : ["text", 0];
    if (kind === "text") renderInline(text.slice(0, end).trimEnd().replace(/^\[( |x|X)\] /, (_, mark) => (mark === " " ? "☐ " : "☑ ")), node, budget);
    renderBlocks(kind === "text" ? text.slice(end) : text, depth + 1, budget, node);
    list.append(node);
  };
  for (const line of source.split("\n")) {
    const match = ITEM.exec(line);
    const indent = line.length - line.trimStart().length;
    const isNext = match && item && indent < item.indent && (indent < 2 || /\d/.test(match[2]) === isOrdered);
    if (!item || (isNext && budget.elements > 0)) {
      close();
      item = { indent: match[0].trimEnd().length + 1, lines: [line.slice(match[0].length)] };
    } else {
      item.lines.push(line.slice(Math.min(indent, item.indent)));
    }
  }
  close();
  return list;
}

function renderTable(source, budget) {
  const lines = source.trimEnd().split("\n");
  const [head, delimiters] = lines.splice(0, 2).map(splitRow);
  const align = delimiters.map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : ""));
  const renderRow = (tag, cells) => {
    const row = el("tr");
    budget.elements -= head.length + 1;
    head.forEach((_, column) => row.append(renderInline(cells[column] ?? "", el(tag, { class: align[column] }), budget)));
    return row;
  };
  const body = el("tbody");
  const table = el("table", el("thead", renderRow("th", head)), body);
  while (lines.length && budget.elements > 0) body.append(renderRow("td", splitRow(lines.shift())));
  return el(".scroll", { tabindex: 0, role: "region", "aria-label": "Table" }, table, lines.join("\n"));
}

function splitRow(line) {
  const cells = line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/, 64);
  return cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

const PLAIN = /[^`*_~[\]!\\h]+/y;
const TARGET = /\]\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\))+)>?(?:\s+"[^"\n]*")?\s*\)/y;
const ADDRESS = /https?:\/\/[^\s<>"'`|)\]]+/y;
const MARKS = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" };
const isWord = (char) => char !== undefined && /[\p{L}\p{N}]/u.test(char);

/** Appends the text of a paragraph, with its emphasis, code and links, to `parent`, and returns it. */
function renderInline(text, parent, budget) {
  if (text.length > MAX_PARAGRAPH) {
    parent.append(text);
    return parent;
  }
  /** The open marks, each with what it contains so far. */
  const stack = [{ mark: "", node: parent }];
  const ticks = tickRuns(text);
  let at = 0;
  let plain = "";

  const match = (pattern) => {
    pattern.lastIndex = at;
    return pattern.exec(text);
  };
  const write = (piece, length = piece.length) => {
    plain += piece;
    at += length;
  };
  const append = (...nodes) => {
    const { node } = stack.at(-1);
    if (plain) node.append(plain);
    plain = "";
    node.append(...nodes);
  };
  const isOpen = (mark) => stack.some((frame) => frame.mark === mark);
  const open = (mark) => {
    if (stack.length > 2 * MAX_NESTING || budget.elements <= 0) return write(mark);
    append();
    stack.push({ mark, node: document.createDocumentFragment() });
    at += mark.length;
  };
  /** Makes the innermost open mark, which has no end, a text again. */
  const unwrap = () => {
    append();
    const { mark, node } = stack.pop();
    append(mark, node);
  };
  const close = (mark, element, length) => {
    while (stack.at(-1).mark !== mark) unwrap();
    append();
    element.append(stack.pop().node);
    budget.elements--;
    append(element);
    at += length;
  };
  const code = () => {
    const [{ length }] = match(/`+/y);
    const positions = ticks.get(length) ?? [];
    while (positions.at(-1) <= at) positions.pop();
    const end = positions.at(-1);
    if (end === undefined || budget.elements-- <= 0) return write("`".repeat(length));
    const content = text.slice(at + length, end).replaceAll("\n", " ");
    append(el("code", content.startsWith(" ") && content.endsWith(" ") && content.trim() ? content.slice(1, -1) : content));
    at = end + length;
  };
  const emphasis = (mark) => {
    const before = text[at - 1] ?? " ";
    const after = text[at + mark.length] ?? " ";
    const isUnderscore = mark[0] === "_";
    if (/\S/.test(before) && !(isUnderscore && isWord(after)) && isOpen(mark)) close(mark, el(MARKS[mark]), mark.length);
    else if (/\S/.test(after) && !(isUnderscore && isWord(before))) open(mark);
    else write(mark);
  };
  const linkEnd = () => {
    if (!isOpen("[")) return write("]");
    const target = match(TARGET);
    const link = target && safeLink(target[1]);
    if (link) return close("[", link, target[0].length);
    while (stack.at(-1).mark !== "[") unwrap();
    unwrap();
    write("]");
  };
  const address = () => {
    const found = isWord(text[at - 1] ?? " ") || isOpen("[") ? "" : match(ADDRESS)?.[0].replace(/(?<![.,:;!?*_~])[.,:;!?*_~]+$/, "");
    const link = found && safeLink(found);
    if (!link) return write(found || text[at]);
    budget.elements--;
    link.append(found);
    append(link);
    at += found.length;
  };

  while (at < text.length) {
    const char = text[at];
    const double = text.slice(at, at + 2);
    const run = match(PLAIN);
    if (run) write(run[0]);
    else if (char === "`") code();
    else if (char === "\\" && /^\\[!-/:-@[-`{-~]/.test(double)) write(double[1], 2);
    else if (double === "![") at++;
    else if (char === "[") open("[");
    else if (char === "]") linkEnd();
    else if (char === "h") address();
    else if (MARKS[double]) emphasis(double);
    else if (MARKS[char]) emphasis(char);
    else write(char);
  }
  while (stack.length > 1) unwrap();
  append();
  return parent;
}

/** The positions of all runs of backticks, by their length, last ones first. */
function tickRuns(text) {
  const runs = new Map();
  for (const { 0: run, index } of text.matchAll(/`+/g)) {
    if (!runs.has(run.length)) runs.set(run.length, []);
    runs.get(run.length).push(index);
  }
  for (const positions of runs.values()) positions.reverse();
  return runs;
}

/** A link that opens in a new tab, or `null` for an address whose scheme may do harm. */
function safeLink(address) {
  try {
    const { protocol, href } = new URL(address);
    if (!["http:", "https:", "mailto:"].includes(protocol)) return null;
    return el("a", { href, target: "_blank", rel: "noopener noreferrer" });
  } catch {
    return null;
  }
}
