import kafkajs from 'kafkajs';

/** kafkajs logs to standard output, which here speaks the control protocol. */
function logToStandardError() {
  return ({ namespace, label, log }) => console.error(`[${label}] ${namespace}: ${log.message}`, log.error ?? '');
}

/** A `Kafka` for one request's `bootstrap`, `client_id` and `request_timeout_ms`. */
export function connectionFor({ bootstrap, client_id: clientId, request_timeout_ms: requestTimeout }) {
  return new kafkajs.Kafka({
    brokers: bootstrap.split(','),
    clientId,
    requestTimeout,
    logLevel: kafkajs.logLevel.WARN,
    logCreator: logToStandardError,
  });
}
