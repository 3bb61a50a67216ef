// The room of groups: members, what each reads, and how far behind.

import { get, getOrNone } from "./api.js";
import { chip, count, empty, h, plural, section, table, time } from "./dom.js";
import { link } from "./topics.js";

const STATES = { Stable: "good", Empty: "plain", Dead: "plain" };
const state = { contains: "" };

export function open([name], query, ui) {
  return {
    title: name ?? "Groups",
    async load() {
      const [list, chosen] = await Promise.all([get("groups", { contains: state.contains }), name === undefined ? null : getOrNone("group", { name })]);
      return { list, chosen };
    },
    view: ({ list, chosen }) => h("div.split", null, listOf(list, name, ui), h("div.detail", null,
      chosen ? detail(chosen) : name !== undefined ? empty("This broker coordinates no such group.") : list.groups.length ? empty("Choose a group: its members, and how far behind each partition is.") : null)),
  };
}

function listOf(list, chosen, ui) {
  return h("section.list", { "aria-label": "Groups" },
    h("h2", null, "Groups"),
    h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter groups by name", value: state.contains, oninput: event => { state.contains = event.target.value; ui.reload(); } }),
    h("ul", null, list.groups.map(group => h("li", { "data-key": group.group_id },
      h("a", { href: `#/groups/${encodeURIComponent(group.group_id)}`, "aria-current": group.group_id === chosen ? "true" : null },
        h("bdi.name", null, group.group_id),
        h("span.muted", null, `${plural(group.members, "member")} · ${plural(group.partitions, "partition")}`),
        h("span", null, chip(STATES[group.state] ?? "warn", group.state), " ", group.lag ? chip("warn", `lag ${count(group.lag)}`) : chip("good", "no lag")))))),
    list.left_out ? h("p.muted", null, `and ${count(list.left_out)} more: filter them`) : null,
    list.groups.length ? null : empty(state.contains ? "No group that this broker coordinates matches." : "This broker coordinates no groups yet. A consumer that subscribes with a group.id creates one."));
}

function detail(group) {
  const most = Math.max(1, ...group.offsets.map(each => each.lag ?? 0));
  const names = new Map(group.member_rows.map((each, at) => [each.member_id, { each, number: at + 1 }]));
  return [
    section(group.group_id,
      h("p.bar", null, chip(STATES[group.state] ?? "warn", group.state), chip("plain", group.kind === "consumer" ? "consumer protocol" : group.kind === "classic" ? "classic protocol" : "offsets alone"),
        h("span.muted", null, `${group.kind === "consumer" ? "epoch" : "generation"} ${group.generation}${group.protocol ? ` · ${group.protocol}` : ""}`),
        group.lag ? chip("warn", `lag ${count(group.lag)}`) : chip("good", "no lag"),
        group.lag_unknown ? h("span.muted", null, `not known of ${plural(group.lag_unknown, "partition")}, which other brokers have`) : null),
      group.offsets.length
        ? table(`Partitions of ${group.group_id}`, ["Partition", ["Committed", "r"], ["End", "r"], ["Lag", "r"], ["", "track"], "Read by", "Committed at"], group.offsets.map(each => offsetRow(each, most, names)), { class: "scroll mid" })
        : empty("No offsets are committed, and no partitions are assigned."),
      group.offsets_left_out ? h("p.muted", null, `and ${count(group.offsets_left_out)} more partitions`) : null),
    section("Members",
      group.member_rows.length
        ? table(`Members of ${group.group_id}`, ["Member", "Client", "Host", "Assigned"], group.member_rows.map((each, at) => h("tr", { "data-key": each.member_id },
          h("th.num", { scope: "row", title: each.member_id }, `${at + 1}`, each.instance_id === null ? null : h("bdi.muted", null, ` ${each.instance_id}`), each.epoch === null ? null : h("span.muted", null, ` epoch ${each.epoch}`)),
          h("td", null, h("bdi", null, each.client_id)), h("td.num", null, h("bdi", null, each.host)), h("td.wrap.num", null, each.assigned.length ? h("bdi", null, each.assigned.join(" ")) : h("span.muted", null, "nothing"),
            each.assigned_count > each.assigned.length ? h("span.muted", null, ` and ${count(each.assigned_count - each.assigned.length)} more`) : null))))
        : empty("The group has no members now.")),
  ];
}

function offsetRow(each, most, names) {
  const member = names.get(each.member_id);
  return h("tr", { "data-key": `${each.topic}-${each.partition}` },
    h("th", { scope: "row" }, h("a", { href: link(each.topic, each.partition, each.committed === null ? "" : `?offset=${each.committed}`) }, h("bdi", null, `${each.topic}-${each.partition}`))),
    h("td.r.num", null, each.committed ?? h("span.muted", null, "none")),
    h("td.r.num", null, each.end ?? h("span.muted", null, "elsewhere")),
    h("td.r.num", null, each.lag === null ? h("span.muted", null, "—") : each.lag ? h("b.warn", null, count(each.lag)) : "0"),
    h("td.track", null, each.lag === null ? null : h("svg", { role: "img", "aria-label": `lag ${each.lag}`, height: 12, width: "100%" },
      h("line.rest", { x1: "0%", x2: "100%", y1: 6, y2: 6 }), each.lag ? h("rect.warn", { x: "0%", y: 2, height: 8, rx: 2, width: `${Math.max(1, (each.lag / most) * 100)}%` }) : null)),
    h("td", null, member ? [h("span.num", null, member.number), h("bdi.muted", null, ` ${member.each.client_id}`)] : h("span.muted", null, "nobody")),
    h("td", null, each.committed_at === null ? h("span.muted", null, "—") : time(each.committed_at)));
}
