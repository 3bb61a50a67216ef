/** What a call of `send` may weigh, for clients that make one batch of a call and do not split it at the broker's limit. */
const CALL_BYTES_MAX = 800_000;

/** Messages with `key` and `value` buffers, in their order, as lists for one call of `send` each. */
export function inCalls(messages) {
  const calls = [];
  let bytes = Infinity;
  for (const message of messages) {
    const size = (message.key?.length ?? 0) + (message.value?.length ?? 0);
    if (bytes + size > CALL_BYTES_MAX) {
      calls.push([]);
      bytes = 0;
    }
    calls.at(-1).push(message);
    bytes += size;
  }
  return calls;
}
