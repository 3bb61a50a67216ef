/**
 * Starts Kafka by the Node.js module of testcontainers, as a test does, and produces and consumes through it: `main.js kraft|zookeeper IMAGE`.
 * It prints the seconds from the call to a broker that answers: this module calls it ready when its script was copied, before it has run
 * (its second wait finds the line of its first).
 */
import assert from 'node:assert/strict';

import { KafkaContainer } from '@testcontainers/kafka';
import { Kafka, logLevel } from 'kafkajs';

const MESSAGE = 'through the module';
const SOON = { initialRetryTime: 20, factor: 0, multiplier: 1, retries: 1000 };
const STARTS = {
  kraft: (image) => new KafkaContainer(image).withKraft().start(),
  zookeeper: (image) => new KafkaContainer(image).start(), // the default for a tag below 8.0.0
};

const [mode, image] = process.argv.slice(2);
let seconds;
const began = performance.now();
const container = await STARTS[mode](image);
try {
  const broker = `${container.getHost()}:${container.getMappedPort(9093)}`;
  const kafka = new Kafka({ brokers: [broker], logLevel: logLevel.NOTHING });
  const producer = kafka.producer({ retry: SOON });
  await producer.connect();
  seconds = (performance.now() - began) / 1000;
  await producer.send({ topic: 'msgs', messages: [{ value: MESSAGE }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: 'g' });
  await consumer.connect();
  await consumer.subscribe({ topic: 'msgs', fromBeginning: true });
  const value = await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) });
  });
  await consumer.disconnect();
  assert.equal(value, MESSAGE);
} finally {
  await container.stop();
}
console.log(seconds);
