// The gateway's calls: JSON with bytes as base64 and integers of 64 bits as strings.
//
// The token of the signed-in user goes into the Authorization header and lives as long as the tab. It is
// never a cookie, so another site's page cannot make the browser send it.

const BASE = new URL("../v3/", document.baseURI);
// Several servers may stand below paths of one proxy, and share the browser's storage.
export const storedAs = (name) => `inkstone.${name} ${BASE.pathname}`;
const TOKEN = storedAs("token");
const USER = storedAs("user");
const ANSWER_MAX = 30_000; // ms

const CODES = [
  "ok",
  "cancelled",
  "unknown",
  "invalid argument",
  "deadline exceeded",
  "not found",
  "already exists",
  "permission denied",
  "too large or too many",
  "failed precondition",
  "aborted",
  "out of range",
  "not implemented",
  "internal error",
  "unavailable",
  "data loss",
  "not signed in",
];

// A refused call: gRPC's code and the server's text.
export class CallError extends Error {
  constructor(code, message) {
    super(message || CODES[code] || "unknown error");
    this.code = code;
  }

  get codeName() {
    return CODES[this.code] ?? `code ${this.code}`;
  }

  get needsSignIn() {
    return (
      this.code === 16 || /user name is empty|invalid auth token|auth: revision in header/.test(this.message)
    );
  }

  get forbidden() {
    return this.code === 7;
  }

  get compacted() {
    return this.code === 11 && /compacted/.test(this.message);
  }

  // One sentence for the user, about a change that was asked for.
  get ofChange() {
    if (this.code !== 14) return this.sentence;
    return `No answer (${this.message}): the change may or may not have been made. Look at it before you try again.`;
  }

  // One sentence for the user.
  get sentence() {
    if (this.compacted) return "This revision is no longer kept: compaction removed it.";
    if (this.code === 14) return `The server does not answer (${this.message}).`;
    if (this.forbidden) return `Your user may not do that: ${this.message}.`;
    return `${this.message} (${this.codeName})`;
  }
}

export const token = () => sessionStorage.getItem(TOKEN);
export const userName = () => sessionStorage.getItem(USER);

export function remember(user, value) {
  sessionStorage.setItem(TOKEN, value);
  sessionStorage.setItem(USER, user);
}

export function forget() {
  sessionStorage.removeItem(TOKEN);
  sessionStorage.removeItem(USER);
}

async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (token()) headers.Authorization = token();
  const options = {
    method: "POST",
    headers,
    signal,
    body: [body]
      .flat()
      .map((part) => JSON.stringify(part))
      .join("\n"),
    // For a proxy in front that knows its visitors by a cookie. The server itself reads none.
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
  };
  let response;
  try {
    response = await fetch(new URL(path, BASE), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    sayConnected(false);
    throw new CallError(14, error.name === "TimeoutError" ? "no answer" : "no connection");
  }
  sayConnected(true);
  if (!response.ok) throw await refusal(response);
  return response;
}

// Tells the page when the server stops or begins to answer.
let connected = true;

function sayConnected(now) {
  if (now === connected) return;
  connected = now;
  dispatchEvent(new CustomEvent("connection", { detail: now }));
}

async function refusal(response) {
  const text = await response.text().catch(() => "");
  let error;
  try {
    const answer = JSON.parse(text);
    const { code, message } = answer.error ?? answer;
    error = new CallError(code ?? 2, message);
  } catch {
    error = new CallError(
      response.status === 404 ? 12 : 2,
      text.slice(0, 200) || `HTTP status ${response.status}`,
    );
  }
  announce(error);
  return error;
}

// Lets the page ask for a sign-in, whatever part of it made the call.
function announce(error) {
  if (error.needsSignIn) dispatchEvent(new CustomEvent("sign-in-needed", { detail: error }));
}

export async function call(path, body = {}, { signal } = {}) {
  const limit = AbortSignal.timeout(ANSWER_MAX);
  const response = await post(path, body, signal ? AbortSignal.any([signal, limit]) : limit);
  try {
    return await response.json();
  } catch (error) {
    brokenOff(error);
  }
}

function brokenOff(error) {
  if (error.name === "AbortError") throw error;
  throw new CallError(14, "the answer broke off");
}

// Calls `take` with each message of a stream; returns when the stream ends. The body is a request or a list.
export async function stream(path, body, { signal, take }) {
  const response = await post(path, body, signal);
  const reader = response.body.getReader();
  try {
    await takeLines(reader, signal, take);
  } catch (error) {
    // The server would send the rest otherwise.
    reader.cancel().catch(() => {});
    throw error;
  }
}

async function takeLines(reader, signal, take) {
  const decoder = new TextDecoder();
  let parts = [];
  for (;;) {
    const { done, value } = await reader.read().catch(brokenOff);
    if (done) break;
    const lines = decoder.decode(value, { stream: true }).split("\n");
    for (const [at, line] of lines.entries()) {
      parts.push(line);
      if (at === lines.length - 1) break;
      signal.throwIfAborted();
      await takeLine(parts.join(""), take);
      parts = [];
    }
  }
  signal.throwIfAborted();
  await takeLine(parts.join(""), take);
}

async function takeLine(line, take) {
  if (line.trim() === "") return;
  const message = JSON.parse(line);
  if (message.error) {
    const error = new CallError(message.error.code ?? 2, message.error.message);
    announce(error);
    throw error;
  }
  await take(message.result ?? message);
}

// The same over a WebSocket, for streams that last: a browser opens few connections of HTTP/1.1 to a server,
// and a stream of fetch keeps one of them. Rejects when the stream ends; resolves when `signal` aborts.
export function streamSocket(path, request, { signal, take }) {
  const address = new URL(path, BASE);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(address, token() ? ["Bearer", token()] : []);
    let order = Promise.resolve();
    const end = (error) => {
      socket.close();
      if (signal.aborted) resolve();
      else reject(error);
    };
    signal.addEventListener("abort", () => end());
    socket.onopen = () => {
      sayConnected(true);
      socket.send(JSON.stringify(request));
    };
    socket.onmessage = ({ data }) => {
      order = order.then(() => (signal.aborted ? null : takeLine(data, take))).catch(end);
    };
    socket.onclose = () => order.then(() => end(new CallError(14, "the stream ended")));
  });
}

// Calls that several views make.
export const range = (request, options) => call("kv/range", request, options);
export const children = (request, options) => call("inkstone/children", request, options);
