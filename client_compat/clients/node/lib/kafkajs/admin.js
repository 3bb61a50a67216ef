import kafkajs from 'kafkajs';

import { Unsupported } from '../failures.js';
import { byTopic, fromAssignment } from '../partitions.js';
import { resultByName } from '../results.js';
import { connectionFor } from './connection.js';
import { describeError } from './errors.js';

const NO_TRANSACTION_ADMIN = "kafkajs's admin client has no requests about producers and transactions";
const RESOURCES = { topic: kafkajs.ConfigResourceTypes.TOPIC, broker: kafkajs.ConfigResourceTypes.BROKER };
const OWN_CONFIG = { topic: kafkajs.ConfigSource.TOPIC_CONFIG, broker: kafkajs.ConfigSource.DYNAMIC_BROKER_CONFIG };

export class KafkaJSAdmin {
  static missing = {
    describe_producers: NO_TRANSACTION_ADMIN,
    list_transactions: NO_TRANSACTION_ADMIN,
    describe_transaction: NO_TRANSACTION_ADMIN,
    abort_transaction: NO_TRANSACTION_ADMIN,
    fence_producers: NO_TRANSACTION_ADMIN,
  };
  #admin;

  constructor(admin) {
    this.#admin = admin;
  }

  static async open(request) {
    const admin = connectionFor(request).admin();
    await admin.connect();
    return new KafkaJSAdmin(admin);
  }

  static async connect(request) {
    const admin = connectionFor({ retries: 1, ...request }).admin();
    try {
      await admin.connect();
      return { brokers: (await admin.describeCluster()).brokers.length };
    } finally {
      await admin.disconnect();
    }
  }

  /** One call for each topic: for several, kafkajs answers with one boolean or one error. */
  async createTopics({ topics }) {
    const create = async ({ name, partitions, replication = 1, configs = {} }) => {
      const configEntries = Object.entries(configs).map(([key, value]) => ({ name: key, value }));
      const topic = { topic: name, numPartitions: partitions, replicationFactor: replication, configEntries };
      const created = await this.#admin.createTopics({ topics: [topic] });
      if (!created) throw existsAlready(name);
    };
    const calls = topics.map((topic) => [topic.name, () => create(topic)]);
    return resultByName(describeError, calls);
  }

  async deleteTopics({ topics }) {
    const calls = topics.map((name) => [name, () => this.#admin.deleteTopics({ topics: [name] })]);
    return resultByName(describeError, calls);
  }

  async listTopics() {
    const topics = await this.#admin.listTopics();
    return { topics: topics.filter((name) => !name.startsWith('__')) };
  }

  async describeTopic({ topic }) {
    const { topics } = await this.#admin.fetchTopicMetadata({ topics: [topic] });
    return {
      partitions: topics[0].partitions.map(({ partitionId, leader, replicas, isr }) => ({
        partition: partitionId,
        leader,
        replicas,
        isr,
      })),
    };
  }

  async createPartitions({ topic, count }) {
    await this.#admin.createPartitions({ topicPartitions: [{ topic, count }] });
  }

  async describeConfigs({ resource, name }) {
    const entries = await this.#configEntries(resource, name);
    return { configs: Object.fromEntries(entries.map(({ configName, configValue }) => [configName, configValue])) };
  }

  /**
   * kafkajs has AlterConfigs only, which replaces all of a resource's settings: so those that are set already are read and sent again, as its
   * users have to.
   */
  async alterConfigs({ resource, name, set = {}, delete: removed = [] }) {
    const present = (await this.#configEntries(resource, name)).filter(
      ({ configSource }) => configSource === OWN_CONFIG[resource],
    );
    const wanted = new Map(present.map(({ configName, configValue }) => [configName, configValue]));
    for (const [key, value] of Object.entries(set)) wanted.set(key, value);
    for (const key of removed) wanted.delete(key);
    const configEntries = [...wanted].map(([key, value]) => ({ name: key, value }));
    await this.#admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: RESOURCES[resource], name, configEntries }],
    });
  }

