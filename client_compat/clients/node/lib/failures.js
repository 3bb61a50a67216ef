/** What can go wrong that is not the broker's word: three kinds, each with its own answer in ../CONTROL.md. */

/** The client's public API cannot do it. The message is the sentence that the runner shows. */
export class Unsupported extends Error {}

/** The client's package or its binary is not there. */
export class MissingClient extends Error {}

/** A call to a broker took longer than the request allows. */
export class TimedOut extends Error {
  constructor(milliseconds) {
    super(`no answer within ${milliseconds} ms`);
    this.name = 'TIMEOUT';
  }
}

/** Throws `Unsupported` for the first of the request's arguments that `reasons` (argument: sentence) names. */
export function refuse(request, reasons) {
  for (const [argument, reason] of Object.entries(reasons)) {
    if (request[argument] !== undefined) throw new Unsupported(reason);
  }
}

/** As `promise`, but rejects with `TimedOut` after that many milliseconds. What goes on behind it is not stopped. */
export function withinTime(milliseconds, promise) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new TimedOut(milliseconds)), milliseconds);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}
