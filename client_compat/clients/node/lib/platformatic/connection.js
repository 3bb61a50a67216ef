/** What every client of @platformatic/kafka is given: the request's `bootstrap`, `client_id`, `request_timeout_ms` and `retries`, where it has them. */
export function connectionOptions({
  bootstrap,
  client_id: clientId = 'ottla-compat',
  request_timeout_ms: requestTimeout,
  retries,
}) {
  return defined({ bootstrapBrokers: bootstrap.split(','), clientId, requestTimeout, retries });
}

/** The object without its undefined members: the client's validation takes them for wrong values. */
export function defined(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
