/**
 * The control protocol of ../CONTROL.md: one JSON object a line, one answer for each request, in order.
 *
 * A client is `{ version, Producer, Consumer, Admin, describeError }`. An operation such as `consumer.end_offsets` is the method `endOffsets`
 * of the class that its first word names. `open` is static and makes the object behind a handle; an admin is opened by the first request that
 * names its bootstrap. A method that a class lacks is what the client's API lacks: the class's static `missing` has the sentence.
 */
import { createInterface } from 'node:readline';

import { TimedOut, Unsupported, withinTime } from './failures.js';

const CALL_TIMEOUT_MS = 30_000;
/** A poll ends by its own clock and answers with what came; this is what it may take on top before it counts as stuck. */
const POLL_GRACE_MS = 10_000;
const CLOSE_TIMEOUT_MS = 8_000;

/** Resolves once the line is handed to the operating system, so that an exit right after loses nothing. */
export function writeLine(answer) {
  return new Promise((resolve) => process.stdout.write(`${JSON.stringify(answer)}\n`, resolve));
}

/** Answers requests until the input ends, then closes everything that is still open. */
export async function serve(client, input) {
  const open = new Map();
  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
    if (line.trim() === '') continue;
    const request = JSON.parse(line);
    await writeLine({ id: request.id, ...(await answer(client, open, request)) });
  }
  const closing = [...open.values()].map((object) => object.close());
  await Promise.allSettled([withinTime(CLOSE_TIMEOUT_MS, Promise.allSettled(closing))]);
}

async function answer(client, open, request) {
  try {
    const limit = request.timeout_ms ?? CALL_TIMEOUT_MS;
    const grace = request.op === 'consumer.poll' ? POLL_GRACE_MS : 0;
    return { ok: await withinTime(limit + grace, perform(client, open, request)) };
  } catch (error) {
    if (error instanceof Unsupported) return { unsupported: error.message };
    console.error(`${request.op}:`, error);
    return { error: describe(client, error) };
  }
}

function describe(client, error) {
  if (!(error instanceof TimedOut)) return client.describeError(error);
  return { code: 'CLIENT:TIMEOUT', message: error.message, retriable: null, fatal: null, abortable: null };
}

async function perform(client, open, request) {
  const [kind, verb] = request.op.split('.');
  const type = { producer: client.Producer, consumer: client.Consumer, admin: client.Admin }[kind];
  if (type === undefined) throw new Error(`no such operation: ${request.op}`);
  if (request.op === 'admin.connect') {
    if (type.connect === undefined) throw new Unsupported('its program brings no certificates and users');
    return type.connect(request);
  }
  const key = kind === 'admin' ? `admin ${request.bootstrap}` : request.handle;
  if (verb === 'open' || (kind === 'admin' && !open.has(key))) open.set(key, await type.open(request));
  if (verb === 'open') return {};
  const object = open.get(key);
  if (object === undefined) throw new Error(`no such handle: ${key}`);
  const method = verb.replace(/_[a-z]/g, (part) => part[1].toUpperCase());
  if (typeof object[method] !== 'function') throw new Unsupported(type.missing[verb] ?? `no operation ${request.op}`);
  if (verb === 'close') open.delete(key);
  return (await object[method](request, (handle) => open.get(handle))) ?? {};
}
