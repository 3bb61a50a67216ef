import { randomUUID } from 'node:crypto';

import { toText } from '../bytes.js';
import { Unsupported, refuse } from '../failures.js';
import { Inbox } from '../inbox.js';
import { byTopic, fromAssignment } from '../partitions.js';
import { KafkaJSAdmin } from './admin.js';
import { connectionFor } from './connection.js';

const UNSUPPORTED_OPTIONS = {
  instance_id: 'kafkajs has no static members',
  max_poll_records: 'kafkajs has no limit of records: its consumer is pushed to',
};
const HEARTBEAT_CHECK_MS = 200;

/**
 * Without a group, it reads in one of its own: kafkajs has no other consumers, and this is how its users read a topic from the side. Alone in its
 * group it is assigned everything; the partitions that were not asked for are paused.
 */
export class KafkaJSConsumer {
  static missing = { position: 'kafkajs does not tell the position of its consumers' };
  #consumer;
  #request;
  #admin;
  #inbox = new Inbox();
  #assignment = {};
  #running = false;
  #topics = new Set();
  /** "topic partition" of what `assign` named; null where the group assigns. */
  #wanted = null;
  /** Next offset by "topic partition", of what polls have answered. */
  #polled = new Map();

  constructor(consumer, request, admin) {
    this.#consumer = consumer;
    this.#request = request;
    this.#admin = admin;
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      this.#assignment = payload.memberAssignment;
      this.#pauseUnwanted();
    });
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      if (!payload.restart) this.#inbox.fail(payload.error);
    });
  }

  static async open(request) {
    refuse(request, UNSUPPORTED_OPTIONS);
    const {
      group = `kafkajs-${randomUUID()}`,
      reset,
      assignor,
      group_protocol: protocol = 'classic',
      isolation,
    } = request;
    if (reset === 'none')
      throw new Unsupported('kafkajs has no reset "none": it always resets to the beginning or the end');
    if (protocol !== 'classic') throw new Unsupported('kafkajs has no KIP-848 groups');
    if (!['roundrobin', undefined].includes(assignor))
      throw new Unsupported(`kafkajs ships a round-robin assignor only, not ${assignor}`);
    const consumer = connectionFor(request).consumer({
      groupId: group,
      readUncommitted: isolation === undefined ? undefined : isolation === 'read_uncommitted',
      sessionTimeout: request.session_timeout_ms,
      heartbeatInterval: request.heartbeat_interval_ms,
      minBytes: request.fetch_min_bytes,
      maxBytes: request.fetch_max_bytes,
      maxWaitTimeInMs: request.fetch_max_wait_ms,
      maxBytesPerPartition: request.partition_fetch_bytes,
    });
    await consumer.connect();
    return new KafkaJSConsumer(
      consumer,
      { ...request, group, grouped: request.group !== undefined },
      await KafkaJSAdmin.open(request),
    );
  }

  get groupId() {
    return this.#request.group;
  }

  async subscribe({ topics, pattern }) {
    await this.#run(pattern === undefined ? topics : [new RegExp(pattern)]);
  }

  async assign({ partitions }) {
    if (this.#request.grouped) throw new Unsupported('kafkajs has no manual assignment in a group');
    this.#wanted = new Set(partitions.map((partition) => partition.join(' ')));
    const topics = [...byTopic(partitions).keys()];
    if (topics.every((topic) => this.#topics.has(topic))) {
      this.#consumer.resume(toTopicPartitions(partitions));
      this.#pauseUnwanted();
      return;
    }
    // A consumer that runs takes no further topics.
    if (this.#running) await this.#consumer.stop();
    await this.#run(topics);
    topics.forEach((topic) => this.#topics.add(topic));
  }

  #pauseUnwanted() {
    if (this.#wanted === null) return;
    const unwanted = fromAssignment(this.#assignment).filter((partition) => !this.#wanted.has(partition.join(' ')));
    if (unwanted.length > 0) this.#consumer.pause(toTopicPartitions(unwanted));
  }

  async #run(topics) {
    const { reset, auto_commit: autoCommit, auto_commit_interval_ms: autoCommitInterval, grouped } = this.#request;
    const fromBeginning = reset === undefined ? undefined : reset === 'earliest';
    await this.#consumer.subscribe({ topics, fromBeginning });
    this.#running = true;
    await this.#consumer.run({
      // In a group of its own too: that is how it knows where it was, once it had to join again.
      autoCommit: grouped ? autoCommit : true,
      autoCommitInterval,
      // A record is resolved when a poll answers it, not when it was fetched.
      eachBatchAutoResolve: false,
      // So that a partition whose records nobody polls for does not hold back the others.
      partitionsConsumedConcurrently: 16,
      eachBatch: (payload) => this.#consume(payload),
    });
  }

  /** Offers a batch's records one by one. What it leaves behind, for a seek, a pause or a stop, kafkajs fetches again. */
  async #consume({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, isRunning, isStale }) {
    const { topic, partition } = batch;
    const isPaused = () =>
      this.#consumer.paused().some((paused) => paused.topic === topic && paused.partitions.includes(partition));
    for (const message of batch.messages) {
      while (!this.#inbox.hasRoom) {
        if (!isRunning() || isStale() || isPaused()) return;
        await this.#inbox.change(HEARTBEAT_CHECK_MS);
        await heartbeat();
      }
      if (!isRunning() || isStale() || isPaused()) return;
      this.#inbox.put(toRecord(topic, partition, message));
      this.#polled.set(`${topic} ${partition}`, [topic, partition, Number(message.offset) + 1]);
      resolveOffset(message.offset);
    }
    await heartbeat();
    await commitOffsetsIfNecessary();
  }

  async poll({ count, timeout_ms: timeoutMs }) {
    return { records: await this.#inbox.poll(count, timeoutMs) };
  }

  async assignment() {
    const assigned = fromAssignment(this.#assignment);
    return { partitions: assigned.filter((partition) => this.#wanted?.has(partition.join(' ')) ?? true) };
  }

  /** Of either mode: a commit is a promise. */
  async commit({ offsets }) {
    const rows = offsets ?? [...this.#polled.values()];
    await this.#consumer.commitOffsets(
      rows.map(([topic, partition, offset, metadata]) => ({ topic, partition, offset: String(offset), metadata })),
    );
  }

  /** Through kafkajs's admin client: its consumers do not tell what is committed. */
  async committed({ partitions }) {
    const known = await this.#admin.committed(this.groupId, [...byTopic(partitions).keys()]);
    return {
      offsets: partitions.map(([topic, partition]) => [
        topic,
        partition,
        ...(known.get(`${topic} ${partition}`) ?? [null, '']),
      ]),
    };
  }

  /** kafkajs would take -1 and -2 for the ends, but fetches there as they are and is then reset to where the subscription says. */
  async seek({ topic, partition, offset }) {
    const edges = { beginning: 'earliest', end: 'latest' };
    let target = offset;
    if (typeof offset === 'string') {
      const { offsets } = await this.#admin.listOffsets({ offsets: [[topic, partition, edges[offset]]] });
      [[, , target]] = offsets;
    }
    this.#consumer.seek({ topic, partition, offset: String(target) });
  }

  async offsetsForTimes({ times }) {
    const { offsets } = await this.#admin.listOffsets({ offsets: times });
    return { offsets: offsets.map((row) => [...row, null]) };
  }

  async endOffsets({ partitions }) {
    return this.#admin.listOffsets({ offsets: partitions.map((partition) => [...partition, 'latest']) });
  }

  async beginningOffsets({ partitions }) {
    return this.#admin.listOffsets({ offsets: partitions.map((partition) => [...partition, 'earliest']) });
  }

  async pause({ partitions }) {
    this.#consumer.pause(toTopicPartitions(partitions));
  }

  async resume({ partitions }) {
    this.#consumer.resume(toTopicPartitions(partitions));
  }

  async close() {
    await Promise.all([this.#consumer.disconnect(), this.#admin.close()]);
  }
}

function toTopicPartitions(rows) {
  return [...byTopic(rows)].map(([topic, partitions]) => ({
    topic,
    partitions: partitions.map(([partition]) => partition),
  }));
}

function toRecord(topic, partition, { offset, key, value, headers, timestamp }) {
  return {
    topic,
    partition,
    offset: Number(offset),
    key: toText(key),
    value: toText(value),
    headers: Object.entries(headers ?? {}).flatMap(([name, values]) =>
      [values].flat().map((one) => [name, toText(one)]),
    ),
    timestamp: Number(timestamp),
    // kafkajs reads the type and keeps it to itself.
    timestamp_type: null,
  };
}
