// The view of the wire log: requests and responses as they pass, by the filters of `ottla tap`. A line opens to the decoded fields.

import { get } from "./api.js";
import { bytes, count, empty, h, section, span, table, time } from "./dom.js";
import { outcome } from "./faults.js";

const SHOWN = 500;
const TEXTS = [["topic", "Topic"], ["group", "Group"], ["client_id", "Client id"]];
const state = { filter: {}, lines: [], last: 0, missed: 0, since: 0, held: null };
const opened = new Set();
let choices = null, asked = 0;

export function open(path, query, ui) {
  forget();
  return {
    title: "Wire log",
    async load() {
      const mine = ++asked;
      choices ??= await get("choices");
      const found = await get("wire", { ...state.filter, after: state.last, limit: SHOWN });
      if (mine === asked) keep(found);
      return state;
    },
    render: () => section("Wire log", bar(ui), listed(ui)),
  };
}

function forget() {
  asked += 1; // a response that is under way is by another filter
  Object.assign(state, { lines: [], last: 0, missed: 0, held: null });
  opened.clear();
}

function keep(found) {
  const known = found.since_ms === state.since && state.last > 0; // else the log began anew
  state.lines = [...found.lines, ...(known ? state.lines : [])].slice(0, SHOWN);
  state.missed = found.missed + (known ? state.missed : 0);
  state.last = found.last;
  state.since = found.since_ms;
}

function bar(ui) {
  const apply = event => {
    event.preventDefault();
    if (!event.currentTarget.reportValidity()) return;
    state.filter = Object.fromEntries([...new FormData(event.currentTarget)].filter(([, value]) => value !== ""));
    forget();
    ui.reload();
  };
  const pause = () => {
    state.held = state.held ? null : state.lines;
    ui.redraw();
  };
  return h("form.bar", { "aria-label": "Filter", onsubmit: apply, onchange: apply },
    h("select", { name: "api", "aria-label": "API" }, h("option", { value: "" }, "Any API"), choices.apis.map(each => h("option", { value: each, selected: each === state.filter.api }, each))),
    TEXTS.map(([name, text]) => h("input", { name, type: "search", placeholder: text, "aria-label": text, title: "An exact name, or a pattern such as order*", value: state.filter[name], autocomplete: "off" })),
    h("label.inline", null, h("input", { name: "errors", type: "checkbox", value: "true", checked: Boolean(state.filter.errors) }), " errors only"),
    h("label.inline", null, "slower than ", h("input", { name: "slower_than", type: "number", min: 0, step: "any", value: state.filter.slower_than }), " ms"),
    h("button", { type: "button", "aria-pressed": state.held ? "true" : "false", onclick: pause }, state.held ? "Follow" : "Pause"),
    state.held ? h("span.muted", null, "paused") : h("span.live", null, "following"),
    state.missed ? h("span.muted", null, `${count(state.missed)} more passed`) : null);
}

function listed(ui) {
  const lines = state.held ?? state.lines;
  if (!lines.length) return empty("No such request has passed since ", time(state.since), ". Requests show up here as they pass.");
  return table("Requests, newest first", ["Time", "Request", "Result", "About", ["Bytes", "r"], ["Took", "r"], "Client"], lines.flatMap(line => rowsOf(line, ui)));
}

function rowsOf(line, ui) {
  const isOpen = opened.has(line.number);
  const toggle = () => {
    if (!opened.delete(line.number)) opened.add(line.number);
    ui.redraw();
  };
  const row = h("tr.record", { "data-key": line.number },
    h("th", { scope: "row" }, h("button.offset.num", { type: "button", "aria-expanded": isOpen ? "true" : "false", onclick: toggle, title: "Show the decoded fields" }, time(Date.parse(line.time)))),
    h("td", null, line.api, h("span.muted", null, ` v${line.version}`)),
    h("td", null, outcome({ ...line, error: line.errors.join(", "), answered: line.response !== null })),
    h("td.wrap.small.most", null, h("bdi", null, line.about)),
    h("td.r.num", null, `${bytes(line.request_bytes)} → ${line.response_bytes === null ? "—" : bytes(line.response_bytes)}`),
    h("td.r.num", null, line.took_ms < 1000 ? `${line.took_ms.toFixed(1)} ms` : span(line.took_ms)),
    h("td", null, h("bdi", null, line.client_id || "—"), h("span.muted", { title: "connection" }, ` #${line.connection}`)));
  return isOpen ? [row, h("tr.more", { "data-key": `${line.number}+` }, h("td", { colspan: 7 }, h("div.all.pair", null, fields("Request", line.request), fields("Response", line.response))))] : [row];
}

const fields = (title, message) => h("div", null, h("h3", null, title), message === null ? h("p.muted", null, "none") : h("pre", { tabindex: 0, "aria-label": title }, JSON.stringify(message, null, 2)));
