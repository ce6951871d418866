// The page's own scripts in node, with elements that are not shown and a server of functions.

import { readFile } from "node:fs/promises";
import path from "node:path";

/** The part of an element that the page uses; a node of text is a string. */
class StubElement {
  children = [];
  attributes = {};
  dataset = {};
  style = {};
  classList = { add() {}, remove() {} };
  hidden = false;
  value = "";

  constructor(tag) {
    this.tag = tag;
  }

  get lastChild() {
    return this.children.at(-1);
  }

  get firstChild() {
    return this.children[0];
  }

  get textContent() {
    return this.children.map((child) => child.textContent ?? child).join("");
  }

  set textContent(text) {
    this.children = [text];
  }

  append(...nodes) {
    for (const node of nodes) {
      if (node instanceof StubElement) node.parent = this;
      this.children.push(node);
    }
  }

  prepend(...nodes) {
    this.children.unshift(...nodes);
  }

  insertBefore(node, next) {
    node.remove();
    node.parent = this;
    this.children.splice(next ? this.children.indexOf(next) : this.children.length, 0, node);
  }

  replaceChildren(...nodes) {
    this.children = [];
    this.append(...nodes);
  }

  remove() {
    const { parent } = this;
    if (parent) parent.children = parent.children.filter((child) => child !== this);
  }

  replaceWith(node) {
    node.parent = this.parent;
    this.parent.children = this.parent.children.map((child) => (child === this ? node : child));
  }

  setAttribute(name, value) {
    this.attributes[name] = String(value);
  }

  contains(node) {
    return node === this || this.children.some((child) => child.contains?.(node));
  }

  /** The elements below this one for which `isWanted` is true, in order. */
  all(isWanted) {
    const elements = this.children.filter((child) => child instanceof StubElement);
    return elements.flatMap((child) => [...(isWanted(child) ? [child] : []), ...child.all(isWanted)]);
  }

  querySelector() {
    return null;
  }

  querySelectorAll() {
    return [];
  }

  closest() {
    return null;
  }

  focus() {}
  hasAttribute() {
    return false;
  }
  toggleAttribute() {}
}

/**
 * Starts the page of the folder `sources`. `respond(method, path, body)` is the server: it returns
 * the JSON of a reply, or a `Response`. Returns the elements by their ids, and the page's `app`.
 */
export async function startPage(sources, respond) {
  const elements = {};
  const create = (tag) => new StubElement(tag);
  const document = {
    body: create("body"),
    documentElement: create("html"),
    createElement: create,
    createElementNS: (_, tag) => create(tag),
    getElementById: (id) => (elements[id] ??= create(id)),
    querySelector: () => null,
    querySelectorAll: () => [],
  };
  const storage = { getItem: () => null, setItem() {} };
  const stubs = {
    document,
    location: { pathname: "/", search: "", hash: "" },
    history: { replaceState() {} },
    sessionStorage: storage,
    localStorage: storage,
    window: {},
    innerWidth: 1280,
    innerHeight: 800,
    matchMedia: () => ({ matches: false }),
    requestAnimationFrame: (draw) => setTimeout(draw, 0),
    setInterval() {},
    fetch: async (path, { method, body }) => {
      const reply = await respond(method, path.split("?")[0], body && JSON.parse(body));
      return reply instanceof Response ? reply : Response.json(reply);
    },
  };
  const list = await readFile(path.join(sources, "document.rs"), "utf8");
  const names = Array.from(list.matchAll(/include_str!\("(.*\.js)"\)/g), ([, name]) => name);
  const scripts = await Promise.all(names.map((name) => readFile(path.join(sources, name), "utf8")));
  const run = new Function(...Object.keys(stubs), `"use strict";\n${scripts.join("\n")}\nreturn app;`);
  return { app: run(...Object.values(stubs)), elements };
}

/** A stream of events, one for each message. */
export const streamOf = (...messages) => new Response(messages.map((message) => `data: ${JSON.stringify(message)}\n\n`).join(""));

/** Returns what `read` returns as soon as that is neither false nor absent. */
export async function until(read, name) {
  for (let step = 0; step < 1000; step++) {
    const value = read();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  throw new Error(`never: ${name}`);
}
