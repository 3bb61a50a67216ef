import { setTimeout as pause } from 'node:timers/promises';

import { toText } from '../bytes.js';
import { Unsupported, refuse } from '../failures.js';
import { CODES, KafkaConsumer, ask, configuration } from './library.js';

const UNSUPPORTED_OPTIONS = { max_poll_records: 'librdkafka has no limit of records: a call says how many it wants' };
const CLASSIC_ASSIGNORS = ['range', 'roundrobin', 'cooperative-sticky'];
const CALL_TIMEOUT_MS = 30_000;
/** What one call waits for records, so that a poll's own time is kept. */
const SLICE_MS = 100;
/** How long to wait before a seek that came before the fetcher took up the partition is tried again. */
const STATE_PAUSE_MS = 20;
/** librdkafka's numbers for the ends of a partition, and for: where the group is. */
const PLACES = { beginning: -2, end: -1 };
const GROUPS_OWN = -1000;
const RESETS = { earliest: 'earliest', latest: 'latest', none: 'error' };
const STARTS = { earliest: PLACES.beginning, latest: PLACES.end };
/** librdkafka's default of `message.max.bytes`, which `fetch.max.bytes` has to reach. */
const MESSAGE_MAX_BYTES = 1_000_000;

export class ConfluentConsumer {
  static missing = {};
  #start;
  /** Next offset by "topic partition", of what polls have answered. */
  #polled = new Map();

  constructor(consumer, start) {
    this.consumer = consumer;
    this.#start = start;
  }

  static async open(request) {
    refuse(request, UNSUPPORTED_OPTIONS);
    const { group, reset = 'latest', assignor, group_protocol: protocol } = request;
    if (protocol !== 'consumer' && assignor !== undefined && !CLASSIC_ASSIGNORS.includes(assignor)) {
      throw new Unsupported(`librdkafka has the assignors ${CLASSIC_ASSIGNORS.join(', ')}, not ${assignor}`);
    }
    // A topic's setting, which does not count among the others.
    const topicSettings = configuration([['auto.offset.reset', RESETS[request.reset]]]);
    const consumer = new KafkaConsumer(settingsOf(request), topicSettings);
    consumer.on('event.error', (error) => console.error('consumer:', error.message));
    await ask((done) => consumer.connect({}, done));
    consumer.setDefaultConsumeTimeout(SLICE_MS);
    // Without a group nothing was committed, and librdkafka would ask the group all the same.
    return new ConfluentConsumer(consumer, group === undefined ? (STARTS[reset] ?? GROUPS_OWN) : GROUPS_OWN);
  }

  async subscribe({ topics, pattern }) {
    this.consumer.subscribe(pattern === undefined ? topics : [new RegExp(`^${pattern.replace(/^\^/, '')}`)]);
  }

