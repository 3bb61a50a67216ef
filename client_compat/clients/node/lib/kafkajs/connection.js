import { readFileSync } from 'node:fs';

import kafkajs from 'kafkajs';

/** kafkajs logs to standard output, which here speaks the control protocol. */
function logToStandardError() {
  return ({ namespace, label, log }) => console.error(`[${label}] ${namespace}: ${log.message}`, log.error ?? '');
}

/** A `Kafka` for one request's `bootstrap`, `client_id`, `request_timeout_ms` and `retries`, which count for its connections too. */
export function connectionFor({ bootstrap, client_id: clientId, request_timeout_ms: requestTimeout, retries, security }) {
  return new kafkajs.Kafka({
    ...securityOptions(security),
    brokers: bootstrap.split(','),
    clientId,
    requestTimeout,
    retry: retries === undefined ? undefined : { retries },
    logLevel: kafkajs.logLevel.WARN,
    logCreator: logToStandardError,
  });
}

/** kafkajs's `ssl` and `sasl` for the argument `security`. */
function securityOptions(security) {
  if (security === undefined) return {};
  const { ca, certificate, mechanism, user, password, token } = security;
  const own = certificate === undefined ? {} : { key: readFileSync(certificate), cert: readFileSync(certificate) };
  const ssl = ca === undefined ? undefined : { ca: [readFileSync(ca)], ...own };
  if (mechanism === undefined) return { ssl };
  const login =
    token === undefined ? { username: user, password } : { oauthBearerProvider: async () => ({ value: token }) };
  return { ssl, sasl: { mechanism: mechanism.toLowerCase(), ...login } };
}
