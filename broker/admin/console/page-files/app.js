// The frame: which view is open, its next request every second, and the message if there is no response.

import { askForToken, forgetToken, get, hasToken } from "./api.js";
import { h, morph, plural, span } from "./dom.js";
import { node, views } from "./views.js";
import * as cluster from "./cluster.js";
import * as faults from "./faults.js";
import * as groups from "./groups.js";
import * as producers from "./producers.js";
import * as topics from "./topics.js";
import * as transactions from "./transactions.js";
import * as wire from "./wire.js";

const VIEWS = { topics, producers, transactions, groups, wire, faults, cluster };
const NAMES = { topics: "Topics", producers: "Producers", transactions: "Transactions", groups: "Groups", wire: "Wire log", faults: "Faults", cluster: "Cluster" };
const POLL_MS = 1000;
const $ = id => document.getElementById(id);

let view = null, shown = null, turn = 0, timer = 0, askedOnce = false, newest = null;

const ui = {
  redraw() { if (newest !== null) draw(newest); },
  reload() { poll(); },
  go(hash) { location.hash = hash; },
};

function currentRoute() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decoded);
  const known = views.includes(name);
  return { name: known ? name : views[0], rest: known ? rest : [], query: new URLSearchParams(query ?? "") };
}

/** Returns a decoded part of an address; unchanged if it is not valid percent-encoding, because the user may have typed it. */
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function openView() {
  if (location.hash === "#main") return;
  const { name, rest, query } = currentRoute();
  const other = shown !== name;
  shown = name;
  newest = null;
  view = VIEWS[name].open(rest, query, ui);
  document.title = `${view.title} · Ottla console`;
  for (const link of $("views").children) {
    if (link.hash !== `#/${name}`) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ inline: "center", block: "nearest" });
    }
  }
  if (other) {
    $("main").replaceChildren(h("p.empty", null, "Loading …"));
    window.scrollTo(0, 0);
  }
  poll();
}

async function poll() {
  const mine = ++turn;
  clearTimeout(timer);
  if (!document.hidden) {
    try {
      const [about, data] = await Promise.all([get(node), view.load()]);
      if (mine !== turn) return;
      showMessage(null);
      drawHeader(about);
      newest = data;
      draw(data);
    } catch (error) {
      if (mine !== turn) return;
      await showError(error);
    }
  }
  if (mine === turn) timer = setTimeout(poll, POLL_MS);
}

function draw(data) {
  morph($("main"), h("main", { id: "main", tabindex: -1, "data-view": shown }, view.render(data)));
}

async function showError(error) {
  if (error.status === 401) {
    if (hasToken()) return poll(); // it was given while the request was under way
    const wrong = error.hadToken;
    if (!askedOnce || wrong) {
      askedOnce = true;
      if (await askForToken(wrong ? "That was not the admin port's token." : "The admin port answers nothing without it. `ottla serve` and `ottla gateway` print this page's address with the token.")) return poll();
    }
    showMessage("The admin port requires its token: see “Token” above.");
  } else if (error.status !== undefined) {
    showMessage(error.message);
  } else {
    showMessage(`The ${node} does not answer (${error.message}). Retrying every second.`);
  }
}

function showMessage(text) {
  const line = $("trouble");
  line.hidden = text === null;
  if (line.textContent !== (text ?? "")) line.textContent = text ?? "";
  document.body.classList.toggle("lost", text !== null);
}

function drawHeader(about) {
  $("broker").textContent = `${node === "gateway" ? node : `node ${about.node_id}`} · ${about.address}`;
  $("broker").title = `cluster ${node === "gateway" ? about.cluster.join(", ") : about.cluster_id}`;
  const parts = [h("span.usual", { title: "Open client connections" }, plural(about.connections, "connection"))];
  if (about.rules) parts.push(h("a.warn", { href: "#/faults" }, plural(about.rules, "fault")));
  if (about.held) parts.push(h("a.warn", { href: "#/faults" }, `${about.held} held`));
  if (about.ahead_ms) parts.push(h("a.warn", { href: "#/faults", title: `The ${node}'s clock was advanced` }, `clock +${span(about.ahead_ms)}`));
  morph($("state"), h("span", { id: "state" }, parts));
  $("token").textContent = hasToken() ? "Forget token" : "Token";
}

$("token").onclick = async () => {
  if (hasToken()) forgetToken();
  else await askForToken("Every change requires it.");
  poll();
};
$("skip").onclick = event => {
  event.preventDefault();
  $("main").focus();
};
$("views").replaceChildren(...views.map(name => h("a", { href: `#/${name}` }, NAMES[name])));
addEventListener("hashchange", openView);
addEventListener("visibilitychange", () => !document.hidden && poll());
openView();
