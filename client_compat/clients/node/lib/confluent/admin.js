import { resultByName } from '../results.js';
import { describeError } from './errors.js';
import { AdminClient, ConsumerGroupStates, ConsumerGroupTypes, KafkaConsumer, OffsetSpec, ask } from './library.js';

const NO_CONFIGS = "@confluentinc/kafka-javascript's admin client has no requests about settings";
const NO_TRANSACTION_ADMIN =
  "@confluentinc/kafka-javascript's admin client has no requests about producers and transactions";
const CALL_TIMEOUT_MS = 30_000;
const SPECIAL_TIMES = { earliest: -2, latest: -1, max_timestamp: -3 };

export class ConfluentAdmin {
  static missing = {
    describe_configs: NO_CONFIGS,
    alter_configs: NO_CONFIGS,
    describe_cluster: "@confluentinc/kafka-javascript's metadata names neither the cluster nor its controller",
    describe_producers: NO_TRANSACTION_ADMIN,
    list_transactions: NO_TRANSACTION_ADMIN,
    describe_transaction: NO_TRANSACTION_ADMIN,
    abort_transaction: NO_TRANSACTION_ADMIN,
    fence_producers: NO_TRANSACTION_ADMIN,
  };
  #admin;
  #bootstrap;

  constructor(admin, bootstrap) {
    this.#admin = admin;
    this.#bootstrap = bootstrap;
  }

  static async open({ bootstrap }) {
    return new ConfluentAdmin(AdminClient.create({ 'bootstrap.servers': bootstrap }), bootstrap);
  }

  async createTopics({ topics, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    const create = ({ name, partitions, replication = 1, configs = {} }) => {
      const topic = { topic: name, num_partitions: partitions, replication_factor: replication, config: configs };
      return ask((done) => this.#admin.createTopic(topic, timeoutMs, done));
    };
    const calls = topics.map((topic) => [topic.name, () => create(topic)]);
    return resultByName(describeError, calls);
  }

  async deleteTopics({ topics, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    const calls = topics.map((name) => [name, () => ask((done) => this.#admin.deleteTopic(name, timeoutMs, done))]);
    return resultByName(describeError, calls);
  }

  async listTopics(request) {
    const topics = await ask((done) => this.#admin.listTopics(options(request), done));
    return { topics: topics.filter((name) => !name.startsWith('__')) };
  }

  async describeTopic(request) {
    const [{ partitions, error }] = await ask((done) =>
      this.#admin.describeTopics([request.topic], options(request), done),
    );
    if (error) throw error;
    const ids = (nodes) => nodes.map(({ id }) => id);
    return {
      partitions: partitions.map(({ partition, leader, replicas, isr }) => ({
        partition,
        leader: leader?.id ?? -1,
        replicas: ids(replicas),
        isr: ids(isr),
      })),
    };
  }

  async createPartitions({ topic, count, timeout_ms: timeoutMs = CALL_TIMEOUT_MS }) {
    await ask((done) => this.#admin.createPartitions(topic, count, timeoutMs, done));
  }

  async deleteRecords(request) {
    const before = request.offsets.map(([topic, partition, offset]) => ({ topic, partition, offset }));
    const rows = await ask((done) => this.#admin.deleteRecords(before, options(request), done));
    return { low: checked(rows).map(({ topic, partition, lowWatermark }) => [topic, partition, lowWatermark]) };
  }

  async listOffsets(request) {
    const asked = request.offsets.map(([topic, partition, at]) => ({
      topic,
      partition,
      offset: new OffsetSpec(SPECIAL_TIMES[at] ?? at),
    }));
    const rows = await ask((done) => this.#admin.listOffsets(asked, options(request), done));
    return { offsets: checked(rows).map(({ topic, partition, offset }) => [topic, partition, offset]) };
  }

  async listGroups(request) {
    const { groups } = await ask((done) => this.#admin.listGroups(options(request), done));
    return {
      groups: groups.map(({ groupId, type, state }) => [
        groupId,
        nameOf(ConsumerGroupTypes, type),
        nameOf(ConsumerGroupStates, state),
      ]),
    };
  }

  async describeGroup(request) {
    const { groups } = await ask((done) => this.#admin.describeGroups([request.group], options(request), done));
    const [{ state, type, partitionAssignor, members, error }] = groups;
    if (error) throw error;
    return {
      state: nameOf(ConsumerGroupStates, state),
      type: nameOf(ConsumerGroupTypes, type),
      assignor: partitionAssignor,
      members: members.map(toMember),
    };
  }

  async groupOffsets(request) {
    const asked = [{ groupId: request.group }];
    const [{ error, partitions }] = await ask((done) =>
      this.#admin.listConsumerGroupOffsets(asked, options(request), done),
    );
    if (error) throw error;
    const rows = checked(partitions).map(({ topic, partition, offset }) => [topic, partition, offset]);
    return { offsets: rows.filter(([, , offset]) => offset >= 0) };
  }

  /** The admin client has no call for it: a consumer that names the group, and never joins it, commits. */
  async alterGroupOffsets({ group, offsets }) {
    const consumer = new KafkaConsumer({ 'bootstrap.servers': this.#bootstrap, 'group.id': group }, {});
    await ask((done) => consumer.connect({}, done));
    try {
      consumer.commitSync(offsets.map(([topic, partition, offset]) => ({ topic, partition, offset })));
    } finally {
      await ask((done) => consumer.disconnect(done));
    }
  }

  async deleteGroups(request) {
    const drop = async (name) => checked(await ask((done) => this.#admin.deleteGroups([name], options(request), done)));
    return resultByName(
      describeError,
      request.groups.map((name) => [name, () => drop(name)]),
    );
  }

  async close() {
    this.#admin.disconnect();
  }
}

function options({ timeout_ms: timeout = CALL_TIMEOUT_MS }) {
  return { timeout };
}

/** The rows, unless one of them carries an error of its own. */
function checked(rows) {
  const failed = rows.find(({ error }) => error);
  if (failed !== undefined) throw failed.error;
  return rows;
}

/** `PREPARING_REBALANCE` as `PreparingRebalance`, which is Kafka's form. */
function nameOf(kinds, number) {
  const name = Object.keys(kinds).find((one) => kinds[one] === number);
  return name?.toLowerCase().replace(/(^|_)([a-z])/g, (_, __, letter) => letter.toUpperCase()) ?? null;
}

function toMember({ memberId, clientId, groupInstanceId, assignment }) {
  const partitions = assignment?.topicPartitions?.map(({ topic, partition }) => [topic, partition]) ?? [];
  return { id: memberId, client_id: clientId, instance_id: groupInstanceId ?? null, partitions };
}
