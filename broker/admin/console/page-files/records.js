// Records of one partition, newest first: content, producer, and the outcome of the transaction.

import { get, getOrNone } from "./api.js";
import { bytes, chip, empty, h, section, table, time } from "./dom.js";

const SHOWN = 60;
const WHOLE_BYTES = 256 * 1024;
const OUTCOMES = { open: ["open", "open"], committed: ["good", "committed"], aborted: ["bad", "aborted"] };
const opened = new Set(), whole = new Map();

let reading = 0;

/** Forgets the values that were read completely, because another schema decodes them now. */
export function forgetWholeValues() {
  reading += 1; // a pending response was decoded with the previous schema
  whole.clear();
}

export function openRecords(topic, partition, query, ui) {
  const from = query.has("offset") ? Math.max(0, Number(query.get("offset")) || 0) : null;
  const to = offset => ui.go(`#/topics/${encodeURIComponent(topic)}/${partition}${offset === null ? "" : `?offset=${Math.max(0, offset)}`}`);
  return {
    load: () => getOrNone("records", { topic, partition, offset: from ?? -SHOWN, limit: SHOWN }),
    render: page => section(`Records of ${topic}-${partition}`, bar(page, from, to), listed(page, from, topic, partition, ui)),
  };
}

function bar(page, from, to) {
  const first = page.records[0]?.offset ?? page.start, next = page.next_offset;
  const jump = event => {
    event.preventDefault();
    const wanted = new FormData(event.target).get("offset");
    if (wanted !== "") to(Number(wanted));
  };
  return h("div.bar", null,
    from === null ? h("span.live", null, "following") : h("button.main", { type: "button", onclick: () => to(null) }, "Follow"),
    h("button", { type: "button", disabled: first <= page.start, onclick: () => to(Math.max(page.start, first - SHOWN)) }, "Older"),
    h("button", { type: "button", disabled: from === null || next >= page.end, onclick: () => to(next) }, "Newer"),
    h("form.inline", { onsubmit: jump }, h("label", null, "From offset ", h("input.num", { name: "offset", type: "number", min: 0, step: 1 })), h("button", null, "Go")),
    h("span.muted.num", null, page.records.length ? `${first} to ${next - 1} of [${page.start}, ${page.end})` : `[${page.start}, ${page.end})`));
}

function listed(page, from, topic, partition, ui) {
  if (!page.records.length) return empty(page.end > page.start && !(from >= page.end) ? "All records of this partition were deleted." : "Nothing was written yet. Records show up here as they arrive.");
  const rows = [...page.records].reverse().flatMap(row => rowOf(row, page, topic, partition, ui));
  return table(`Records of ${topic}-${partition}, newest first`, [["Offset", "r"], "Time", "Key", "Value", "Producer", ["Sequence", "r"], "Transaction"], rows, { "data-records": "" });
}

function rowOf(row, page, topic, partition, ui) {
  const key = `${topic}-${partition}@${row.offset}`, isOpen = opened.has(key);
  const readWhole = async () => {
    const mine = reading;
    whole.set(key, null);
    try {
      const [found] = (await get("records", { topic, partition, offset: row.offset, limit: 1, value_bytes: WHOLE_BYTES })).records;
      if (mine !== reading) return;
      if (isSame(found, row)) whole.set(key, found);
      if (whole.size > SHOWN) whole.delete(whole.keys().next().value);
      ui.redraw();
    } catch {
      if (mine === reading) whole.delete(key); // the next look tells what is wrong
    }
  };
  const toggle = () => {
    if (!opened.delete(key)) opened.add(key);
    ui.redraw();
  };
  const more = whole.get(key);
  if (isOpen && row.value.cut && (more === undefined || (more && !isSame(more, row)))) readWhole();
  const kind = row.control ? "marker" : row.problem ? "problem" : row.fate === "aborted" ? "aborted" : row.fate === "open" ? "open" : "";
  const line = h("tr.record", { "data-key": key, class: `record ${kind} ${row.offset >= page.high_watermark ? "uncommitted" : ""}` },
    h("th.r", { scope: "row" }, h("button.offset.num", { type: "button", "aria-expanded": isOpen ? "true" : "false", onclick: toggle, title: "Show all of it" }, row.offset)),
    h("td", null, time(row.timestamp)),
    row.control ? h("td", { colspan: 2 }, chip(row.control === "abort" ? "bad" : row.control === "commit" ? "good" : "plain", `${row.control} marker`))
      : row.problem ? h("td", { colspan: 2 }, chip("bad", "not readable"), " ", row.problem)
        : [h("td.data", null, inline(row.key)), h("td.data.wide", null, inline(row.value))],
    h("td.num", null, row.producer_id < 0 ? h("span.muted", null, "—") : `${row.producer_id}`, row.producer_id < 0 ? null : h("span.muted", { title: "producer epoch" }, ` epoch ${row.producer_epoch}`)),
    h("td.r.num", null, row.sequence < 0 ? h("span.muted", null, "—") : row.sequence),
    h("td", null, outcome(row)));
  return isOpen ? [line, h("tr.more", { "data-key": `${key}+` }, h("td", { colspan: 7 }, details(row, more && isSame(more, row) ? more : row, page)))] : [line];
}

