// A page in headless Chromium, and everything about it that must not happen.

import { chromium } from "playwright-core";

/** None of these speaks to another server, or asks a question. */
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function launch(executablePath) {
  return chromium.launch({ executablePath, headless: true, args: ARGUMENTS });
}

/** Opens the page; `problems` collects what must not happen. */
export async function openPage(browser, url, options) {
  const context = await browser.newContext(options);
  // Before any script of the page runs, so that no report is missed.
  await context.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  const page = await context.newPage();
  const problems = [];
  const { origin } = new URL(url);
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`script: ${error.stack}`));
  page.on("request", (request) => {
    const address = request.url();
    if (!address.startsWith(`${origin}/`) && !address.startsWith("data:")) problems.push(`outside: ${address}`);
    if (address.includes("token=")) problems.push(`the token is in an address: ${address.split("?")[0]}`);
  });
  await page.goto(url);
  return { context, page, problems };
}

const CONTROLS = new Set(["button", "checkbox", "combobox", "link", "radio", "searchbox", "spinbutton", "switch", "tab", "textbox"]);

/** The controls without a name, and the names of the landmarks, from the accessibility tree. */
export async function readAccessibility(page) {
  const client = await page.context().newCDPSession(page);
  const { nodes } = await client.send("Accessibility.getFullAXTree");
  await client.detach();
  const shown = nodes.filter((node) => !node.ignored);
  const unnamed = shown.filter(({ role, name }) => CONTROLS.has(role?.value) && !name?.value?.trim());
  const roles = new Set(shown.map(({ role }) => role?.value));
  return { unnamed: unnamed.map(({ role }) => role.value), roles };
}

/** The controls that are smaller than a finger: 40 pixels. */
export function smallControls(page) {
  return page.evaluate(() => {
    const isSmall = (node) => {
      const { width, height } = node.getBoundingClientRect();
      return node.checkVisibility() && height > 1 && (height < 38 || width < 24);
    };
    const controls = [...document.querySelectorAll("button, summary, select, textarea, input:not([type=radio], [type=checkbox])")];
    return controls.filter(isSmall).map((node) => node.outerHTML.slice(0, 100));
  });
}
