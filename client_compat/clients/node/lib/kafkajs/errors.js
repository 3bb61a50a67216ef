import { KAFKA_ERRORS } from '../kafka-errors.js';

/** The control protocol's form of what kafkajs throws: the cause, where kafkajs wraps it because its retries are used up. */
export function describeError(error) {
  const root = rootOf(error);
  return {
    code: codeOf(root),
    message: root.message,
    retriable: root.retriable ?? null,
    fatal: null,
    abortable: null,
  };
}

function rootOf(error) {
  if (error.name === 'KafkaJSAggregateError') return rootOf(error.errors[0]);
  if (error.name === 'KafkaJSDeleteGroupsError') return rootOf(error.groups[0].error);
  if (error.name === 'KafkaJSDeleteTopicRecordsError') return rootOf(error.partitions[0].error);
  return error.type === undefined && error.cause instanceof Error ? rootOf(error.cause) : error;
}

function codeOf(error) {
  if (error.type === undefined) return `CLIENT:${error.name}`;
  // Codes that came after kafkajs 2.2.4 have a common type; the number is only in the text.
  const number = error.type === 'KAFKAJS_UNKNOWN_ERROR_CODE' ? Number(error.message.match(/\d+/)?.[0]) : error.code;
  return KAFKA_ERRORS.get(number) ?? `CLIENT:${error.type}`;
}
