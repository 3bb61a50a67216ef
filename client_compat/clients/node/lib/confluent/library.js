import { MissingClient } from '../failures.js';

// Not among package.json's dependencies: npm ci would compile librdkafka for minutes wherever the package's own host is out of reach.
const HINT =
  'no @confluentinc/kafka-javascript here (npm install --no-save @confluentinc/kafka-javascript@1.10.1 fetches its native part)';

/** The package, which is there where somebody installed it and its native part loads. */
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
