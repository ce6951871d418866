// The routes of the server. The page may be nested at any path, so all addresses start at its own.

const ROOT = location.pathname.replace(/\/+$/, "") + "/agents";
const enc = encodeURIComponent;
const TOKEN_KEY = "agentcore.token";

/** A reply with an error status, or none at all: then `status` is 0. */
class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const api = {
  /** Is called when the token is missing or wrong; with a text when the application's login failed. */
  onRejected: () => {},

  /** Moves the token from the fragment, where the server printed it, to this tab's storage. */
  takeToken() {
    const token = readFragment().get("token");
    if (!token) return;
    sessionStorage.setItem(TOKEN_KEY, token);
    writeFragment({ token: null });
  },

  /** Sends a request and returns its response; throws an `ApiError` unless it is a success. */
  async fetch(method, path, { body, headers = {}, signal } = {}) {
    const token = sessionStorage.getItem(TOKEN_KEY);
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(ROOT + path, { method, headers, signal, body: body && JSON.stringify(body), cache: "no-store" });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new ApiError(0, "The server cannot be reached.");
    }
    if (response.ok) return response;
    const error = new ApiError(response.status, await errorText(response));
    // A server with a token sends `WWW-Authenticate`; an application's own login does not.
    if (error.status === 401) api.onRejected(!response.headers.has("WWW-Authenticate") && error.message);
    throw error;
  },

  async json(method, path, body) {
    const response = await api.fetch(method, path, { body });
    const text = await response.text();
    return text ? JSON.parse(text) : null;
  },

  agents: () => api.json("GET", "/"),
  agent: (id) => api.json("GET", `/${enc(id)}`),
  threads: (agent, after) => api.json("GET", `${threadPath(agent)}?limit=50${after ? `&after=${enc(after)}` : ""}`),
  thread: (agent, id) => api.json("GET", threadPath(agent, id)),
  remove: ({ agent, id }) => api.json("DELETE", threadPath(agent, id)),
  /** Sends `interrupt`, `steer`, `mode` or `model` to the run of a session. */
  control: ({ agent, id }, verb, body = {}) => api.json("POST", threadPath(agent, id, verb), body),
  fork: (thread, at) => api.control(thread, "fork", { at }),
  rename: (thread, title) => api.control(thread, "title", { title }),
  answer: (question, body) => api.json("POST", `/hitl/${enc(question)}`, body),
  trace: (id) => api.json("GET", `/traces/${enc(id)}`),
  file: (agent, path) => api.json("GET", `/${enc(agent)}/files/read?path=${enc(path)}`),

  /** Starts a run, and opens its stream. */
  stream: (agent, body, signal) => api.fetch("POST", `/${enc(agent)}/stream?format=sdk`, sse(body, signal)),
  /** Continues a run whose calls waited for decisions, and opens its stream. */
  resume: (agent, body, signal) => api.fetch("POST", `/${enc(agent)}/resume?format=sdk`, sse(body, signal)),
  /** Opens the stream of the current run, behind the event `last`. Without a run the status is 204. */
  events: (agent, id, last, signal) =>
    api.fetch("GET", `${threadPath(agent, id, "events")}?format=sdk`, sse(undefined, signal, last ? { "Last-Event-ID": last } : {})),
};

const sse = (body, signal, headers = {}) => ({ body, signal, headers: { Accept: "text/event-stream", ...headers } });

function threadPath(agent, id, verb) {
  const parts = [agent, "threads", id, verb].filter((part) => part !== undefined);
  return "/" + parts.map(enc).join("/");
}

async function errorText(response) {
  const text = await response.text().catch(() => "");
  try {
    return JSON.parse(text).error ?? text;
  } catch {
    return text.slice(0, 300) || `The server answered ${response.status}.`;
  }
}

/** The fragment has the agent and the session, so that a reload and a bookmark find them again. */
const readFragment = () => new URLSearchParams(location.hash.slice(1));

function writeFragment(changes) {
  const fragment = readFragment();
  for (const [key, value] of Object.entries(changes)) value ? fragment.set(key, value) : fragment.delete(key);
  history.replaceState(null, "", `${location.pathname}${location.search}#${fragment}`);
}

/** An id of 128 random bits. `crypto.randomUUID` exists on pages with https only. */
function newId(prefix) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return prefix + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
