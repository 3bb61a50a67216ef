// Creation and update of the page's elements. Text from the broker becomes a text node, never HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "rect", "line", "text", "title", "path", "circle"]);
const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown"];

/** An element: h("a.strong", {href: "#/x", onclick: f}, "text", child, [more]). null, undefined and false are left out. */
export function h(what, props, ...children) {
  const [tag, ...classes] = what.split(".");
  const made = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (classes.length) made.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(props ?? {})) {
    if (HANDLERS.includes(name)) made[name] = value;
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, String(value));
  }
  for (const child of children.flat(3)) {
    if (child != null && child !== false) made.append(child instanceof Node ? child : visible(String(child)));
  }
  return made;
}

const keyOf = node => (node.nodeType === 1 ? node.getAttribute("data-key") : null);
const alike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

/** Changes `from` to equal `to`, and leaves equal parts alone: focus, scrolling and the text in an input stay. */
export function morph(from, to) {
  if (from.nodeType !== 1) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  for (const name of HANDLERS) if (from[name] !== to[name]) from[name] = to[name];
  morphChildren(from, to);
}

function morphChildren(from, to) {
  const keyed = new Map();
  for (const child of from.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  let here = from.firstChild;
  for (const next of [...to.childNodes]) {
    const known = keyOf(next) ? keyed.get(keyOf(next)) : here && alike(here, next) ? here : null;
    if (known && alike(known, next)) {
      if (known === here) here = here.nextSibling;
      else from.insertBefore(known, here);
      morph(known, next);
    } else {
      from.insertBefore(next, here);
    }
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

/** A table that scrolls by itself where the screen is small. `heads`: texts, or [text, class] of a column. */
export function table(label, heads, rows, more = {}) {
  const head = heads.map(each => (Array.isArray(each) ? h(`th.${each[1]}`, { scope: "col" }, each[0]) : h("th", { scope: "col" }, each)));
  return h("div.scroll", { role: "region", "aria-label": label, tabindex: 0, ...more },
    h("table", { "aria-label": label }, h("thead", null, h("tr", null, head)), h("tbody", null, rows)));
}

export const chip = (kind, text, title) => h(`span.chip.${kind}`, { title }, text);
export const empty = (...text) => h("p.empty", null, text);
export const section = (title, ...rest) => h("section", { "aria-label": title }, h("h2", null, title), rest);

export const count = n => Number(n).toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at += 1; }
  return `${at ? n.toFixed(n < 10 ? 1 : 0) : n} ${units[at]}`;
}

/** Shows characters that change the direction of text instead of applying them: a record, a group or a client could otherwise look like another one. */
const visible = text => text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, char => `‹U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);

const two = n => String(n).padStart(2, "0");

/** The time of day, with the whole date as tooltip; an em dash for none. A record's producer chooses its timestamp, so it may be out of range. */
export function time(ms) {
  if (ms < 0) return h("span.muted", null, "—");
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return h("span.muted", { title: `${ms} ms` }, "beyond all dates");
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
  return h("time.num", { datetime: at.toISOString(), title: at.toISOString() }, text);
}

/** A duration as text: 340 ms, 4.2 s, 3 min 5 s, 2 h 10 min. */
export function span(ms) {
  if (ms < 0) return `−${span(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}
