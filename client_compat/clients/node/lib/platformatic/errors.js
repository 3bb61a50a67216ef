import { KAFKA_ERRORS } from '../kafka-errors.js';

/** The code that it gives to what the broker says of single records; the partition's own code comes after. */
const RECORD_ERROR = -1;

/** The control protocol's form of what @platformatic/kafka throws: the broker's first word in it, if there is one, else what it wraps. */
export function describeError(error) {
  const root =
    find(error, ({ apiCode }) => apiCode !== undefined && apiCode !== RECORD_ERROR) ??
    find(error, ({ cause, errors }) => !cause && !errors) ??
    error;
  return {
    code:
      root.apiCode === undefined ? `CLIENT:${root.code ?? root.name}` : (KAFKA_ERRORS.get(root.apiCode) ?? root.apiId),
    message: root.serverErrorMessage ?? root.message,
    retriable: root.canRetry ?? null,
    fatal: null,
    abortable: null,
  };
}

/** The first error that fits, of an error, what caused it and what it bundles. */
function find(error, fits) {
  if (!(error instanceof Error)) return undefined;
  if (fits(error)) return error;
  for (const inner of [...(error.errors ?? []), error.cause]) {
    const found = find(inner, fits);
    if (found !== undefined) return found;
  }
  return undefined;
}
