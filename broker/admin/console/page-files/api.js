// Requests to the admin port. Every change requires the token: the page asks for it once and stores it for this tab.

const TOKEN_KEY = "ottla-admin-token";
const $ = id => document.getElementById(id);

export class Refused extends Error {
  constructor(status, detail, hadToken) {
    super(detail);
    this.status = status;
    this.hadToken = hadToken;
  }
}

// `ottla serve` and `ottla gateway` print the page's address with the token behind `#token=`. It leaves the address bar, and history, at once.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem(TOKEN_KEY, given);
  history.replaceState(null, "", location.pathname);
}

export const hasToken = () => sessionStorage.getItem(TOKEN_KEY) !== null;
export const forgetToken = () => sessionStorage.removeItem(TOKEN_KEY);

async function ask(method, path, body) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), redirect: "error", cache: "no-store" });
  const text = await answer.text();
  let parsed = null;
  try { parsed = text ? JSON.parse(text) : null; } catch { parsed = { detail: text.slice(0, 200) }; }
  if (answer.ok) return parsed;
  // Only the rejected token is forgotten: the user may have given another one while this request was under way.
  if (answer.status === 401 && token === sessionStorage.getItem(TOKEN_KEY)) forgetToken();
  const detail = typeof parsed?.detail === "string" ? parsed.detail
    : Array.isArray(parsed?.detail) ? parsed.detail.map(each => `${each.loc?.slice(1).join(".")}: ${each.msg}`).join("; ") : `HTTP ${answer.status}`;
  throw new Refused(answer.status, detail, token !== null);
}

const queryOf = params => new URLSearchParams(Object.entries(params ?? {}).filter(([, value]) => value !== undefined)).toString();

/** Returns the JSON of the query console/`what`. Raises Refused. */
export const get = (what, params) => ask("GET", `console/${what}${params ? `?${queryOf(params)}` : ""}`);
/** Returns the same, or null for HTTP 404. */
export const getOrNone = (what, params) => get(what, params).catch(error => {
  if (error.status === 404) return null;
  throw error;
});
/** Returns the JSON of a path of the admin port. */
export const getPort = path => ask("GET", path);

/** Sends a change; asks for the token first, and again if it is wrong. Returns false if the user entered none. Raises Refused. */
export async function change(method, path, body) {
  let why = "Every change requires it.";
  for (;;) {
    if (!hasToken() && !(await askForToken(why))) return false;
    try {
      await ask(method, path, body);
      return true;
    } catch (error) {
      if (error.status !== 401) throw error;
      why = "That was not the admin port's token.";
    }
  }
}

let asked = null;

/** Asks the user for the token; returns whether one was entered. */
export function askForToken(why) {
  asked ??= new Promise(resolve => {
    const dialog = $("ask"), field = $("ask-token");
    $("ask-why").textContent = why;
    field.value = "";
    const done = given => {
      asked = null;
      if (dialog.open) dialog.close();
      resolve(given);
    };
    $("ask-form").onsubmit = event => {
      event.preventDefault();
      sessionStorage.setItem(TOKEN_KEY, field.value.trim());
      done(true);
    };
    $("ask-cancel").onclick = () => done(false);
    dialog.onclose = () => asked && done(false);
    dialog.showModal();
    field.focus();
  });
  return asked;
}
