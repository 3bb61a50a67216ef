// The view of topics: the list of topics, the partitions of one topic, and the records of one partition.

import { change, get, getOrNone } from "./api.js";
import { bytes, chip, count, empty, h, plural, section, table } from "./dom.js";
import { openRecords, forgetWholeValues } from "./records.js";

const state = { contains: "", internal: false, refused: null };

export const link = (topic, partition, query = "") => `#/topics/${encodeURIComponent(topic)}${partition === undefined ? "" : `/${partition}`}${query}`;

export function open([topic, place], query, ui) {
  const partition = /^\d+$/.test(place ?? "") ? place : undefined;
  const records = partition === undefined ? null : openRecords(topic, Number(partition), query, ui);
  return {
    title: topic ? `${topic}${partition === undefined ? "" : `-${partition}`}` : "Topics",
    async load() {
      const [list, chosen, page, schemas] = await Promise.all([
        get("topics", { contains: state.contains, internal: state.internal }),
        topic ? getOrNone("topic", { name: topic }) : null,
        records?.load(),
        topic ? get("schemas") : [],
      ]);
      return { list, chosen, page, schemas: schemas.filter(each => each.topic === topic) };
    },
    render({ list, chosen, page, schemas }) {
      return h("div.split", null,
        listOf(list, topic, ui),
        h("div.detail", null, chosen ? detail(chosen, partition) : topic ? empty("There is no such topic.") : welcome(list),
          page ? [records.render(page), schemasOf(topic, schemas, ui)] : chosen && records ? elsewhere(chosen, Number(partition)) : null));
    },
  };
}

function listOf(list, chosen, ui) {
  return h("section.list", { "aria-label": "Topics" },
    h("h2", null, "Topics"),
    h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter topics by name", value: state.contains, oninput: event => { state.contains = event.target.value; ui.reload(); } }),
    h("label.check", null, h("input", { type: "checkbox", checked: state.internal, onchange: event => { state.internal = event.target.checked; ui.reload(); } }), " the broker's own, too"),
    h("ul", null, list.topics.map(topic => h("li", { "data-key": topic.name },
      h("a", { href: link(topic.name, topic.partitions === 1 ? 0 : undefined), "aria-current": topic.name === chosen ? "true" : null },
        h("bdi.name", null, topic.name),
        h("span.muted.num", null, `${plural(topic.partitions, "partition")} · ${bytes(topic.size_bytes)}`),
        topic.leaderless ? chip("bad", `${topic.leaderless} without a leader`) : topic.out_of_sync ? chip("warn", `${topic.out_of_sync} out of sync`) : null)))),
    list.left_out ? h("p.muted", null, `and ${count(list.left_out)} more: filter them`) : null,
    list.topics.length ? null : empty(state.contains ? "No topic has such a name." : "No topics yet. A client that writes to a topic creates it."));
}

function welcome(list) {
  return list.topics.length ? empty("Choose a topic: its partitions, and its records as they arrive.") : null;
}

function elsewhere(topic, partition) {
  const known = topic.partitions.find(each => each.index === partition);
  return empty(known ? `This broker has no replica of ${topic.name}-${partition}: its records are shown by the console of ${known.replicas.map(node => `broker ${node}`).join(" or ")}.` : "There is no such partition.");
}

function detail(topic, chosen) {
  const settings = Object.entries(topic.settings);
  return section(topic.name,
    h("p.muted", null, `${plural(topic.partitions.length + topic.left_out, "partition")}${topic.internal ? " · the broker's own" : ""}`,
      settings.map(([name, value]) => [" · ", h("code", null, `${name}=${value}`)])),
    table(`Partitions of ${topic.name}`,
      ["Partition", "Leader", "In sync", ["Log start", "r"], ["Last stable", "r"], ["High watermark", "r"], ["End", "r"], ["Size", "r"]],
      topic.partitions.map(each => partitionRow(topic.name, each, chosen))),
    topic.left_out ? h("p.muted", null, `and ${count(topic.left_out)} more partitions`) : null);
}

