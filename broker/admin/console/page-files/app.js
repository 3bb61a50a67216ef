// The frame: which room is open, looking again every second, and what is said when the broker does not answer.

import { askForToken, forgetToken, get, hasToken } from "./api.js";
import { h, morph, plural, span } from "./dom.js";
import * as cluster from "./cluster.js";
import * as faults from "./faults.js";
import * as groups from "./groups.js";
import * as producers from "./producers.js";
import * as topics from "./topics.js";
import * as transactions from "./transactions.js";

const ROOMS = { topics, producers, transactions, groups, faults, cluster };
const LOOK_MS = 1000;
const $ = id => document.getElementById(id);

let room = null, shown = null, turn = 0, timer = 0, askedOnce = false, newest = null;

const ui = {
  redraw() { if (newest !== null) draw(newest); },
  reload() { look(); },
  go(hash) { location.hash = hash; },
};

function where() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decoded);
  const known = Object.hasOwn(ROOMS, name);
  return { name: known ? name : "topics", rest: known ? rest : [], query: new URLSearchParams(query ?? "") };
}

/** A part of an address, as somebody may have typed it. */
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function enter() {
  if (location.hash === "#main") return;
  const { name, rest, query } = where();
  const other = shown !== name;
  shown = name;
  newest = null;
  room = ROOMS[name].open(rest, query, ui);
  document.title = `${room.title} · Ottla console`;
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
  look();
}

async function look() {
  const mine = ++turn;
  clearTimeout(timer);
  if (!document.hidden) {
    try {
      const [broker, data] = await Promise.all([get("broker"), room.load()]);
      if (mine !== turn) return;
      tell(null);
      frame(broker);
      newest = data;
      draw(data);
    } catch (error) {
      if (mine !== turn) return;
      await trouble(error);
    }
  }
  if (mine === turn) timer = setTimeout(look, LOOK_MS);
}

function draw(data) {
  morph($("main"), h("main", { id: "main", tabindex: -1, "data-room": shown }, room.view(data)));
}

async function trouble(error) {
  if (error.status === 401) {
    const wrong = hasToken();
    forgetToken();
    if (!askedOnce || wrong) {
      askedOnce = true;
      if (await askForToken(wrong ? "That was not this broker's token." : "The broker answers nothing without it. `ottla serve` prints this page's address with the token.")) return look();
    }
    tell("The broker requires its token: see “Token” above.");
  } else if (error.status !== undefined) {
    tell(error.message);
  } else {
    tell(`The broker does not answer (${error.message}). Retrying every second.`);
  }
}

function tell(text) {
  const line = $("trouble");
  line.hidden = text === null;
  if (line.textContent !== (text ?? "")) line.textContent = text ?? "";
  document.body.classList.toggle("lost", text !== null);
}

function frame(broker) {
  $("broker").textContent = `node ${broker.node_id} · ${broker.address}`;
  $("broker").title = `cluster ${broker.cluster_id}`;
  const parts = [h("span.usual", { title: "Open client connections" }, plural(broker.connections, "connection"))];
  if (broker.rules) parts.push(h("a.warn", { href: "#/faults" }, plural(broker.rules, "fault")));
  if (broker.held) parts.push(h("a.warn", { href: "#/faults" }, `${broker.held} held`));
  if (broker.ahead_ms) parts.push(h("a.warn", { href: "#/faults", title: "The broker's clock was advanced" }, `clock +${span(broker.ahead_ms)}`));
  morph($("state"), h("span", { id: "state" }, parts));
  $("token").textContent = hasToken() ? "Forget token" : "Token";
}

$("token").onclick = async () => {
  if (hasToken()) forgetToken();
  else await askForToken("Every change on this broker requires it.");
  look();
};
$("skip").onclick = event => {
  event.preventDefault();
  $("main").focus();
};
addEventListener("hashchange", enter);
addEventListener("visibilitychange", () => !document.hidden && look());
enter();
