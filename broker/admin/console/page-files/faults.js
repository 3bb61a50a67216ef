// The view of faults: fault rules to add and delete, the clock to advance, and beside them the requests and their results.

import { change, get, getPort } from "./api.js";
import { chip, count, empty, h, plural, section, span, table, time } from "./dom.js";
import { node } from "./views.js";

const READY = [
  ["Lose the next acknowledgement of a write", { action: "drop-ack", api: "Produce", times: 1 }],
  ["Refuse the next write: NOT_LEADER_OR_FOLLOWER", { action: "error", api: "Produce", code: "NOT_LEADER_OR_FOLLOWER", times: 1 }],
  ["Write, then report REQUEST_TIMED_OUT", { action: "error-after", api: "Produce", code: "REQUEST_TIMED_OUT", times: 1 }],
  ["Stop the next transaction before its markers", { action: "pause", step: "prepared", times: 1 }],
  ["Delay every answer by half a second", { action: "delay", ms: 500 }],
  ["Refuse new connections", { action: "refuse-connection" }],
];
const FIELDS = [
  ["api", "API", "apis"], ["topic", "Topic"], ["partition", "Partition", "number"], ["client_id", "Client id"], ["group", "Group"], ["transactional_id", "Transactional id"],
  ["times", "At most so often", "number"], ["after", "After so many", "number"], ["share", "Share of them (0 to 1)"], ["seed", "Seed", "number"], ["connection", "Connection", "number"], ["ms", "Milliseconds", "number"], ["bytes", "Bytes", "number"], ["records", "Records", "number"], ["code", "Error", "errors"], ["step", "Step", "steps"], ["name", "Name"],
];
const STEPS = [[1_000, "+1 s"], [10_000, "+10 s"], [60_000, "+1 min"], [3_600_000, "+1 h"]];
const state = { contains: "", striking: false, error: null };
let choices = null;

export function open(path, query, ui) {
  const act = async (method, where, body) => {
    try {
      if (await change(method, where, body)) state.error = null;
    } catch (error) {
      state.error = error.message;
    }
    ui.reload();
  };
  return {
    title: "Faults",
    async load() {
      const [rules, held, clock, log] = await Promise.all([getPort("faults"), getPort("held"), getPort("clock"), node === "broker" ? get("requests", { limit: 200 }) : null]);
      choices ??= await get("choices");
      return { rules, held, clock, log };
    },
    render: data => h("div.beside", null,
      h("div", null, state.error === null ? null : h("p.refused", { role: "alert" }, state.error), loaded(data, act), more(act), clockOf(data.clock, act)),
      h("div", null, data.log ? requests(data.log, ui) : section("Requests", h("p", null, h("a", { href: "#/wire" }, "The wire log"), " shows them, and which faults hit them.")))),
  };
}

function loaded({ rules, held }, act) {
  return section("Faults",
    rules.length ? h("ul.rules", { "aria-label": "Loaded faults" }, rules.map(rule => h("li", { "data-key": rule.name },
      h("div", null, h("b", null, rule.name), " ", h("span.muted", null, says(rule))),
      h("div.bar", null, chip(rule.hits ? "bad" : "plain", `hit ${rule.hits}`), h("span.muted", null, `of ${rule.seen} seen`), rule.consumed ? chip("good", "done") : null,
        h("button.danger", { type: "button", onclick: () => act("DELETE", `faults/${encodeURIComponent(rule.name)}`), "aria-label": `Remove ${rule.name}` }, "Remove")))))
      : h("p.muted", null, "None: every request is handled as it comes."),
    held.length ? [h("h3", null, `${held.length} held`), h("ul.rules", { "aria-label": "Held" }, held.map(each => h("li", null, each.what, h("span.muted", null, ` by ${each.rule}`)))),
      h("button", { type: "button", onclick: () => act("POST", "held/release") }, "Release all")] : null,
    rules.length > 1 ? h("div.buttons", null, h("button.danger", { type: "button", onclick: () => act("DELETE", "faults") }, "Remove all")) : null);
}

const says = rule => Object.entries(rule).filter(([name, value]) => !["name", "seen", "hits", "consumed"].includes(name) && value !== null && value !== "" && !(name === "after" && value === 0) && !(name === "seed" && value === 0) && !(name === "share" && value === 1))
  .map(([name, value]) => (name === "action" ? value : `${name}=${value}`)).join(" ");

