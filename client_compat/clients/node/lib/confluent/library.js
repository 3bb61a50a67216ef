import { MissingClient } from '../failures.js';

const HINT =
  'no @confluentinc/kafka-javascript here (npm ci fetches its native part, or builds it with apt-get install libcurl4-openssl-dev libssl-dev)';

/** The package, whose native part may not be there: npm fetches or builds it, and goes on without it where it can do neither. */
async function load() {
  try {
    return (await import('@confluentinc/kafka-javascript')).default;
  } catch (error) {
    const [reason] = error.message.split('\n');
    throw new MissingClient(`${HINT}: ${reason}`);
  }
}

/** Its own interface, not the one that imitates kafkajs: this one is polled, and has assignments, positions and offsets by time. */
export const {
  Producer,
  KafkaConsumer,
  AdminClient,
  OffsetSpec,
  ConsumerGroupStates,
  ConsumerGroupTypes,
  CODES,
  librdkafkaVersion,
} = await load();

/** The answer of a call that takes a callback last. */
export function ask(call) {
  return new Promise((resolve, reject) => call((error, answer) => (error ? reject(error) : resolve(answer))));
}

/** librdkafka's configuration of `[name, value]` rows, without those that have no value. */
export function configuration(rows) {
  return Object.fromEntries(rows.filter(([, value]) => value !== undefined));
}
