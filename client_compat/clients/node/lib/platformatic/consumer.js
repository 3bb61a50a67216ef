import { randomUUID } from 'node:crypto';

import {
  Consumer,
  FetchIsolationLevels,
  ListOffsetTimestamps,
  MessagesStreamFallbackModes,
  MessagesStreamModes,
} from '@platformatic/kafka';

import { toText } from '../bytes.js';
import { Unsupported, refuse } from '../failures.js';
import { byTopic } from '../partitions.js';
import { connectionOptions, defined } from './connection.js';

const NO_PARTITION_PAUSE = "@platformatic/kafka's stream is paused as a whole, not by partition";
const UNSUPPORTED_OPTIONS = { max_poll_records: '@platformatic/kafka has no limit of records: its consumer is a stream' };
const FALLBACKS = {
  earliest: MessagesStreamFallbackModes.EARLIEST,
  latest: MessagesStreamFallbackModes.LATEST,
  none: MessagesStreamFallbackModes.FAIL,
};
const ISOLATIONS = {
  read_uncommitted: FetchIsolationLevels.READ_UNCOMMITTED,
  read_committed: FetchIsolationLevels.READ_COMMITTED,
};
const CLASSIC_ASSIGNORS = ['roundrobin', 'cooperative-sticky'];

/**
 * Without a group, it reads in one of its own: it has no other consumers. Alone in its group it is assigned everything; what its stream brings of the
 * partitions that were not asked for is left out.
 */
export class PlatformaticConsumer {
  static missing = {
    position: '@platformatic/kafka tells what its stream fetches next, which runs ahead of what was read',
    pause: NO_PARTITION_PAUSE,
    resume: NO_PARTITION_PAUSE,
  };
  #request;
  #stream = null;
  #topics = [];
  /** "topic partition" of what `assign` named; null where the group assigns. */
  #wanted = null;
  /** The newest message by "topic partition" of what polls have answered. */
  #polled = new Map();
  /** Resolves what waits for the stream; what it failed with. */
  #wake = () => {};
  #failure = null;

  constructor(consumer, request) {
    this.consumer = consumer;
    this.#request = request;
  }

  static async open(request) {
    refuse(request, UNSUPPORTED_OPTIONS);
    const {
      group = `platformatic-kafka-${randomUUID()}`,
      isolation,
      assignor,
      group_protocol: groupProtocol = 'classic',
    } = request;
    const consumer = new Consumer({
      ...connectionOptions(request),
      groupId: group,
      ...defined({
        ...(groupProtocol === 'consumer' ? consumerGroup(request) : classicGroup(request, assignor)),
        groupInstanceId: request.instance_id,
        autocommit: request.group === undefined ? false : autocommit(request),
        isolationLevel: ISOLATIONS[isolation],
        minBytes: request.fetch_min_bytes,
        maxBytes: request.fetch_max_bytes,
        maxWaitTime: request.fetch_max_wait_ms,
        maxBytesPerPartition: request.partition_fetch_bytes,
      }),
    });
    return new PlatformaticConsumer(consumer, request);
  }

  /** Who this member is, as a transaction wants to know it. */
  get membership() {
    const { groupId, generationId, memberId, coordinatorId } = this.consumer;
    return { groupId, generationId, memberId, coordinatorId };
  }

  async subscribe({ topics, pattern }) {
    if (pattern !== undefined) throw new Unsupported('@platformatic/kafka has no subscription by pattern');
    this.#topics = topics;
    await this.#openStream(MessagesStreamModes.COMMITTED);
  }

