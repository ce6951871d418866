// The questions of a run: approvals of calls, and questions with answers to pick from. They are
// shown above the message field until they are answered here or elsewhere.

class QuestionsView {
  #cards = new Map();

  /** @param {(question: object, answer: object) => Promise<void>} onAnswer sends an answer */
  constructor(node, onAnswer) {
    Object.assign(this, { node, onAnswer });
  }

  update(questions) {
    for (const [question, card] of this.#cards) {
      if (questions.get(question.id) === question) continue;
      card.remove();
      this.#cards.delete(question);
      // The focus was in the card.
      if (document.activeElement === document.body) (this.node.querySelector(".card") ?? ui.composer).focus();
    }
    for (const question of questions.values()) if (!this.#cards.has(question)) this.#add(question);
  }

  #add(question) {
    const card = el("section.card.question", { tabindex: -1, role: "group", "aria-label": `Question about ${question.tool}` });
    const send = async (answer) => {
      card.inert = true;
      await this.onAnswer(question, answer).finally(() => (card.inert = false));
    };
    card.append(...(question.expectsText || question.choices.length ? replyParts(question, send) : permissionParts(question, send)));
    this.#cards.set(question, card);
    this.node.append(card);
    // A person who is writing goes on writing; the question is announced by its alert.
    const { activeElement } = document;
    if (!(activeElement?.id === "composer" && activeElement.value) && !activeElement?.closest("dialog, .question")) card.focus();
  }
}

function heading(question, title) {
  const waits = question.isPending && question.expires ? `Waits until ${new Date(question.expires).toLocaleString()}` : "";
  return el(".head", { role: "alert" }, el("h2", icon("ask"), title), waits && el("p.muted", waits));
}

function permissionParts(question, send) {
  const extra = el(".extra");
  /** Shows a form in place of the buttons; without one, the buttons again. */
  const open = (...form) => {
    fill(extra, ...form);
    show(buttons, !form.length);
    (extra.querySelector("textarea") ?? buttons.firstChild).focus();
  };
  const buttons = el(".row",
    button("Allow once", () => send({ answer: "allow" }), "primary"),
    button("Allow for this session", () => send({ answer: "allow_for_session" })),
    button("Edit…", () => open(editForm(question, send, open))),
    button("Deny…", () => open(denyForm(send, open)), "danger"));
  const text = question.text && question.text !== `Allow ${question.tool}?` ? el("p", question.text) : "";
  return [heading(question, `Allow ${question.tool}?`), text, textNode(formatArgs(question.args)), buttons, extra];
}

function editForm(question, send, close) {
  const area = el("textarea.code-input", { rows: 6, spellcheck: "false", "aria-label": "Arguments as JSON", value: formatValue(question.args ?? {}) });
  const problem = el("p.bad", { role: "alert" });
  const submit = () => {
    try {
      send({ answer: "edit", args: JSON.parse(area.value) });
    } catch (error) {
      problem.textContent = `This is not JSON: ${error.message}`;
      area.focus();
    }
  };
  return el("div", area, problem, el(".row", button("Allow with these arguments", submit, "primary"), button("Back", () => close(), "quiet")));
}

function denyForm(send, close) {
  const area = el("textarea", { rows: 2, "aria-label": "Reason, which the agent reads", placeholder: "Reason (optional)" });
  const deny = () => send({ answer: "deny", message: area.value.trim() || "The user refused the call." });
  onEnter(area, deny);
  return el("div", area, el(".row", button("Deny", deny, "danger"), button("Back", () => close(), "quiet")));
}

/** Runs `action` for Enter; Shift+Enter breaks the line. */
function onEnter(area, action) {
  area.onkeydown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    action();
  };
}

/** Answers to pick from, and a text of one's own. */
function replyParts(question, send) {
  const type = question.isMultiple ? "checkbox" : "radio";
  const options = question.choices.map(({ label, description }, index) => {
    const input = el("input", { type, name: question.id, value: index, onchange: () => !question.isMultiple && (text.value = "") });
    return el("label.choice", input, el("span", label, description && el("small", description)));
  });
  const text = el("textarea", { rows: 1, "aria-label": "Answer in your own words", placeholder: options.length ? "Another answer" : "Answer" });
  text.oninput = () => {
    if (!question.isMultiple && text.value) for (const input of form.querySelectorAll("input")) input.checked = false;
  };
  onEnter(text, () => form.requestSubmit());
  const submit = (event) => {
    event.preventDefault();
    const picked = [...form.querySelectorAll("input:checked")].map((input) => Number(input.value));
    const own = text.value.trim();
    if (!picked.length && !own) return options.length ? form.querySelector("input").focus() : text.focus();
    send({ picked, text: own });
  };
  const form = el("form", { onsubmit: submit }, el("fieldset", el("legend", question.text), options, text),
    el(".row", el("button.primary", "Answer"), button("Decline", () => send({ answer: "deny", message: "The user did not answer." }), "quiet")));
  return [heading(question, question.header ?? "Question"), form];
}
