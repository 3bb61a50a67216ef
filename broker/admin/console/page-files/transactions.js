// The view of transactions: what blocks read_committed consumers, and the state of each transaction.

import { get } from "./api.js";
import { chip, count, empty, h, plural, section, span, table, time } from "./dom.js";
import { link } from "./topics.js";

const KINDS = { Ongoing: "open", PrepareCommit: "warn", PrepareAbort: "warn", CompleteCommit: "good", CompleteAbort: "bad" };
const WORDS = { Ongoing: "open", PrepareCommit: "commits", PrepareAbort: "aborts", CompleteCommit: "committed", CompleteAbort: "aborted", Empty: "empty" };
const WINDOWS = [[60_000, "1 minute"], [600_000, "10 minutes"], [3_600_000, "1 hour"], [86_400_000, "1 day"]];
const state = { window: 0 };

export function open(path, query, ui) {
  return {
    title: "Transactions",
    load: () => get("transactions"),
    render: found => [holding(found), timeline(found, ui)],
  };
}

function holding(found) {
  const rows = found.holding.map(each => {
    const txn = found.transactions.find(one => one.transactional_id === each.transactional_id);
    return h("tr", { "data-key": `${each.topic}-${each.partition}/${each.producer_id}` },
      h("th", { scope: "row" }, h("a", { href: link(each.topic, each.partition, `?offset=${each.first_offset}`) }, h("bdi", null, `${each.topic}-${each.partition}`))),
      h("td.r.num", null, each.last_stable),
      h("td.r.num", null, each.high_watermark),
      h("td.r.num", null, count(each.high_watermark - each.last_stable)),
      h("td", null, each.producer_id < 0 ? "a transaction marker that is not replicated to the whole ISR yet"
        : [h("span.num", null, each.producer_id), h("span.muted", null, ` epoch ${each.producer_epoch}`), each.transactional_id === null ? h("span.muted", null, " of a coordinator elsewhere") : h("bdi", null, ` ${each.transactional_id}`)]),
      h("td", null, each.last_write_at < 0 ? null : [span(Math.max(0, found.now_ms - each.last_write_at)), " ago"]),
      h("td", null, txn ? left(txn, found.now_ms) : h("span.muted", null, "—")));
  });
  return section("Transactions that hold read_committed consumers back",
    rows.length ? table("Partitions whose last stable offset is below their high watermark",
      ["Partition", ["Last stable", "r"], ["High watermark", "r"], ["Records waiting", "r"], "Held by producer", "Last write", "Ends by itself"], rows)
      : h("p.good", null, "None: every last stable offset is at its high watermark."));
}

function left(txn, now) {
  if (txn.state !== "Ongoing") return h("span.muted", null, "its outcome is decided");
  const ms = txn.started_at + txn.timeout_ms - now;
  return ms > 0 ? `aborted in ${span(ms)}` : chip("warn", "timed out");
}

function timeline(found, ui) {
  const oldest = Math.min(found.now_ms, ...found.transactions.slice(0, 20).map(txn => (txn.moves.at(-13) ?? txn.moves[0]).at_ms));
  const reach = state.window || (WINDOWS.find(([ms]) => found.now_ms - ms <= oldest) ?? WINDOWS.at(-1))[0];
  const from = found.now_ms - reach;
  const pick = h("select", { "aria-label": "How far back", onchange: event => { state.window = Number(event.target.value); ui.redraw(); } },
    [[0, "as far as fits"], ...WINDOWS].map(([ms, name]) => h("option", { value: ms, selected: ms === state.window }, name)));
  return section("Transactions",
    h("div.bar", null, h("label.inline", null, "How far back ", pick),
      h("span.legend", null, [["open", "open"], ["warn", "decided, markers on their way"], ["good", "committed"], ["bad", "aborted"]].map(([kind, text]) => h(`span.key.${kind}`, null, text)))),
    found.transactions.length ? table("Transactional ids, latest change first",
      ["Transactional id", "State", [`${WINDOWS.find(([ms]) => ms === reach)[1]} ago … now`, "track"], "Since", "Producer", "Partitions"], found.transactions.map(txn => rowOf(txn, from, found.now_ms)), { class: "scroll mid" })
      : empty("This broker coordinates no transactional ids yet."),
    found.left_out ? h("p.muted", null, `and ${count(found.left_out)} that changed earlier`) : null);
}

function rowOf(txn, from, now) {
  return h("tr", { "data-key": txn.transactional_id },
    h("th", { scope: "row" }, h("bdi", null, txn.transactional_id)),
    h("td", null, chip(KINDS[txn.state] ?? "plain", WORDS[txn.state] ?? txn.state)),
    h("td.track", null, track(txn, from, now)),
    h("td", null, time(txn.updated_at), txn.state === "Ongoing" ? h("div.muted", null, left(txn, now)) : null),
    h("td", null, h("span.num", null, txn.producer_id), h("span.muted", null, ` epoch ${txn.producer_epoch}`)),
    h("td.wrap", null, txn.partition_count ? [h("bdi", null, txn.partitions.join(" ")), txn.partition_count > txn.partitions.length ? ` and ${txn.partition_count - txn.partitions.length} more` : null] : h("span.muted", null, "—")));
}

/** A time line: a bar while a transaction is open or ending, a mark at its end. */
function track(txn, from, now) {
  const share = ms => Math.min(100, Math.max(0, ((ms - from) / (now - from)) * 100));
  const shapes = [h("line.rest", { x1: "0%", x2: "100%", y1: 10, y2: 10 })];
  let ends = 0;
  txn.moves.forEach((move, at) => {
    const until = txn.moves[at + 1]?.at_ms ?? now;
    const kind = KINDS[move.state];
    if (kind === undefined || until < from) return;
    const says = h("title", null, `${WORDS[move.state]} at ${new Date(move.at_ms).toLocaleTimeString()}${move.state.startsWith("Complete") ? "" : `, for ${span(until - move.at_ms)}`}`);
    if (move.state.startsWith("Complete")) {
      ends += 1;
      if (move.at_ms >= from) shapes.push(h(`rect.end.${kind}`, { x: `${share(move.at_ms)}%`, y: 2, width: 4, height: 16, rx: 2 }, says));
    } else if (kind === "open" || until - move.at_ms > (now - from) / 300) {
      shapes.push(h(`rect.${kind}`, { x: `${share(move.at_ms)}%`, y: 5, width: `${Math.max(0.3, share(until) - share(move.at_ms))}%`, height: 10, rx: 2 }, says));
    }
  });
  return h("svg", { role: "img", "aria-label": `${txn.moves.length} changes of state, ${plural(ends, "transaction")} ended`, height: 20, width: "100%" }, shapes);
}