/** Returns whether it is still the same record: its topic may have been recreated. */
const isSame = (found, row) => found?.offset === row.offset && found.timestamp === row.timestamp && found.value.size === row.value.size;

function outcome(row) {
  const name = row.transactional_id === null ? null : h("bdi.muted", null, ` ${row.transactional_id}`);
  if (row.fate in OUTCOMES && !row.control) return [chip(...OUTCOMES[row.fate]), name];
  return row.control ? name : h("span.muted", null, "—");
}

/** The key or value in one line. */
export function inline(value) {
  if (value.form === "none") return h("span.muted", null, "null");
  if (value.size === 0) return h("span.muted", null, "empty");
  const text = value.form === "hex" ? spaced(value.text.slice(0, 64)) : value.text.slice(0, 200);
  return h(`bdi.${value.form}`, null, text, value.cut || text.length < value.text.length ? "…" : "");
}

const spaced = hex => hex.replace(/(..)(?=.)/g, "$1 ");

/** `said` is the record with more of its value, from an earlier query. */
function details(row, said, page) {
  const facts = [
    `batch ${row.batch} of ${row.batch_records} record${row.batch_records === 1 ? "" : "s"}`,
    row.codec === "none" ? "not compressed" : row.codec,
    `leader epoch ${row.leader_epoch}`,
    row.producer_id < 0 ? "written without idempotence" : `producer ${row.producer_id}, epoch ${row.producer_epoch}${row.sequence < 0 ? "" : `, sequence ${row.sequence}`}`,
    row.offset >= page.high_watermark ? "not committed yet: above the high watermark" : null,
    row.fate === "open" ? "its transaction is open: read_committed consumers do not see it yet" : null,
    row.fate === "aborted" ? "its transaction was aborted: read_committed consumers skip it" : null,
  ];
  return h("div.all", null,
    h("p.muted", null, facts.filter(Boolean).join(" · ")),
    row.control || row.problem ? null : [
      part("Key", said.key), part("Value", said.value),
      row.headers.length ? [h("h3", null, "Headers"), h("dl", null, row.headers.map(each => [h("dt", null, h("bdi", null, each.name)), h("dd", null, inline(each.value))]))] : null,
    ]);
}

function part(name, value) {
  if (value.form === "none") return h("p", null, h("b", null, name), " ", h("span.muted", null, "null"));
  const number = value.form === "hex" && (value.size === 4 || value.size === 8) ? ` · as a number ${BigInt.asIntN(value.size * 8, BigInt(`0x${value.text}`))}` : "";
  const text = value.form === "hex" ? dump(value.text) : ["json", "avro", "protobuf"].includes(value.form) ? indented(value.text) : value.text;
  return [h("h3", null, name, h("span.muted", null, ` ${value.form}, ${bytes(value.size)}${value.cut ? ", only its beginning" : ""}${number}`)), h("pre", { tabindex: 0, "aria-label": name }, text)];
}

/** A hex dump: sixteen bytes a line, and their ASCII characters. */
function dump(hex) {
  const lines = [];
  for (let at = 0; at < hex.length; at += 32) {
    const part = hex.slice(at, at + 32), ascii = part.replace(/../g, two => { const code = parseInt(two, 16); return code > 31 && code < 127 ? String.fromCharCode(code) : "·"; });
    lines.push(`${(at / 2).toString(16).padStart(6, "0")}  ${spaced(part).padEnd(47)}  ${ascii}`);
  }
  return lines.join("\n");
}

/** JSON with line breaks added and nothing else changed: numbers keep all their digits. */
export function indented(json) {
  let out = "", depth = 0, inText = false;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < json.length; at += 1) {
    const char = json[at];
    if (inText) {
      out += char;
      if (char === "\\") out += json[++at] ?? "";
      else if (char === '"') inText = false;
    } else if (char === '"') { inText = true; out += char; }
    else if (char === "{" || char === "[") {
      const end = json.slice(at + 1).match(/^\s*([}\]])/);
      if (end) { out += char + end[1]; at += end[0].length; } else { depth = Math.min(depth + 1, 100); out += char + line(); }
    } else if (char === "}" || char === "]") { depth = Math.max(0, depth - 1); out += line() + char; }
    else if (char === ",") out += char + line();
    else if (char === ":") out += ": ";
    else if (!/\s/.test(char)) out += char;
  }
  return out;
}
