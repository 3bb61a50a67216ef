/** `[topic, index, …]` rows of the control protocol, and the shapes by topic that Node.js clients prefer. */

/** Rows by topic: a Map of topic to the rows' rests, in the order of the rows. */
export function byTopic(rows) {
  const topics = new Map();
  for (const [topic, ...rest] of rows) {
    if (!topics.has(topic)) topics.set(topic, []);
    topics.get(topic).push(rest);
  }
  return topics;
}

/** `{topic: [index, …]}` as `[topic, index]` rows. */
export function fromAssignment(assignment) {
  return Object.entries(assignment).flatMap(([topic, indexes]) => indexes.map((index) => [topic, index]));
}