function partitionRow(topic, each, chosen) {
  const log = each.log, here = String(each.index) === chosen;
  const behind = each.replicas.filter(node => !each.in_sync.includes(node));
  return h("tr", { "data-key": each.index, class: here ? "chosen" : null },
    h("th", { scope: "row" }, h("a.num", { href: link(topic, each.index), "aria-current": here ? "true" : null }, each.index)),
    h("td", null, each.leader < 0 ? chip("bad", "none") : h("span.num", null, each.leader), h("span.muted.num", { title: "leader epoch" }, ` epoch ${each.leader_epoch}`)),
    h("td.num", null, each.in_sync.join(" "), behind.length ? [" ", chip("warn", `without ${behind.join(" ")}`)] : null),
    log ? [
      h("td.r.num", null, log.start),
      h("td.r.num", null, log.last_stable < log.high_watermark ? chip("open", log.last_stable, "a transaction is open") : log.last_stable),
      h("td.r.num", null, log.high_watermark),
      h("td.r.num", null, log.end),
      h("td.r.num", { title: plural(log.segments, "segment") }, bytes(log.size_bytes)),
    ] : h("td.muted", { colspan: 5 }, "no replica on this broker"));
}

/** The uploaded schemas of a topic, and forms to upload and delete them. */
function schemasOf(topic, schemas, ui) {
  const act = async (method, part, body) => {
    try {
      if (await change(method, `console/schemas?${new URLSearchParams({ topic, part })}`, body)) state.refused = null;
      forgetWholeValues();
    } catch (error) {
      state.refused = error.message;
    }
    ui.reload();
  };
  const upload = async event => {
    event.preventDefault();
    const given = new FormData(event.target), file = given.get("descriptors");
    act("PUT", given.get("part"), file === null ? { avro: given.get("avro") } : { protobuf: { descriptors: await base64(file), message: given.get("message").trim() } });
  };
  const use = () => h("div.buttons", null, h("label.inline", null, "For the ", h("select", { name: "part" }, h("option", { value: "value" }, "value"), h("option", { value: "key" }, "key"))), h("button.main", null, "Use it"));
  return h("section", { "aria-label": "Schema" }, h("details", null,
    h("summary", null, schemas.length ? `Shown by a schema: ${schemas.map(each => `the ${each.part}, ${each.kind}`).join("; ")}` : "Records in Avro or Protobuf? Add a schema"),
    state.refused === null ? null : h("p.refused", { role: "alert" }, state.refused),
    schemas.map(each => h("div", { "data-key": each.part }, h("h3", null, `${each.part}: ${each.kind}`), h("pre", { tabindex: 0, "aria-label": `Schema of the ${each.part}` }, each.text),
      h("div.buttons", null, h("button.danger", { type: "button", onclick: () => act("DELETE", each.part) }, `Forget the ${each.part}’s`)))),
    h("p.muted", null, "The prefix that schema registry serializers write before a value is skipped. A schema is kept until the broker stops."),
    h("form", { onsubmit: upload, "aria-label": "Avro" },
      h("label.block", null, "An Avro schema, as JSON", h("textarea.num", { name: "avro", rows: 5, required: true, spellcheck: "false" })), use()),
    h("form", { onsubmit: upload, "aria-label": "Protobuf" },
      h("label.block", null, "Protobuf: what protoc --include_imports --descriptor_set_out wrote", h("input", { name: "descriptors", type: "file", required: true })),
      h("label.block", null, "and the message’s full name", h("input.num", { name: "message", type: "text", required: true, autocomplete: "off", placeholder: "shop.Order" })), use())));
}

async function base64(file) {
  let text = "";
  for (const byte of new Uint8Array(await file.arrayBuffer())) text += String.fromCharCode(byte);
  return btoa(text);
}