  async assign({ partitions }) {
    if (this.#request.group !== undefined)
      throw new Unsupported('@platformatic/kafka has no manual assignment in a group');
    this.#wanted = new Set(partitions.map((partition) => partition.join(' ')));
    const topics = [...byTopic(partitions).keys()];
    if (this.#stream !== null && topics.every((topic) => this.#topics.includes(topic))) return;
    if (this.#stream !== null) await this.#stream.close();
    await this.subscribe({ topics });
  }

  async #openStream(mode, offsets) {
    const fallbackMode = FALLBACKS[this.#request.reset];
    this.#stream = await this.consumer.consume(defined({ topics: this.#topics, mode, fallbackMode, offsets }));
    this.#stream.on('readable', () => this.#wake());
    this.#stream.on('error', (error) => {
      this.#failure = error;
      this.#wake();
    });
  }

  async poll({ count, timeout_ms: timeoutMs }) {
    const deadline = performance.now() + timeoutMs;
    const records = [];
    while (records.length < count) {
      const message = this.#stream.read();
      if (message !== null) {
        if (!this.#isWanted(message.topic, message.partition)) continue;
        this.#polled.set(`${message.topic} ${message.partition}`, message);
        records.push(toRecord(message));
        continue;
      }
      const left = deadline - performance.now();
      if (left <= 0 || this.#failure !== null) break;
      await this.#readable(left);
    }
    if (records.length === 0 && this.#failure !== null) {
      const failure = this.#failure;
      this.#failure = null;
      throw failure;
    }
    return { records };
  }

  #isWanted(topic, partition) {
    return this.#wanted?.has(`${topic} ${partition}`) ?? true;
  }

  #readable(timeoutMs) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async assignment() {
    const assignments = this.consumer.assignments ?? [];
    const assigned = assignments.flatMap(({ topic, partitions }) => partitions.map((partition) => [topic, partition]));
    return { partitions: assigned.filter(([topic, partition]) => this.#isWanted(topic, partition)) };
  }

  /** Of either mode: a commit is a promise. */
  async commit({ offsets }) {
    const polled = [...this.#polled.values()].map(({ topic, partition, offset }) => [topic, partition, offset + 1n]);
    const rows = offsets ?? polled;
    if (rows.some(([, , , metadata]) => metadata))
      throw new Unsupported('@platformatic/kafka commits no metadata with an offset');
    const commits = rows.map(([topic, partition, offset]) => {
      const leaderEpoch = this.#polled.get(`${topic} ${partition}`)?.leaderEpoch ?? -1;
      return { topic, partition, offset: BigInt(offset), leaderEpoch };
    });
    await this.consumer.commit({ offsets: commits });
  }

  async committed({ partitions }) {
    const topics = [...byTopic(partitions)].map(([topic, rows]) => ({ topic, partitions: rows.flat() }));
    const committed = await this.consumer.listCommittedOffsets({ topics });
    return {
      offsets: partitions.map(([topic, partition]) => {
        const offset = committed.get(topic)?.[partition] ?? -1n;
        return [topic, partition, offset < 0n ? null : Number(offset), ''];
      }),
    };
  }

  /** A stream starts where it is told and has no seek: the consumer opens another one, the other partitions where they are. */
  async seek({ topic, partition, offset }) {
    const start = await this.#resolve(topic, partition, offset);
    const positions = new Map(this.#stream.offsetsToFetch);
    for (const message of this.#polled.values())
      positions.set(`${message.topic}:${message.partition}`, message.offset + 1n);
    positions.set(`${topic}:${partition}`, start);
    const offsets = [...positions].map(([key, at]) => {
      const split = key.lastIndexOf(':');
      return { topic: key.slice(0, split), partition: Number(key.slice(split + 1)), offset: at };
    });
    await this.#stream.close();
    await this.#openStream(MessagesStreamModes.MANUAL, offsets);
  }

  async #resolve(topic, partition, offset) {
    if (typeof offset === 'number') return BigInt(offset);
    const timestamp = offset === 'beginning' ? ListOffsetTimestamps.EARLIEST : ListOffsetTimestamps.LATEST;
    const offsets = await this.consumer.listOffsets({
      topics: [topic],
      partitions: { [topic]: [partition] },
      timestamp,
    });
    return offsets.get(topic)[partition];
  }

  async offsetsForTimes({ times }) {
    const rows = [];
    for (const [topic, partition, at] of times) {
      const found = await this.consumer.listOffsetsWithTimestamps({
        topics: [topic],
        partitions: { [topic]: [partition] },
        timestamp: BigInt(at),
      });
      const { offset, timestamp } = found.get(topic).get(partition);
      rows.push([topic, partition, offset < 0n ? null : Number(offset), timestamp < 0n ? null : Number(timestamp)]);
    }
    return { offsets: rows };
  }

  async endOffsets({ partitions }) {
    return this.#edges(partitions, 'end');
  }

  async beginningOffsets({ partitions }) {
    return this.#edges(partitions, 'beginning');
  }

  async #edges(partitions, edge) {
    const rows = partitions.map(async ([topic, partition]) => [
      topic,
      partition,
      Number(await this.#resolve(topic, partition, edge)),
    ]);
    return { offsets: await Promise.all(rows) };
  }

  async close() {
    await this.consumer.close(true);
  }
}

function autocommit({ auto_commit: enabled, auto_commit_interval_ms: intervalMs }) {
  return enabled === false ? false : (intervalMs ?? enabled);
}

function consumerGroup({ assignor, session_timeout_ms: sessionTimeout, heartbeat_interval_ms: heartbeatInterval }) {
  refuse(
    { sessionTimeout, heartbeatInterval },
    Object.fromEntries(
      ['sessionTimeout', 'heartbeatInterval'].map((name) => [name, `${name} is the broker's in KIP-848 groups`]),
    ),
  );
  return { groupProtocol: 'consumer', groupRemoteAssignor: assignor };
}

function classicGroup({ session_timeout_ms: sessionTimeout, heartbeat_interval_ms: heartbeatInterval }, assignor) {
  if (assignor !== undefined && !CLASSIC_ASSIGNORS.includes(assignor)) {
    throw new Unsupported(
      `@platformatic/kafka ships the assignors ${CLASSIC_ASSIGNORS.join(' and ')}, not ${assignor}`,
    );
  }
  const protocols = assignor === undefined ? undefined : [{ name: assignor, version: 1 }];
  return { sessionTimeout, heartbeatInterval, protocols };
}

function toRecord({ topic, partition, offset, key, value, headerEntries, timestamp }) {
  return {
    topic,
    partition,
    offset: Number(offset),
    key: toText(key),
    value: toText(value),
    headers: headerEntries.map(([name, one]) => [name.toString(), toText(one)]),
    timestamp: Number(timestamp),
    // It reads the type and keeps it to itself.
    timestamp_type: null,
  };
}
