import { KAFKA_ERRORS } from '../kafka-errors.js';
import { CODES } from './library.js';

/** The control protocol's form of a LibrdKafkaError: a broker's error by its number, librdkafka's own by the name that it has there. */
export function describeError(error) {
  return {
    code: KAFKA_ERRORS.get(error.code) ?? `CLIENT:${ownName(error)}`,
    message: error.message,
    retriable: error.isRetriable ?? null,
    fatal: error.isFatal ?? null,
    abortable: error.isTxnRequiresAbort ?? null,
  };
}

function ownName(error) {
  const found = Object.entries(CODES.ERRORS).find(([, code]) => code === error.code);
  return found === undefined ? error.name : found[0].replace(/^ERR_/, '');
}