function more(act) {
  const add = event => {
    event.preventDefault();
    const rule = {};
    for (const [name, value] of new FormData(event.target)) if (value !== "") rule[name] = FIELDS.some(each => each[0] === name && each[2] === "number") ? Number(value) : value;
    act("POST", "faults", rule);
  };
  return section("Add a fault",
    h("div.ready", null, READY.filter(([, rule]) => choices.actions.includes(rule.action)).map(([text, rule]) => h("button", { type: "button", onclick: () => act("POST", "faults", rule) }, text))),
    h("details", null, h("summary", null, "Any other"), h("form", { onsubmit: add },
      h("div.fields", null,
        h("label", null, "What happens", h("select", { name: "action", required: true }, choices.actions.map(each => h("option", { value: each }, each)))),
        FIELDS.filter(([name]) => name !== "step" || choices.steps.length).map(([name, text, kind]) => h("label", null, text, h("input", { name, type: kind === "number" ? "number" : "text", min: kind === "number" ? 0 : null, list: kind && kind !== "number" ? `list-${kind}` : null, autocomplete: "off" })))),
      ["apis", "errors", "steps"].map(kind => h("datalist", { id: `list-${kind}` }, choices[kind].map(each => h("option", { value: each })))),
      h("p.muted", null, "An empty field matches everything; text fields take patterns such as order*."),
      h("button.main", null, "Add"))));
}

function clockOf(clock, act) {
  const by = event => {
    event.preventDefault();
    act("POST", "clock/advance", { ms: Math.round(Number(new FormData(event.target).get("seconds")) * 1000) });
  };
  return section("Clock",
    h("p", null, time(clock.now_ms), clock.ahead_ms ? [" ", chip("warn", `${span(clock.ahead_ms)} ahead`)] : h("span.muted", null, " as on this machine")),
    h("p.muted", null, "Advancing it expires sessions, transactions, producer ids and segments. It cannot go back."),
    h("div.buttons", null, STEPS.map(([ms, text]) => h("button", { type: "button", onclick: () => act("POST", "clock/advance", { ms }) }, text)),
      h("form.inline", { onsubmit: by }, h("label", null, "or ", h("input", { name: "seconds", type: "number", min: 0, step: "any", required: true, "aria-label": "Seconds to advance the clock by" }), " s"), h("button", null, "Forward"))));
}

const strikes = row => row.error !== "" || row.faults.length > 0 || row.absorbed || row.late || (row.answered && !row.seen);

function requests(log, ui) {
  const rows = log.requests.filter(row => (!state.striking || strikes(row)) && (state.contains === "" || `${row.api} ${row.client_id} ${row.what} ${row.error}`.toLowerCase().includes(state.contains)));
  return section("Requests",
    h("div.bar", null,
      h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter requests", value: state.contains, oninput: event => { state.contains = event.target.value.toLowerCase(); ui.redraw(); } }),
      h("label.inline", null, h("input", { type: "checkbox", checked: state.striking, onchange: event => { state.striking = event.target.checked; ui.redraw(); } }), " only what went wrong, or was absorbed"),
      h("span.muted", null, `${plural(log.quiet, "fetch or heartbeat", "fetches and heartbeats")} without a result not listed`)),
    rows.length ? table("Requests, newest first", [["#", "r"], "Time", "Request", "Outcome", "About", "Client"], rows.map(rowOf)) : empty(log.requests.length ? "None of the newest requests is such." : "No client has sent a request yet."));
}

function rowOf(row) {
  return h("tr.record", { "data-key": row.number },
    h("th.r.num", { scope: "row" }, count(row.number + 1)),
    h("td", null, time(row.at_ms)),
    h("td", null, row.api, h("span.muted", null, ` v${row.version}`)),
    h("td", null, outcome(row)),
    h("td.wrap.small.most", null, h("bdi", null, row.what)),
    h("td", null, h("bdi", null, row.client_id || "—"), h("span.muted", { title: "connection" }, ` #${row.connection}`)));
}

/** A request's result: `row` is one of the request log. */
export function outcome(row) {
  const chips = [];
  if (row.error) chips.push(chip("bad", row.error));
  if (row.absorbed) chips.push(chip("good", "retry absorbed"));
  if (row.late) chips.push(chip("warn", "answer held back"));
  else if (row.answered && !row.seen) chips.push(chip("bad", "answer lost"));
  else if (!row.answered) chips.push(chip("plain", row.faults.length ? "not handled" : "no answer"));
  for (const name of row.faults) chips.push(chip("warn", name, "the injected fault"));
  return chips.length ? chips.flatMap(each => [each, " "]) : h("span.muted", null, "answered");
}
