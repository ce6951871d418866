// The test of the page's Markdown. Arguments: the path of Chromium, the folder with the page's
// sources.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";

import { launch } from "./watched_page.mjs";

const [executablePath, sources] = process.argv.slice(2);
const browser = await launch(executablePath);

/** Texts and the elements that they become. */
const CASES = {
  "# A\n\nb **c** *d* ~~e~~ `f`": "<h3>A</h3><p>b <strong>c</strong> <em>d</em> <del>e</del> <code>f</code></p>",
  "- a\n  1. b\n- c": "<ul><li>a<ol><li>b</li></ol></li><li>c</li></ul>",
  "> a\n> > b": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>",
  "a_b_c __d__ \\*e\\* **f": "<p>a_b_c <strong>d</strong> *e* **f</p>",
  "\\`` a": "<p>`` a</p>",
  "-\n- a": "<ul><li></li><li>a</li></ul>",
  "# a\u2028b": "<h3>a\u2028b</h3>",
  "https://a:x-https://b.c *d*": "<p>https://a:x-https://b.c <em>d</em></p>",
  "<img src=x onerror=alert(1)>": "<p>&lt;img src=x onerror=alert(1)&gt;</p>",
  "[a](javascript:alert(1)) [b](data:text/html,x) [c](//d)": "<p>[a](javascript:alert(1)) [b](data:text/html,x) [c](//d)</p>",
  "[a](https://b.c/d_(e)) https://f.g.":
    '<p><a href="https://b.c/d_(e)" target="_blank" rel="noopener noreferrer">a</a> <a href="https://f.g/" target="_blank" rel="noopener noreferrer">https://f.g</a>.</p>',
};

const LONG = "# A\n\ntext *b* and\nmore\n\n```rust\nfn a() {}\n\n# no heading\n```\n\n| a | b |\n|---|--:|\n| 1 | `2` |\n\n- c\n  - d\n\n  e\n- f\n\n> g\n\nend";

/** Texts that are cheap to write and might be dear to show. */
const HOSTILE = {
  quotes: ">".repeat(100_000),
  backticks: "`".repeat(300_000),
  unevenBackticks: Array.from({ length: 600 }, (_, index) => "`".repeat(index % 40) + "a").join(" "),
  marks: "**a _b ~~c ".repeat(20_000),
  links: "[a](".repeat(50_000),
  brackets: "[".repeat(200_000),
  bullets: "- ".repeat(50_000),
  list: "- a\n".repeat(60_000),
  deepList: Array.from({ length: 300 }, (_, depth) => `${" ".repeat(2 * depth)}- a`).join("\n"),
  table: `${"|a".repeat(20_000)}|\n${"|-".repeat(20_000)}|\n${"|a|\n".repeat(20_000)}`,
  spaces: " ".repeat(200_000),
  fence: `~~~${" ".repeat(250_000)}\``,
  tildes: `${"~".repeat(250_000)}\``,
  heading: `# ${" ".repeat(250_000)}\u2028a`,
  delimiters: `a|b\n${" ".repeat(250_000)}a`,
  dots: `https://${".".repeat(19_000)}a\n\n`.repeat(13),
  noAddresses: `${"https://a:x-".repeat(1_600)}\n\n`.repeat(13),
};

try {
  const page = await browser.newPage();
  for (const file of ["view.js", "markdown.js"]) await page.addScriptTag({ content: await readFile(path.join(sources, file), "utf8") });
  await page.evaluate(() => {
    window.render = (texts) => {
      const view = new MarkdownView();
      texts.forEach((text, index) => view.set(text, index === texts.length - 1));
      return view.node;
    };
  });

  for (const [text, expected] of Object.entries(CASES)) {
    assert.equal(await page.evaluate((text) => render([text]).innerHTML, text), expected);
  }
  console.log("ok: texts become elements, and no text becomes markup");

  const texts = [LONG, "```rust\nfn a() {}", ...Object.keys(CASES)];
  for (const text of texts) {
    const [whole, pieces] = await page.evaluate((text) => {
      const prefixes = Array.from(text, (_, index) => text.slice(0, index + 1));
      return [render([text]).innerHTML, render(prefixes).innerHTML];
    }, text);
    assert.equal(pieces, whole, `in pieces: ${text}`);
  }
  console.log("ok: a text in pieces is shown as the whole text");

  for (const [name, text] of Object.entries(HOSTILE)) {
    const { elements, depth } = await page.evaluate((text) => {
      const node = render([text.slice(0, text.length / 2), text]);
      const depthOf = (node) => {
        let depth = 0;
        for (let walker = node; walker.firstElementChild; depth++) walker = walker.firstElementChild;
        return depth;
      };
      return { elements: node.querySelectorAll("*").length, depth: depthOf(node) };
    }, text);
    assert.ok(elements < 21_000, `${name}: ${elements} elements`);
    assert.ok(depth < 60, `${name}: ${depth} levels`);
  }
  console.log("ok: hostile texts stay small");
} finally {
  await browser.close();
}
