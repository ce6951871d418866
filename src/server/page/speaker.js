// The voice of the page for screen readers.

/** Reads out a response sentence by sentence. */
class Speaker {
  #sentence = "";
  #quietUntil = 0;

  /** Leaves out what arrives next: the log of a run, which was read out before. */
  pause() {
    this.#quietUntil = Date.now() + 500;
  }

  say(text) {
    if (Date.now() < this.#quietUntil) return;
    this.#sentence += text;
    const end = Math.max(...[". ", "! ", "? ", ": ", "\n"].map((mark) => this.#sentence.lastIndexOf(mark)));
    if (end < 0) return;
    const sentence = this.#sentence.slice(0, end + 1).replace(/[`*#>|_]+/g, "").trim();
    this.#sentence = this.#sentence.slice(end + 1);
    if (sentence) ui.speech.append(el("p", sentence.slice(0, 1000)));
    if (ui.speech.children.length > 10) ui.speech.firstChild.remove();
  }
}
