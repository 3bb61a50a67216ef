import kafkajs from 'kafkajs';

import { toBuffer } from '../bytes.js';
import { inCalls } from '../calls.js';
import { Unsupported, refuse } from '../failures.js';
import { byTopic } from '../partitions.js';
import { connectionFor } from './connection.js';
import { describeError } from './errors.js';

const UNSUPPORTED_OPTIONS = {
  linger_ms: 'kafkajs sends at once: its producer has no linger',
  batch_bytes: 'kafkajs has no batch size: a call to send is a batch',
  buffer_bytes: 'kafkajs has no buffer of records to limit',
  delivery_timeout_ms: 'kafkajs has no delivery timeout, only retries',
  max_request_bytes: 'kafkajs has no limit of a request',
  serializer: 'kafkajs has no serializers: keys and values are buffers or strings',
  interceptor: 'kafkajs has no producer interceptors',
};
const ACKS = { 0: 0, 1: 1, all: -1 };
const TYPES = kafkajs.CompressionTypes;
const COMPRESSION = { none: TYPES.None, gzip: TYPES.GZIP, snappy: TYPES.Snappy, lz4: TYPES.LZ4, zstd: TYPES.ZSTD };
const PARTITIONERS = {
  default: kafkajs.Partitioners.DefaultPartitioner,
  murmur2: kafkajs.Partitioners.DefaultPartitioner,
  last: lastPartition,
};

function lastPartition() {
  return ({ partitionMetadata }) => Math.max(...partitionMetadata.map(({ partitionId }) => partitionId));
}

/** `createPartitioner`, but the partition that it chooses for a message is noted: kafkajs does not tell it by message. */
function noting(createPartitioner, chosen) {
  return () => {
    const choose = createPartitioner();
    return (choice) => {
      const partition = choose(choice);
      chosen.set(choice.message, partition);
      return partition;
    };
  };
}

export class KafkaJSProducer {
  static missing = {};
  #producer;
  #sending;
  #chosen;
  /** The open transaction, through which everything is then sent; null outside of one. */
  #transaction = null;

  constructor(producer, sending, chosen) {
    this.#producer = producer;
    this.#sending = sending;
    this.#chosen = chosen;
  }

  static async open(request) {
    refuse(request, UNSUPPORTED_OPTIONS);
    const { acks, compression, partitioner = 'default' } = request;
    const chosen = new WeakMap();
    const producer = connectionFor(request).producer({
      createPartitioner: noting(PARTITIONERS[partitioner], chosen),
      idempotent: request.idempotent,
      transactionalId: request.transactional_id,
      transactionTimeout: request.transaction_timeout_ms,
      maxInFlightRequests: request.max_in_flight,
    });
    await producer.connect();
    // It asks for its producer id with its first transaction; the abort of an empty one tells the broker nothing.
    if (request.transactional_id !== undefined) await (await producer.transaction()).abort();
    return new KafkaJSProducer(producer, { acks: ACKS[acks], compression: COMPRESSION[compression] }, chosen);
  }

  /**
   * Asynchronous sends are calls of `send` with many records: one request for each broker, one batch for each partition. The order of records is
   * kept inside a call only, so the calls follow one another. What fails, fails for all records of its call.
   */
  async send({ topic, records, mode }) {
    if (records.some(({ headers = [] }) => headers.some(([, value]) => value === null))) {
      throw new Unsupported('kafkajs cannot write a header whose value is null: it measures the value');
    }
    const messages = records.map(toMessage);
    const results = [];
    for (const call of mode === 'async' ? inCalls(messages) : messages.map((message) => [message])) {
      results.push(...(await this.#sendTogether(topic, call)));
    }
    return { results };
  }

  async #sendTogether(topic, messages) {
    try {
      const sender = this.#transaction ?? this.#producer;
      const batches = await sender.send({ topic, messages, ...this.#sending });
      return this.#positions(messages, batches);
    } catch (error) {
      return messages.map(() => ({ error: describeError(error) }));
    }
  }

  /** kafkajs answers with each partition's first offset; a batch keeps the order that its records had in the call. */
  #positions(messages, batches) {
    const next = new Map(batches.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]));
    const appendTimes = new Map(
      batches.map(({ partition, logAppendTime }) => [partition, Number(logAppendTime ?? -1)]),
    );
    return messages.map((message) => {
      const partition = this.#chosen.get(message);
      // With acks 0 there is no answer.
      if (!next.has(partition)) return { partition, offset: -1 };
      const offset = next.get(partition);
      next.set(partition, offset + 1);
      const timestamp = appendTimes.get(partition);
      return { partition, offset, ...(timestamp >= 0 && { timestamp }) };
    });
  }

  async begin() {
    this.#transaction = await this.#producer.transaction();
  }

  async commit() {
    await this.#end('commit');
  }

  async abort() {
    await this.#end('abort');
  }

  async #end(how) {
    if (this.#transaction === null) throw new Error('no transaction was begun');
    await this.#transaction[how]();
    this.#transaction = null;
  }

  async sendOffsets({ consumer, offsets }, objectOf) {
    const topics = [...byTopic(offsets)].map(([topic, rows]) => ({
      topic,
      partitions: rows.map(([partition, offset]) => ({ partition, offset: String(offset) })),
    }));
    await this.#transaction.sendOffsets({ consumerGroupId: objectOf(consumer).groupId, topics });
  }

  async close() {
    await this.#producer.disconnect();
  }
}

function toMessage({ key, value, headers, partition, timestamp }) {
  const message = { key: toBuffer(key), value: toBuffer(value) };
  if (partition !== undefined) message.partition = partition;
  if (timestamp !== undefined) message.timestamp = String(timestamp);
  if (headers !== undefined) message.headers = toHeaders(headers);
  return message;
}

/** kafkajs keeps headers by name, in the order of the names' first appearance; a name that occurs more than once has a list. */
function toHeaders(rows) {
  const headers = {};
  for (const [name, values] of byTopic(rows))
    headers[name] = values.length === 1 ? toBuffer(values[0][0]) : values.map(([value]) => toBuffer(value));
  return headers;
}
