import kafkajs from 'kafkajs';

import { toBuffer } from '../bytes.js';
import { Unsupported, refuse } from '../failures.js';
import { byTopic } from '../partitions.js';
import { connectionFor } from './connection.js';
import { describeError } from './errors.js';

const LACKS = {
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
  default: undefined,
  murmur2: kafkajs.Partitioners.DefaultPartitioner,
  last: lastPartition,
};

function lastPartition() {
  return ({ partitionMetadata }) => Math.max(...partitionMetadata.map(({ partitionId }) => partitionId));
}

export class KafkaJSProducer {
  static missing = {};
  #producer;
  #sending;
  /** The open transaction, through which everything is then sent; null outside of one. */
  #transaction = null;

  constructor(producer, sending) {
    this.#producer = producer;
    this.#sending = sending;
  }

  static async open(request) {
    refuse(request, LACKS);
    const { acks, compression, partitioner = 'default', retries } = request;
    const producer = connectionFor(request).producer({
      createPartitioner: PARTITIONERS[partitioner],
      idempotent: request.idempotent,
      transactionalId: request.transactional_id,
      transactionTimeout: request.transaction_timeout_ms,
      maxInFlightRequests: request.max_in_flight,
      retry: retries === undefined ? undefined : { retries },
    });
    await producer.connect();
    return new KafkaJSProducer(producer, { acks: ACKS[acks], compression: COMPRESSION[compression] });
  }

  /** One call of `send` for each record, so that each has its own result: kafkajs answers for a call, not for a record. */
  async send({ topic, records, mode }) {
    if (records.some(({ headers = [] }) => headers.some(([, value]) => value === null))) {
      throw new Unsupported('kafkajs cannot write a header whose value is null: it measures the value');
    }
    if (mode === 'async') return { results: await Promise.all(records.map((record) => this.#sendOne(topic, record))) };
    const results = [];
    for (const record of records) results.push(await this.#sendOne(topic, record));
    return { results };
  }

  async #sendOne(topic, record) {
    try {
      const sender = this.#transaction ?? this.#producer;
      const [sent] = await sender.send({ topic, messages: [toMessage(record)], ...this.#sending });
      // With acks 0 there is no answer, and kafkajs does not say which partition it chose.
      if (sent === undefined) return { partition: record.partition ?? null, offset: -1 };
      const logAppendTime = Number(sent.logAppendTime ?? -1);
      return {
        partition: sent.partition,
        offset: Number(sent.baseOffset),
        ...(logAppendTime >= 0 && { timestamp: logAppendTime }),
      };
    } catch (error) {
      return { error: describeError(error) };
    }
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
