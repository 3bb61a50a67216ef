// The view of producers: the deduplication window (last five batches) of each producer on each partition.

import { get } from "./api.js";
import { chip, count, empty, h, plural, section, table, time } from "./dom.js";
import { link } from "./topics.js";

const SLOTS = 5;
const state = { topic: "" };

export function open(path, query, ui) {
  return {
    title: "Producers",
    async load() {
      const [found, list] = await Promise.all([get("producers", { topic: state.topic || undefined }), get("topics")]);
      return { found, list };
    },
    render: ({ found, list }) => section("Idempotent producers",
      h("p.muted", null, "A partition remembers the last five batches of each producer id. A retry of one of them is answered with its original offset and not written again; an older batch, or one that leaves a gap in the sequence, is rejected."),
      h("div.bar", null, h("label.inline", null, "Topic ", choice(list, ui)), h("span.muted", null, plural(found.producers.length + found.left_out, "producer"))),
      found.producers.length
        ? table("Producers, latest writer first", ["Partition", "Producer", "The last five batches, the newest on the right", "Retries absorbed", "Last write"], found.producers.map(rowOf), { class: "scroll mid" })
        : empty("No idempotent producer has written yet."),
      found.left_out ? h("p.muted", null, `and ${count(found.left_out)} that wrote earlier`) : null),
  };
}

function choice(list, ui) {
  const there = list.topics.map(topic => topic.name);
  const names = state.topic === "" || there.includes(state.topic) ? there : [state.topic, ...there];
  return h("select", { "aria-label": "Topic", onchange: event => { state.topic = event.target.value; ui.reload(); } },
    h("option", { value: "" }, "all"), names.map(name => h("option", { value: name, "data-key": name, selected: name === state.topic }, name)));
}

function rowOf(row) {
  const again = new Map();
  for (const each of row.absorbed) again.set(each.base_sequence, (again.get(each.base_sequence) ?? 0) + 1);
  const slots = [...Array(Math.max(0, SLOTS - row.window.length)).fill(null), ...row.window];
  return h("tr", { "data-key": `${row.topic}-${row.partition}/${row.producer_id}` },
    h("th", { scope: "row" }, h("a", { href: link(row.topic, row.partition) }, h("bdi", null, `${row.topic}-${row.partition}`))),
    h("td", null, h("span.num", null, row.producer_id), h("span.muted", null, ` epoch ${row.producer_epoch}`),
      row.transactional_id === null ? null : h("div.muted", null, h("bdi", null, row.transactional_id)),
      row.open_from < 0 ? null : h("div", null, chip("open", `open from offset ${row.open_from}`))),
    h("td", null, h("ol.window", { "aria-label": "Sequences and offsets" }, slots.map(batch => slot(batch, again))),
      row.older_in_log ? h("div.muted", null, "read back after a restart: older batches are searched in the log") : null),
    h("td", null, row.absorbed_count ? [chip("good", plural(row.absorbed_count, "retry", "retries")), absorbed(row.absorbed)] : h("span.muted", null, "none")),
    h("td", null, time(row.last_timestamp)));
}

function slot(batch, again) {
  if (batch === null) return h("li.free", { "aria-label": "not used" });
  const times = again.get(batch.first_sequence);
  return h("li", { class: times ? "again" : null, title: times ? `sent again ${times === 1 ? "once" : `${times} times`}, written once` : null },
    h("b.num", null, reach(batch.first_sequence, batch.last_sequence)), h("span.muted.num", null, `at ${reach(batch.first_offset, batch.last_offset)}`), times ? h("span.mark", null, `↺ ${times}`) : null);
}

const reach = (first, last) => (first === last ? String(first) : `${first}–${last}`);

function absorbed([newest]) {
  if (newest === undefined) return null;
  return h("div.muted", null, "sequence ", h("span.num", null, newest.base_sequence), " again, answered offset ", h("span.num", null, newest.offset), " as before");
}
