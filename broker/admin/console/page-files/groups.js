// The view of groups: members with their partitions and lag, the deliveries of share groups, and the tasks of streams groups.

import { get, getOrNone } from "./api.js";
import { chip, count, empty, h, plural, section, span, table, time } from "./dom.js";
import { link } from "./topics.js";

const STATES = { Stable: "good", Empty: "plain", Dead: "plain" };
const KINDS = { classic: "classic protocol", consumer: "consumer protocol", share: "share group", streams: "streams group", offsets: "offsets alone" };
const DELIVERIES = { available: "warn", acquired: "open", acknowledged: "good", archiving: "open", archived: "bad" };
const state = { contains: "" };

export function open([name], query, ui) {
  return {
    title: name ?? "Groups",
    async load() {
      const [list, chosen] = await Promise.all([get("groups", { contains: state.contains }), name === undefined ? null : getOrNone("group", { name })]);
      return { list, chosen };
    },
    render: ({ list, chosen }) => h("div.split", null, listOf(list, name, ui), h("div.detail", null,
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
  const names = new Map(group.member_rows.map((each, at) => [each.member_id, { each, number: at + 1 }]));
  return [
    section(group.group_id,
      h("p.bar", null, chip(STATES[group.state] ?? "warn", group.state), chip("plain", KINDS[group.kind] ?? group.kind),
        h("span.muted", null, `${group.kind === "classic" || group.kind === "offsets" ? "generation" : "epoch"} ${group.generation}${group.protocol ? ` · ${group.protocol}` : ""}`),
        group.lag ? chip("warn", `lag ${count(group.lag)}`) : chip("good", "no lag"),
        group.lag_unknown ? h("span.muted", null, `not known of ${plural(group.lag_unknown, "partition")}, which ${group.kind === "share" ? "no member has read yet, or " : ""}other brokers have`) : null),
      group.problem ? h("p.warn", null, group.problem) : null,
      group.kind === "share" ? shared(group) : offsets(group, names)),
    group.kind === "share" ? section("Deliveries", deliveries(group, names)) : null,
    section("Members",
      group.member_rows.length
        ? table(`Members of ${group.group_id}`, ["Member", "Client", "Host", group.kind === "streams" ? "Tasks" : "Assigned"], group.member_rows.map((each, at) => h("tr", { "data-key": each.member_id },
          h("th.num", { scope: "row", title: each.member_id }, `${at + 1}`, each.instance_id === null ? null : h("bdi.muted", null, ` ${each.instance_id}`), each.epoch === null ? null : h("span.muted", null, ` epoch ${each.epoch}`)),
          h("td", null, h("bdi", null, each.client_id)), h("td.num", null, h("bdi", null, each.host)), h("td.wrap.num", null, each.tasks ? tasks(each.tasks) : assigned(each)))))
        : empty("The group has no members now.")),
  ];
}

const assigned = each => [each.assigned.length ? h("bdi", null, each.assigned.join(" ")) : h("span.muted", null, "nothing"),
  each.assigned_count > each.assigned.length ? h("span.muted", null, ` and ${count(each.assigned_count - each.assigned.length)} more`) : null];

function tasks(of) {
  const some = Object.entries({ active: of.active, standby: of.standby, "warm-up": of.warmup }).filter(([, each]) => each.length);
  return some.length ? some.map(([kind, each]) => h("div", null, h("span.muted", null, `${kind} `), h("bdi", null, each.join(" ")))) : h("span.muted", null, "nothing");
}

function offsets(group, names) {
  const most = Math.max(1, ...group.offsets.map(each => each.lag ?? 0));
  return [
    group.offsets.length
      ? table(`Partitions of ${group.group_id}`, ["Partition", ["Committed", "r"], ["End", "r"], ["Lag", "r"], ["", "track"], "Read by", "Committed at"], group.offsets.map(each => offsetRow(each, most, names)), { class: "scroll mid" })
      : empty("No offsets are committed, and no partitions are assigned."),
    group.offsets_left_out ? h("p.muted", null, `and ${count(group.offsets_left_out)} more partitions`) : null,
  ];
}

function shared(group) {
  const known = (each, n) => h("td.r.num", null, n ?? h("span.muted", null, each.source === null ? "—" : "elsewhere"));
  return [
    group.shared.length
      ? table(`Partitions of ${group.group_id}`, ["Partition", ["Start", "r"], ["End", "r"], ["Lag", "r"], ["Acquired", "r"], ["Available again", "r"], ["Accepted", "r"], ["Archived", "r"], ["Locks expired", "r"]], group.shared.map(each => h("tr", { "data-key": `${each.topic}-${each.partition}` },
        h("th", { scope: "row" }, h("a", { href: link(each.topic, each.partition, each.start === null ? "" : `?offset=${each.start}`) }, h("bdi", null, `${each.topic}-${each.partition}`))),
        known(each, each.start), known({ source: "" }, each.end), known(each, each.lag),
        ["acquired", "available", "acknowledged", "archived"].map(kind => known(each, each.source === null ? null : each.records[kind])), known(each, each.locks_expired))), { class: "scroll mid" })
      : empty("No partition is shared yet: no member has subscribed to a topic that exists."),
    group.shared.length ? h("p.muted", null, "Start is the first record that is not finished. The counts are of records in flight, at and above it.") : null,
    group.shared_left_out ? h("p.muted", null, `and ${count(group.shared_left_out)} more partitions`) : null,
  ];
}

function deliveries(group, names) {
  const rows = group.shared.flatMap(each => each.deliveries.map(one => [each, one]));
  const left = group.shared.reduce((sum, each) => sum + each.deliveries_left_out, 0);
  return [
    rows.length
      ? table(`Deliveries of ${group.group_id}`, ["Records", "State", ["Delivered", "r"], "Member", ["Lock", "r"]], rows.map(([at, each]) => h("tr", { "data-key": `${at.topic}-${at.partition}-${each.first}` },
        h("th", { scope: "row" }, h("a", { href: link(at.topic, at.partition, `?offset=${each.first}`) }, h("bdi", null, `${at.topic}-${at.partition}`)), h("span.num", null, ` ${each.first}${each.last > each.first ? `–${each.last}` : ""}`)),
        h("td", null, chip(DELIVERIES[each.state], each.state)), h("td.r.num", null, `${count(each.delivery_count)}×`),
        h("td", null, each.member_id === null ? h("span.muted", null, "nobody") : member(names.get(each.member_id), each.member_id)),
        h("td.r.num", null, each.lock_ms === null ? h("span.muted", null, "—") : span(each.lock_ms)))), { class: "scroll mid" })
      : empty("No record is in flight."),
    left ? h("p.muted", null, `and ${count(left)} more`) : null,
  ];
}

const member = (found, id) => found ? [h("span.num", null, found.number), h("bdi.muted", null, ` ${found.each.client_id}`)] : h("bdi.muted", null, id);

function offsetRow(each, most, names) {
  const found = names.get(each.member_id);
  return h("tr", { "data-key": `${each.topic}-${each.partition}` },
    h("th", { scope: "row" }, h("a", { href: link(each.topic, each.partition, each.committed === null ? "" : `?offset=${each.committed}`) }, h("bdi", null, `${each.topic}-${each.partition}`))),
    h("td.r.num", null, each.committed ?? h("span.muted", null, "none")),
    h("td.r.num", null, each.end ?? h("span.muted", null, "elsewhere")),
    h("td.r.num", null, each.lag === null ? h("span.muted", null, "—") : each.lag ? h("b.warn", null, count(each.lag)) : "0"),
    h("td.track", null, each.lag === null ? null : h("svg", { role: "img", "aria-label": `lag ${each.lag}`, height: 12, width: "100%" },
      h("line.rest", { x1: "0%", x2: "100%", y1: 6, y2: 6 }), each.lag ? h("rect.warn", { x: "0%", y: 2, height: 8, rx: 2, width: `${Math.max(1, (each.lag / most) * 100)}%` }) : null)),
    h("td", null, found ? member(found) : h("span.muted", null, "nobody")),
    h("td", null, each.committed_at === null ? h("span.muted", null, "—") : time(each.committed_at)));
}
