import { ProduceAcks, Producer, compatibilityPartitioner } from '@platformatic/kafka';

import { toBuffer } from '../bytes.js';
import { inCalls } from '../calls.js';
import { refuse } from '../failures.js';
import { connectionOptions, defined } from './connection.js';
import { describeError } from './errors.js';

const UNSUPPORTED_OPTIONS = {
  transaction_timeout_ms: '@platformatic/kafka has no transaction timeout: it sends the one of its requests',
  linger_ms: "@platformatic/kafka sends at once: its producer has no linger, and its stream's results name no offsets",
  batch_bytes: '@platformatic/kafka has no batch size: a call to send is a batch for each partition',
  buffer_bytes: '@platformatic/kafka has no buffer of records to limit',
  delivery_timeout_ms: '@platformatic/kafka has no delivery timeout, only retries',
  max_request_bytes: '@platformatic/kafka has no limit of a request',
};
const ACKS = { 0: ProduceAcks.NO_RESPONSE, 1: ProduceAcks.LEADER, all: ProduceAcks.ALL };
const PARTITIONERS = { default: undefined, murmur2: compatibilityPartitioner, last: lastPartition };

/** What is answered is taken modulo the count of partitions; a topic that is not known yet is one that was never sent to. */
function lastPartition({ topic }, key, { metadata }) {
  return (metadata?.topics.get(topic)?.partitionsCount ?? 0) - 1;
}

/** The value's JSON text as compact JSON whose members are sorted by name. */
function serializeSortedJson(value) {
  const sorted = (_, member) =>
    member !== null && typeof member === 'object' && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([one], [other]) => (one < other ? -1 : 1)))
      : member;
  return value === null ? undefined : Buffer.from(JSON.stringify(JSON.parse(value), sorted));
}

/** A hook before the serializers; it is called for each key, value and header, and adds the header once. It has to be waited for. */
async function intercept(payload, type, message) {
  if (type !== 'value') return;
  message.headers ??= new Map();
  message.headers.set(Buffer.from('intercepted'), Buffer.from('1'));
}

export class PlatformaticProducer {
  static missing = {};
  #producer;
  /** The open transaction, through which everything is then sent; null outside of one. */
  #transaction = null;

  constructor(producer) {
    this.#producer = producer;
  }

  static async open(request) {
    refuse(request, UNSUPPORTED_OPTIONS);
    const { acks, idempotent, transactional_id: transactionalId, compression, partitioner = 'default' } = request;
    const producer = new Producer({
      ...connectionOptions(request),
      ...defined({
        acks: ACKS[acks],
        // Its transactions ask for it, and it is off unless it is said.
        idempotent: transactionalId === undefined ? idempotent : true,
        transactionalId,
        compression,
        partitioner: PARTITIONERS[partitioner],
        maxInflights: request.max_in_flight,
        serializers: request.serializer === 'json' ? { value: serializeSortedJson } : undefined,
        beforeSerialization: request.interceptor ? intercept : undefined,
      }),
      // Off unless it is said; the other clients leave it to the broker.
      autocreateTopics: true,
    });
    const opened = new PlatformaticProducer(producer);
    if (transactionalId !== undefined) await opened.#initTransactions();
    return opened;
  }

  /** It has no call for that alone: the first transaction of a producer gets the producer id, and a cancelled one tells nobody. */
  async #initTransactions() {
    const transaction = await this.#producer.beginTransaction();
    await transaction.cancel();
  }

  /**
   * It answers with each partition's first offset, and does not tell which partition it chose for a record. So asynchronous sends share a call where
   * the partitions are known, and are calls of one record each, all at a time, where they are not.
   */
  async send({ topic, records, mode }) {
    const messages = records.map((record) => toMessage(topic, record));
    if (mode === 'sync') return { results: await inTurn(messages, (message) => this.#sendOne(message)) };
    if ((await this.#partitionsOf(topic)) === 1) for (const message of messages) message.partition ??= 0;
    if (messages.every(({ partition }) => partition !== undefined)) {
      const calls = await inTurn(inCalls(messages), (call) => this.#sendTogether(call));
      return { results: calls.flat() };
    }
    return { results: await Promise.all(messages.map((message) => this.#sendOne(message))) };
  }

  /** How many, or undefined where the topic cannot be asked about: that is then the sends' error. */
  async #partitionsOf(topic) {
    try {
      const { topics } = await this.#producer.metadata({ topics: [topic], autocreateTopics: true });
      return topics.get(topic).partitionsCount;
    } catch (error) {
      console.error(`metadata of ${topic}:`, error);
      return undefined;
    }
  }

  async #sendOne(message) {
    try {
      const sent = await this.#call([message]);
      if (sent === undefined) return { partition: message.partition ?? null, offset: -1 };
      return { partition: sent[0].partition, offset: Number(sent[0].offset) };
    } catch (error) {
      return { error: describeError(error) };
    }
  }

  async #sendTogether(messages) {
    try {
      const sent = await this.#call(messages);
      const next = new Map(sent?.map(({ partition, offset }) => [partition, Number(offset)]));
      return messages.map(({ partition }) => {
        const offset = next.get(partition) ?? -1;
        if (offset >= 0) next.set(partition, offset + 1);
        return { partition, offset };
      });
    } catch (error) {
      const failed = { error: describeError(error) };
      return messages.map(() => failed);
    }
  }

  /** Each partition's first offset; undefined with acks 0. */
  async #call(messages) {
    const sender = this.#transaction ?? this.#producer;
    const { offsets } = await sender.send({ messages });
    return offsets;
  }

  async begin() {
    this.#transaction = await this.#producer.beginTransaction();
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

  /** An offset is that of a message of the consumer's: the last one before the offset that is to be committed. */
  async sendOffsets({ consumer, offsets }, objectOf) {
    const member = objectOf(consumer);
    await this.#transaction.addConsumer(member.consumer);
    for (const [topic, partition, offset] of offsets) {
      await this.#transaction.addOffset({
        topic,
        partition,
        offset: BigInt(offset) - 1n,
        metadata: { consumer: member.membership },
      });
    }
  }

  async close() {
    await this.#producer.close(true);
  }
}

async function inTurn(items, call) {
  const results = [];
  for (const item of items) results.push(await call(item));
  return results;
}

function toMessage(topic, { key, value, headers, partition, timestamp }) {
  const message = { topic, key: toBuffer(key) ?? undefined, value: toBuffer(value) ?? undefined };
  if (partition !== undefined) message.partition = partition;
  if (timestamp !== undefined) message.timestamp = BigInt(timestamp);
  // Two buffers are two keys of a Map, so that a name may occur twice.
  if (headers !== undefined)
    message.headers = new Map(headers.map(([name, one]) => [Buffer.from(name), toBuffer(one)]));
  return message;
}
