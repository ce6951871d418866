// The test of the page. Arguments: the address with the token, the path of Chromium, the folder for
// screenshots.
//
// The server's agent responds by the words of a prompt: one with "approve" calls a tool that needs
// approval, one with "slow" takes longer than ten seconds unless it is stopped, and any other gets
// a response of more than one sentence, in pieces.

import assert from "node:assert/strict";
import path from "node:path";

import { launch, openPage, readAccessibility, smallControls } from "./watched_page.mjs";

const [url, executablePath, folder] = process.argv.slice(2);
const LIMIT = 30_000;
const browser = await launch(executablePath);

const shoot = (page, name) => page.screenshot({ path: path.join(folder, `${name}.png`) });
const control = (page, name) => page.getByRole("button", { name, exact: true });
const waitForEnd = (page) => control(page, "Stop").waitFor({ state: "hidden", timeout: LIMIT });
const lastResponse = (page) => page.locator("article.response").last();

async function send(page, text) {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.keyboard.press("Enter");
  await page.locator("article.user", { hasText: text }).last().waitFor({ timeout: LIMIT });
}

/** Checks what must hold in every state of the page. */
async function check(page, problems, name) {
  await shoot(page, name);
  const { unnamed, roles } = await readAccessibility(page);
  assert.deepEqual(unnamed, [], `controls without a name: ${name}`);
  assert.deepEqual(await smallControls(page), [], `controls that are too small: ${name}`);
  for (const role of ["banner", "main"]) assert.ok(roles.has(role), `no landmark ${role}: ${name}`);
  const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(width <= 0, `the page is ${width} pixels wider than its window: ${name}`);
  assert.deepEqual(problems, [], name);
}

async function textArrivesInPieces({ page, problems }) {
  await control(page, "New session").waitFor({ timeout: LIMIT });
  assert.equal(await page.evaluate(() => location.href.includes("token")), false, "the token stays in the address");
  await check(page, problems, "1-empty");
  await page.evaluate(() => {
    window.lengths = new Set();
    const count = () => lengths.add([...document.querySelectorAll("article.response")].map((node) => node.textContent.length).reduce((sum, length) => sum + length, 0));
    new MutationObserver(count).observe(document.querySelector("#conversation"), { childList: true, subtree: true, characterData: true });
  });
  await send(page, "Please describe the project");
  await lastResponse(page).waitFor({ timeout: LIMIT });
  await shoot(page, "2-streaming");
  await waitForEnd(page);
  const count = await page.evaluate(() => lengths.size);
  assert.ok(count > 2, `the text arrived in ${count} pieces`);
  await check(page, problems, "3-answered");
}

async function callIsApproved({ page, problems }) {
  await send(page, "Please approve a call");
  const question = page.getByRole("group", { name: /^Question about / });
  await question.waitFor({ timeout: LIMIT });
  await page.waitForFunction(() => document.activeElement?.closest(".question"), null, { timeout: LIMIT });
  await check(page, problems, "4-question");
  await question.getByRole("button", { name: "Allow once" }).click();
  await question.waitFor({ state: "detached", timeout: LIMIT });
  await waitForEnd(page);
  const call = page.locator("details.tool").last();
  assert.equal(await call.getAttribute("data-state"), "ok", "the call that was approved");
  await call.locator("summary").first().click();
  await call.getByText("Result").first().waitFor({ timeout: LIMIT });
  await check(page, problems, "5-approved");
}

async function runIsStopped({ page, problems }) {
  await send(page, "Please be slow");
  await lastResponse(page).waitFor({ timeout: LIMIT });
  await control(page, "Stop").click();
  await waitForEnd(page);
  await page.getByText("Stopped.").first().waitFor({ timeout: LIMIT });
  await check(page, problems, "6-stopped");
}

async function runIsFoundAfterReload({ page, problems }) {
  await send(page, "Please be slow again");
  await lastResponse(page).waitFor({ timeout: LIMIT });
  const title = await page.getByRole("heading", { level: 1 }).textContent();
  await page.reload();
  await control(page, "Stop").waitFor({ timeout: LIMIT });
  assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), title);
  assert.equal(await page.locator("article.user", { hasText: "Please be slow again" }).count(), 1, "the input is there once");
  await page.keyboard.press("Escape");
  await waitForEnd(page);
  await page.locator("#sessionList [aria-current]").waitFor({ timeout: LIMIT });
  await check(page, problems, "7-reloaded");
}

async function wrongTokenIsReplaced({ page }) {
  await page.getByRole("heading", { name: "The server rejected the token." }).first().waitFor({ timeout: LIMIT });
  await shoot(page, "8-token");
  await page.getByRole("textbox", { name: "Token", exact: true }).fill(new URLSearchParams(new URL(url).hash.slice(1)).get("token"));
  await control(page, "Connect").click();
  await page.locator("#sessionList button").first().waitFor({ timeout: LIMIT });
}

async function phoneHasAllParts({ page, problems }) {
  await control(page, "Sessions").click();
  await page.locator("#sessionList button").first().click();
  await lastResponse(page).waitFor({ timeout: LIMIT });
  await check(page, problems, "9-phone");
  await control(page, "Sessions").click();
  await page.getByRole("searchbox", { name: "Search sessions" }).waitFor({ timeout: LIMIT });
  await shoot(page, "10-phone-sessions");
  await page.keyboard.press("Escape");
  await control(page, "Tasks, files and trace").click();
  await page.getByRole("tab", { name: /^Files/ }).waitFor({ timeout: LIMIT });
  await shoot(page, "11-phone-panel");
}

try {
  const wide = await openPage(browser, url, { viewport: { width: 1280, height: 800 } });
  for (const step of [textArrivesInPieces, callIsApproved, runIsStopped, runIsFoundAfterReload]) {
    await step(wide).catch(async (error) => {
      await shoot(wide.page, `failed-${step.name}`);
      throw error;
    });
    console.log(`ok: ${step.name}`);
  }
  const dark = await openPage(browser, url, { viewport: { width: 1280, height: 800 }, colorScheme: "dark" });
  await dark.page.locator("#sessionList button").first().click();
  await lastResponse(dark.page).waitFor({ timeout: LIMIT });
  await check(dark.page, dark.problems, "12-dark");
  console.log("ok: dark");
  await phoneHasAllParts(await openPage(browser, url, { viewport: { width: 360, height: 740 }, hasTouch: true }));
  console.log("ok: phoneHasAllParts");
  await wrongTokenIsReplaced(await openPage(browser, url.replace(/#token=.*/, "#token=wrong")));
  console.log("ok: wrongTokenIsReplaced");
} finally {
  await browser.close();
}
