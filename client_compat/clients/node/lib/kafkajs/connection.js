import kafkajs from 'kafkajs';

/** kafkajs logs to standard output, which here speaks the control protocol. */
function logToStandardError() {
  return ({ namespace, label, log }) => console.error(`[${label}] ${namespace}: ${log.message}`, log.error ?? '');
}

/** A `Kafka` for one request's `bootstrap`, `client_id`, `request_timeout_ms` and `retries`, which count for its connections too. */
export function connectionFor({ bootstrap, client_id: clientId, request_timeout_ms: requestTimeout, retries }) {
  return new kafkajs.Kafka({
    brokers: bootstrap.split(','),
    clientId,
    requestTimeout,
    retry: retries === undefined ? undefined : { retries },
    logLevel: kafkajs.logLevel.WARN,
    logCreator: logToStandardError,
  });
}
