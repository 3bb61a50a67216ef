import {
  Admin,
  ConfigResourceTypes,
  IncrementalAlterConfigOperationTypes,
  ListOffsetTimestamps,
} from '@platformatic/kafka';

import { byTopic, fromAssignment } from '../partitions.js';
import { resultByName } from '../results.js';
import { connectionOptions } from './connection.js';
import { describeError } from './errors.js';

const NO_TRANSACTION_ADMIN = "@platformatic/kafka's admin client has no call about producers and transactions";
const RESOURCES = { topic: ConfigResourceTypes.TOPIC, broker: ConfigResourceTypes.BROKER };
const SPECIAL_TIMES = {
  earliest: ListOffsetTimestamps.EARLIEST,
  latest: ListOffsetTimestamps.LATEST,
  max_timestamp: ListOffsetTimestamps.MAX,
};

export class PlatformaticAdmin {
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
    return new PlatformaticAdmin(new Admin(connectionOptions(request)));
  }

  /** One call for each topic: an error of one fails the call. */
  async createTopics({ topics }) {
    const create = ({ name, partitions, replication = 1, configs = {} }) =>
      this.#admin.createTopics({
        topics: [name],
        partitions,
        replicas: replication,
        configs: Object.entries(configs).map(([key, value]) => ({ name: key, value })),
      });
    const calls = topics.map((topic) => [topic.name, () => create(topic)]);
    return resultByName(describeError, calls);
  }

  async deleteTopics({ topics }) {
    const calls = topics.map((name) => [name, () => this.#admin.deleteTopics({ topics: [name] })]);
    return resultByName(describeError, calls);
  }

  async listTopics() {
    return { topics: await this.#admin.listTopics({ includeInternals: false }) };
  }

  async describeTopic({ topic }) {
    const { topics } = await this.#admin.metadata({ topics: [topic], forceUpdate: true });
    const rows = topics
      .get(topic)
      .partitions.map(({ leader, replicas, isr }, partition) => ({ partition, leader, replicas, isr }));
    return { partitions: rows };
  }

  async createPartitions({ topic, count }) {
    await this.#admin.createPartitions({ topics: [{ name: topic, count }] });
  }

  async describeConfigs({ resource, name }) {
    const [{ configs }] = await this.#admin.describeConfigs({
      resources: [{ resourceType: RESOURCES[resource], resourceName: name }],
    });
    return { configs: Object.fromEntries(configs.map(({ name: key, value }) => [key, value])) };
  }

  async alterConfigs({ resource, name, set = {}, delete: removed = [] }) {
    const { SET, DELETE } = IncrementalAlterConfigOperationTypes;
    const configs = [
      ...Object.entries(set).map(([key, value]) => ({ name: key, configOperation: SET, value })),
      ...removed.map((key) => ({ name: key, configOperation: DELETE })),
    ];
    await this.#admin.incrementalAlterConfigs({
      resources: [{ resourceType: RESOURCES[resource], resourceName: name, configs }],
    });
  }

  async deleteRecords({ offsets }) {
    const topics = [...byTopic(offsets)].map(([name, rows]) => ({
      name,
      partitions: rows.map(([partition, offset]) => ({ partition, offset: BigInt(offset) })),
    }));
    const deleted = await this.#admin.deleteRecords({ topics });
    const low = deleted.flatMap(({ name, partitions }) =>
      partitions.map(({ partition, lowWatermark }) => [name, partition, Number(lowWatermark)]),
    );
    return { low };
  }

  async listOffsets({ offsets }) {
    const topics = [...byTopic(offsets)].map(([name, rows]) => ({
      name,
      partitions: rows.map(([partitionIndex, at]) => ({ partitionIndex, timestamp: SPECIAL_TIMES[at] ?? BigInt(at) })),
    }));
    const listed = await this.#admin.listOffsets({ topics });
    const rows = listed.flatMap(({ name, partitions }) =>
      partitions.map(({ partitionIndex, offset }) => [name, partitionIndex, Number(offset)]),
    );
    return { offsets: rows };
  }

  async listGroups() {
    const groups = await this.#admin.listGroups();
    return { groups: [...groups.values()].map(({ id, groupType, state }) => [id, groupType ?? null, state ?? null]) };
  }

  async describeGroup({ group }) {
    const groups = await this.#admin.describeGroups({ groups: [group] });
    const { state, protocol, members } = groups.get(group);
    return { state, assignor: protocol, members: [...members.values()].map(toMember) };
  }

  async groupOffsets({ group }) {
    const [{ topics }] = await this.#admin.listConsumerGroupOffsets({ groups: [group] });
    const rows = topics.flatMap(({ name, partitions }) =>
      partitions.map(({ partitionIndex, committedOffset }) => [name, partitionIndex, Number(committedOffset)]),
    );
    return { offsets: rows.filter(([, , offset]) => offset >= 0) };
  }

  async alterGroupOffsets({ group, offsets }) {
    const topics = [...byTopic(offsets)].map(([name, rows]) => ({
      name,
      partitionOffsets: rows.map(([partition, offset]) => ({ partition, offset: BigInt(offset) })),
    }));
    await this.#admin.alterConsumerGroupOffsets({ groupId: group, topics });
  }

  async deleteGroups({ groups }) {
    const calls = groups.map((name) => [name, () => this.#admin.deleteGroups({ groups: [name] })]);
    return resultByName(describeError, calls);
  }

  async describeCluster() {
    const { id, controllerId, brokers } = await this.#admin.metadata({ topics: [], forceUpdate: true });
    return {
      cluster_id: id,
      controller: controllerId,
      nodes: [...brokers].map(([node, { host, port }]) => [node, host, port]),
    };
  }

  async close() {
    await this.#admin.close();
  }
}

function toMember({ id, clientId, groupInstanceId, assignments }) {
  const byName = [...(assignments ?? new Map()).values()].map(({ topic, partitions }) => [topic, partitions]);
  return {
    id,
    client_id: clientId,
    instance_id: groupInstanceId,
    partitions: fromAssignment(Object.fromEntries(byName)),
  };
}
