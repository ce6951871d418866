// Streams of server-sent events, read with `fetch` because `EventSource` sends no token.

/** The waits before the next attempts to connect, in seconds; the last one is repeated. */
const WAITS = [1, 2, 4, 8, 15];

/** Ends the wait for the next attempt. */
let retryNow = () => {};

/** Waits before the next attempt, longer with each failure; calls `onTick` with the seconds left. */
async function countDown(failures, onTick) {
  let left = WAITS[Math.min(failures, WAITS.length - 1)];
  retryNow = () => (left = 0);
  for (; left > 0; left--) {
    onTick(left);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** Splits a text that arrives in pieces into events `{id, data}`; their names are not used. */
class EventParser {
  #pieces = [];
  #event = { id: "", data: [] };

  /** Returns the events that the piece completes. */
  push(piece) {
    this.#pieces.push(piece);
    // Joined only when a line ends, so that the pieces of a long line are not copied each time.
    if (!piece.includes("\n")) return [];
    const lines = this.#pieces.join("").split("\n");
    this.#pieces = [lines.pop()];
    const events = [];
    for (const line of lines) {
      const event = this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (event) events.push(event);
    }
    return events;
  }

  #line(line) {
    if (line === "") {
      const { id, data } = this.#event;
      this.#event = { id: "", data: [] };
      return data.length ? { id, data: data.join("\n") } : null;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#event.data.push(value);
    if (field === "id") this.#event.id = value;
    return null;
  }
}

/**
 * Follows one run of a session to its end, across lost connections.
 *
 * `open(signal)` opens the first stream; without it, the stream of the run in progress is opened.
 * `sink` has `event(event)`, which returns true at the end of the run, `connection(state)` with
 * `online` or the seconds until the next attempt, and `gone()` for a run that the server no longer
 * has. Throws an `ApiError` when the server refuses.
 */
class RunReader {
  #abort = new AbortController();
  #lastId = "";
  #failures = 0;

  constructor(agent, thread, sink, open) {
    Object.assign(this, { agent, thread, sink, open });
  }

  /** Ends the reading; the run goes on. */
  close() {
    this.#abort.abort();
  }

  async read() {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      try {
        const response = await this.#connect(signal);
        if (response.status === 204) return this.sink.gone();
        this.sink.connection("online");
        if (await this.#consume(response, signal)) return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError && error.status !== 0 && error.status !== 502 && error.status !== 503) throw error;
      }
      if (signal.aborted) return;
      await countDown(this.#failures++, this.sink.connection);
    }
  }

  async #connect(signal) {
    if (!this.open) return api.events(this.agent, this.thread, this.#lastId, signal);
    try {
      const response = await this.open(signal);
      this.open = null;
      return response;
    } catch (error) {
      // The request that seemed lost has started the run.
      if (error.status !== 409 || this.#failures === 0) throw error;
      this.open = null;
      return api.events(this.agent, this.thread, "", signal);
    }
  }

  async #consume(response, signal) {
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return false;
      for (const event of parser.push(value)) {
        this.#failures = 0;
        if (event.id) this.#lastId = event.id;
        if (this.sink.event(event)) {
          this.close();
          return true;
        }
      }
    }
  }
}