  async #configEntries(resource, name) {
    const { resources } = await this.#admin.describeConfigs({
      resources: [{ type: RESOURCES[resource], name }],
      includeSynonyms: false,
    });
    return resources[0].configEntries;
  }

  /** kafkajs does not pass on the low watermarks that DeleteRecords answers: they are asked for afterwards. */
  async deleteRecords({ offsets }) {
    for (const [topic, rows] of byTopic(offsets)) {
      // It looks for the leaders before it asks who they are.
      await this.#admin.fetchTopicOffsets(topic);
      const partitions = rows.map(([partition, offset]) => ({ partition, offset: String(offset) }));
      await this.#admin.deleteTopicRecords({ topic, partitions });
    }
    const { offsets: low } = await this.listOffsets({
      offsets: offsets.map(([topic, partition]) => [topic, partition, 'earliest']),
    });
    return { low };
  }

  /** Where no record is at or after a timestamp, kafkajs answers the end offset. */
  async listOffsets({ offsets }) {
    const found = [];
    for (const [topic, partition, at] of offsets) {
      if (at === 'max_timestamp')
        throw new Unsupported("kafkajs's ListOffsets is older than the offset of the largest timestamp");
      const rows =
        typeof at === 'number'
          ? await this.#admin.fetchTopicOffsetsByTimestamp(topic, at)
          : await this.#admin.fetchTopicOffsets(topic);
      const row = rows.find((one) => one.partition === partition);
      found.push([topic, partition, Number(at === 'earliest' ? row.low : row.offset)]);
    }
    return { offsets: found };
  }

  async listGroups() {
    const { groups } = await this.#admin.listGroups();
    return { groups: groups.map(({ groupId }) => [groupId, null, null]) };
  }

  async describeGroup({ group }) {
    const { groups } = await this.#admin.describeGroups([group]);
    const { state, protocol, members } = groups[0];
    return { state, assignor: protocol, members: members.map(toMember) };
  }

  async groupOffsets({ group }) {
    const known = await this.committed(group);
    return { offsets: [...known].map(([key, [offset]]) => [key.split(' ')[0], Number(key.split(' ')[1]), offset]) };
  }

  /** Offset and metadata by "topic partition"; of all topics, if none are named. */
  async committed(groupId, topics) {
    const found = await this.#admin.fetchOffsets({ groupId, topics });
    const rows = found.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, offset, metadata }) => [`${topic} ${partition}`, [Number(offset), metadata ?? '']]),
    );
    return new Map(rows.filter(([, [offset]]) => offset >= 0));
  }

  async alterGroupOffsets({ group, offsets }) {
    for (const [topic, rows] of byTopic(offsets)) {
      const partitions = rows.map(([partition, offset]) => ({ partition, offset: String(offset) }));
      await this.#admin.setOffsets({ groupId: group, topic, partitions });
    }
  }

  async deleteGroups({ groups }) {
    const calls = groups.map((name) => [name, () => this.#admin.deleteGroups([name])]);
    return resultByName(describeError, calls);
  }

  async describeCluster() {
    const { brokers, controller, clusterId } = await this.#admin.describeCluster();
    return { cluster_id: clusterId, controller, nodes: brokers.map(({ nodeId, host, port }) => [nodeId, host, port]) };
  }

  async close() {
    await this.#admin.disconnect();
  }
}

/** kafkajs swallows this error, and answers false. */
function existsAlready(name) {
  return new kafkajs.KafkaJSProtocolError({
    type: 'TOPIC_ALREADY_EXISTS',
    code: 36,
    message: `createTopics answered false: topic '${name}' exists`,
    retriable: false,
  });
}

function toMember({ memberId, clientId, memberAssignment }) {
  const decoded =
    memberAssignment.length === 0 ? null : kafkajs.AssignerProtocol.MemberAssignment.decode(memberAssignment);
  return { id: memberId, client_id: clientId, partitions: fromAssignment(decoded?.assignment ?? {}) };
}
