import { setTimeout as pause } from 'node:timers/promises';

import { toBuffer } from '../bytes.js';
import { Unsupported, refuse, withinTime } from '../failures.js';
import { describeError } from './errors.js';
import { CODES, Producer, ask, configuration } from './library.js';

const UNSUPPORTED_OPTIONS = {
  interceptor: '@confluentinc/kafka-javascript has no interceptors',
  serializer: '@confluentinc/kafka-javascript has serializers only on the producer that answers without a partition',
};
const CALL_TIMEOUT_MS = 30_000;
/** How often librdkafka's callbacks are served. */
const POLL_MS = 10;

export class ConfluentProducer {
  static missing = {};
  #producer;
  /** By number of the record: who waits for its delivery report. */
  #waiting = new Map();
  #sent = 0;

  constructor(producer) {
    this.#producer = producer;
    producer.on('delivery-report', (error, report) => {
      this.#waiting.get(report.opaque)?.(error ? { error: describeError(error) } : toResult(report));
      this.#waiting.delete(report.opaque);
    });
  }

  static async open(request) {
    refuse(request, UNSUPPORTED_OPTIONS);
    if (request.partitioner === 'last') {
      throw new Unsupported(
        '@confluentinc/kafka-javascript has no custom partitioners: who sends may name the partition',
      );
    }
    const producer = new Producer(settingsOf(request), topicSettingsOf(request));
    producer.on('event.error', (error) => console.error('producer:', error.message));
    await ask((done) => producer.connect({}, done));
    producer.setPollInterval(POLL_MS);
    const opened = new ConfluentProducer(producer);
    const timeout = request.timeout_ms ?? CALL_TIMEOUT_MS;
    if (request.transactional_id !== undefined) await ask((done) => producer.initTransactions(timeout, done));
    return opened;
  }

  async send({ topic, records, mode, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    const ends = performance.now() + timeoutMs;
    const reports = [];
    for (const record of records) {
      const { report } = await this.#queue(topic, record, ends);
      if (mode === 'sync') await report;
      reports.push(report);
    }
    return { results: await Promise.all(reports) };
  }

  /** Hands a record to librdkafka, once there is room for it. `report` is the promise of its result. */
  async #queue(topic, { key, value, headers = [], partition = null, timestamp = null }, ends) {
    const number = (this.#sent += 1);
    const pairs = headers.map(([name, one]) => ({ [name]: toBuffer(one) }));
    const report = this.#reportOf(number, ends);
    for (;;) {
      try {
        this.#producer.produce(topic, partition, toBuffer(value), toBuffer(key), timestamp, number, pairs);
        return { report };
      } catch (error) {
        if (error.code !== CODES.ERRORS.ERR__QUEUE_FULL || performance.now() >= ends) {
          this.#waiting.delete(number);
          return { report: { error: describeError(error) } };
        }
        await pause(POLL_MS);
      }
    }
  }

  async #reportOf(number, ends) {
    const reported = new Promise((resolve) => this.#waiting.set(number, resolve));
    try {
      return await withinTime(ends - performance.now(), reported);
    } catch (error) {
      this.#waiting.delete(number);
      return { error: describeError(error) };
    }
  }

  async begin() {
    await ask((done) => this.#producer.beginTransaction(done));
  }

  async commit({ timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    await ask((done) => this.#producer.commitTransaction(timeoutMs, done));
  }

  async abort({ timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    await ask((done) => this.#producer.abortTransaction(timeoutMs, done));
  }

  async sendOffsets({ consumer, offsets, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }, objectOf) {
    const rows = offsets.map(([topic, partition, offset]) => ({ topic, partition, offset }));
    const member = objectOf(consumer).consumer;
    await ask((done) => this.#producer.sendOffsetsToTransaction(rows, member, timeoutMs, done));
  }

  async close() {
    await ask((done) => this.#producer.disconnect(done));
  }
}

function toResult({ partition, offset, timestamp }) {
  return { partition, offset, ...(timestamp >= 0 && { timestamp }) };
}

function settingsOf(request) {
  const { buffer_bytes: bufferBytes } = request;
  return configuration([
    ['bootstrap.servers', request.bootstrap],
    ['dr_cb', true],
    ['client.id', request.client_id],
    ['enable.idempotence', request.idempotent],
    ['transactional.id', request.transactional_id],
    ['transaction.timeout.ms', request.transaction_timeout_ms],
    ['linger.ms', request.linger_ms],
    ['batch.size', request.batch_bytes],
    ['queue.buffering.max.kbytes', bufferBytes === undefined ? undefined : Math.max(1, Math.floor(bufferBytes / 1024))],
    ['compression.type', request.compression],
    ['max.in.flight.requests.per.connection', request.max_in_flight],
    ['retries', request.retries],
    ['message.max.bytes', request.max_request_bytes],
  ]);
}

/** These do not count among the others: the addon gives librdkafka a configuration of topics always. */
function topicSettingsOf(request) {
  return configuration([
    ['acks', request.acks],
    ['request.timeout.ms', request.request_timeout_ms],
    ['delivery.timeout.ms', request.delivery_timeout_ms],
    ['partitioner', request.partitioner === 'murmur2' ? 'murmur2_random' : undefined],
  ]);
}
