/**
 * `{results: {name: null or error}}` of `[name, call]` pairs, one call after the other: for clients that answer a call about several things with
 * one error.
 */
export async function resultByName(describeError, calls) {
  const results = {};
  for (const [name, call] of calls) {
    try {
      await call();
      results[name] = null;
    } catch (error) {
      results[name] = describeError(error);
    }
  }
  return { results };
}
