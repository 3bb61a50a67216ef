// The view of the cluster: brokers, controllers, and changes of leaders.

import { get } from "./api.js";
import { chip, count, empty, h, plural, section, table, time } from "./dom.js";

const STATES = { serving: "good", fenced: "bad", "shutting down": "warn" };
const KINDS = [["election", "elections"], ["in-sync", "in-sync sets"], ["broker", "brokers"], ["topic", "topics"]];
const state = { without: new Set() };

export function open(path, query, ui) {
  return {
    title: "Cluster",
    load: () => get("cluster"),
    render: found => [summary(found), section("What happened",
      h("div.bar", null, KINDS.map(([kind, text]) => h("label.inline", null, h("input", { type: "checkbox", checked: !state.without.has(kind), onchange: event => { state.without[event.target.checked ? "delete" : "add"](kind); ui.redraw(); } }), text))),
      events(found.events.filter(each => !state.without.has(each.kind))))],
  };
}

function summary(found) {
  return section(found.alone ? "Standalone node" : "Brokers",
    h("p.bar", null, h("span.muted", null, "cluster "), h("code", null, found.cluster_id),
      found.alone ? h("span.muted", null, "It is its own controller.") : found.decides_here ? h("span.muted", null, "The controller is in this process, too.") : null,
      found.leaderless ? chip("bad", `${plural(found.leaderless, "partition")} without a leader`) : chip("good", "every partition has a leader"),
      found.out_of_sync ? chip("warn", `${plural(found.out_of_sync, "partition")} out of sync`) : chip("good", "all in sync"),
      h("span.muted", null, `metadata up to offset ${found.metadata_offset}`)),
    table("Brokers", ["Broker", "State", "Address", ["Leads", "r"], ["Replicas", "r"], ["Out of sync", "r"], "Rack"], found.brokers.map(each => h("tr", { "data-key": each.node_id, class: each.this ? "chosen" : null },
      h("th.num", { scope: "row" }, each.node_id, each.this ? h("span.muted", null, " this one") : null),
      h("td", null, chip(STATES[each.state], each.state)),
      h("td.num", null, each.address),
      h("td.r.num", null, count(each.leads)), h("td.r.num", null, count(each.replicas)),
      h("td.r.num", null, each.out_of_sync ? h("b.warn", null, count(each.out_of_sync)) : "0"),
      h("td", null, each.rack ?? h("span.muted", null, "—"))))),
    found.controllers.length ? [h("h3", null, "Controllers"), table("Controllers", ["Controller", "Address"], found.controllers.map(each => h("tr", { "data-key": `c${each.node_id}` }, h("th.num", { scope: "row" }, each.node_id), h("td.num", null, each.address))))] : null);
}

function events(list) {
  if (!list.length) return empty("The end of the metadata log contains no such event.");
  return table("Events, newest first", ["Time", "What", "About", ["Offset", "r"]], list.map((each, at) => h("tr.record", { "data-key": `${each.offset}/${each.kind}/${each.about}` },
    h("td", null, time(each.at_ms)),
    h("td", null, chip(each.bad ? "bad" : each.kind === "election" ? "accent" : "plain", each.kind), " ", h("bdi", null, each.text)),
    h("th", { scope: "row" }, h("bdi", null, each.about)),
    h("td.r.num.muted", null, each.offset))));
}