  async assign({ partitions }) {
    this.consumer.assign(partitions.map(([topic, partition]) => ({ topic, partition, offset: this.#start })));
  }

  async poll({ count, timeout_ms: timeoutMs }) {
    const ends = performance.now() + timeoutMs;
    const records = [];
    while (records.length < count && performance.now() < ends) {
      const messages = await ask((done) => this.consumer.consume(count - records.length, done));
      for (const message of messages) {
        this.#polled.set(`${message.topic} ${message.partition}`, message);
        records.push(toRecord(message));
      }
    }
    return { records };
  }

  async assignment() {
    return { partitions: this.consumer.assignments().map(({ topic, partition }) => [topic, partition]) };
  }

  async commit({ offsets, mode }) {
    const polled = [...this.#polled.values()].map(({ topic, partition, offset }) => [topic, partition, offset + 1]);
    const rows = (offsets ?? polled).map(([topic, partition, offset, metadata]) => ({
      topic,
      partition,
      offset,
      metadata,
    }));
    if (mode === 'async') this.consumer.commit(rows);
    else this.consumer.commitSync(rows);
  }

  async committed({ partitions, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    const rows = await ask((done) => this.consumer.committed(toRows(partitions), timeoutMs, done));
    return {
      offsets: rows.map(({ topic, partition, offset, metadata }) => [
        topic,
        partition,
        offset >= 0 ? offset : null,
        metadata ?? '',
      ]),
    };
  }

  async position({ partitions }) {
    const rows = this.consumer.position(toRows(partitions));
    return { offsets: rows.map(({ topic, partition, offset }) => [topic, partition, offset >= 0 ? offset : null]) };
  }

  async seek({ topic, partition, offset, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    const ends = performance.now() + timeoutMs;
    const target = { topic, partition, offset: PLACES[offset] ?? offset };
    for (;;) {
      try {
        return void (await ask((done) => this.consumer.seek(target, timeoutMs, done)));
      } catch (error) {
        if (error.code !== CODES.ERRORS.ERR__STATE || performance.now() >= ends) throw error;
        await pause(STATE_PAUSE_MS);
      }
    }
  }

  /** The timestamp that was found librdkafka keeps to itself. */
  async offsetsForTimes({ times, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    const asked = times.map(([topic, partition, offset]) => ({ topic, partition, offset }));
    const rows = await ask((done) => this.consumer.offsetsForTimes(asked, timeoutMs, done));
    return {
      offsets: rows.map(({ topic, partition, offset }) => [topic, partition, offset >= 0 ? offset : null, null]),
    };
  }

  async endOffsets({ partitions, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    return this.#edges(partitions, timeoutMs, 'highOffset');
  }

  async beginningOffsets({ partitions, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    return this.#edges(partitions, timeoutMs, 'lowOffset');
  }

  async #edges(partitions, timeoutMs, edge) {
    const rows = partitions.map(async ([topic, partition]) => {
      const found = await ask((done) => this.consumer.queryWatermarkOffsets(topic, partition, timeoutMs, done));
      return [topic, partition, found[edge]];
    });
    return { offsets: await Promise.all(rows) };
  }

  async pause({ partitions }) {
    this.consumer.pause(toRows(partitions));
  }

  async resume({ partitions }) {
    this.consumer.resume(toRows(partitions));
  }

  async close() {
    await ask((done) => this.consumer.disconnect(done));
  }
}

function toRows(partitions) {
  return partitions.map(([topic, partition]) => ({ topic, partition }));
}

function toRecord({ topic, partition, offset, key, value, headers = [], timestamp }) {
  return {
    topic,
    partition,
    offset,
    key: toText(key),
    value: toText(value),
    headers: headers.flatMap((header) => Object.entries(header)).map(([name, one]) => [name, toText(one)]),
    timestamp,
    // The addon does not pass it on.
    timestamp_type: null,
  };
}

function settingsOf(request) {
  const remote = request.group_protocol === 'consumer';
  const { group, fetch_max_bytes: fetchMaxBytes } = request;
  return configuration([
    ['bootstrap.servers', request.bootstrap],
    // Its constructor demands a group; without one nothing is committed.
    ['group.id', group ?? `nobody-${request.handle}`],
    ['enable.auto.commit', group === undefined ? false : request.auto_commit],
    ['client.id', request.client_id],
    ['group.instance.id', request.instance_id],
    ['group.protocol', request.group_protocol],
    [remote ? 'group.remote.assignor' : 'partition.assignment.strategy', request.assignor],
    ['isolation.level', request.isolation],
    ['auto.commit.interval.ms', request.auto_commit_interval_ms],
    ['session.timeout.ms', request.session_timeout_ms],
    ['heartbeat.interval.ms', request.heartbeat_interval_ms],
    ['fetch.min.bytes', request.fetch_min_bytes],
    ['fetch.wait.max.ms', request.fetch_max_wait_ms],
    ['fetch.max.bytes', fetchMaxBytes],
    ['message.max.bytes', fetchMaxBytes === undefined ? undefined : Math.min(fetchMaxBytes, MESSAGE_MAX_BYTES)],
    ['max.partition.fetch.bytes', request.partition_fetch_bytes],
  ]);
}
