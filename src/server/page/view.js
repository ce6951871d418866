// Elements, icons, texts for numbers, and dialogs: what every view is made of.

/** The drawings of the icons, on a grid of 24. */
const ICONS = {
  menu: "M4 6h16M4 12h16M4 18h16",
  panel: "M4 5h16v14H4zM14 5v14",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  chevron: "M9 6l6 6-6 6",
  check: "M5 12l5 5 9-10",
  circle: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8",
  alert: "M12 4L2.5 20h19zM12 10v4M12 17v.5",
  ask: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 17.5v.5",
  light: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  pencil: "M4 20l1-4L16 5l3 3L8 19z",
  fork: "M6 3v12M18 9a9 9 0 0 1-9 9M6 15a3 3 0 1 0 0 6 3 3 0 0 0 0-6M18 3a3 3 0 1 0 0 6 3 3 0 0 0 0-6",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
  down: "M12 5v14M6 13l6 6 6-6",
};

/**
 * Creates an element: `el("button.quiet", {title: "Copy", onclick}, "Copy")`. Handlers are set as
 * properties, all else as attributes; both and absent children may be left out.
 */
function el(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  const hasProps = props?.constructor === Object;
  if (!hasProps) children.unshift(props);
  for (const [key, value] of Object.entries(hasProps ? props : {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on") || key === "value") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child || child === 0));
  return node;
}

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** A button with a text; `kind` is `primary`, `danger`, `quiet` or nothing. */
function button(text, onclick, kind = "", ...icons) {
  return el(kind ? `button.${kind}` : "button", { type: "button", onclick }, ...icons, text);
}

/** Sets the name of a control without a text, which is read out and shown as a tip. */
function nameControl(node, label) {
  node.title = label;
  node.setAttribute("aria-label", label);
}

/** Gives a control of index.html its icon, its name and its action. */
function bind(node, symbol, label, onclick) {
  node.prepend(icon(symbol));
  if (label) nameControl(node, label);
  node.onclick = onclick;
}

/** Replaces what an element contains. */
const fill = (node, ...children) => node.replaceChildren(...children);

/** The elements of index.html, by their ids: `ui.composer`. */
const ui = new Proxy({}, { get: (_, id) => document.getElementById(id) });

/** Shows or hides an element. */
const show = (node, isShown) => {
  node.hidden = !isShown;
};

function formatCount(count) {
  if (count < 1000) return String(count);
  return count < 999_500 ? `${(count / 1000).toFixed(count < 99_500 ? 1 : 0)}k` : `${(count / 1e6).toFixed(1)}M`;
}

function formatSeconds(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

const formatCost = (usd) => `$${usd.toFixed(usd < 0.1 ? 4 : 2)}`;

/** "just now", "5 min", "3 h", or a date. `time` is in milliseconds or in ISO form. */
function formatAge(time) {
  const date = new Date(time);
  const minutes = (Date.now() - date) / 60_000;
  if (!(minutes >= 0)) return "";
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  return minutes < 1440 ? `${Math.floor(minutes / 60)} h` : date.toLocaleDateString();
}

/** Any value as a text to read. */
function formatValue(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
}

async function copyText(text, control) {
  try {
    // Pages without https have no clipboard.
    await navigator.clipboard.writeText(text);
    control.textContent = "Copied";
  } catch {
    control.textContent = "Not allowed";
  }
  setTimeout(() => (control.textContent = "Copy"), 1500);
}

const copyButton = (text) => {
  const control = button("Copy", () => copyText(text(), control), "quiet");
  return control;
};

/**
 * Opens a dialog and returns the text that was entered, `true` where none is asked for, or `null`
 * when it was dismissed. The browser moves the focus into it and back.
 */
function openDialog({ title, text, value, type, label = title, action, kind = "primary" }) {
  return new Promise((resolve) => {
    const input = value === undefined ? null : el("input", { type, value, "aria-label": label });
    const form = el("form", { method: "dialog" }, el("h2", { id: "dialog-title" }, title), text && el("p", text), input,
      el(".row", button("Cancel", () => dialog.close(), "quiet"), el(`button.${kind}`, { value: "ok" }, action)));
    const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
    dialog.onclose = () => {
      dialog.remove();
      resolve(dialog.returnValue === "ok" ? input?.value.trim() ?? true : null);
    };
    document.body.append(dialog);
    dialog.showModal();
    input?.select();
  });
}

/** Shows a short text at the bottom of the page for some seconds. */
function toast(text, isError = false) {
  const node = el(isError ? "p.toast.bad" : "p.toast", {}, isError && icon("alert"), text);
  ui[isError ? "alerts" : "notices"].append(node);
  setTimeout(() => node.remove(), isError ? 10_000 : 4000);
}
