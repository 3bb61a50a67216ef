package segmentio

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"

	"ottla/clients/go/internal/control"
)

func bind[A control.Clustered](p *program, run func(context.Context, *kafka.Client, A) (any, error)) control.Op {
	return control.OnCluster(&p.admins, func(bootstrap string) (*kafka.Client, error) { return client(bootstrap, ""), nil }, run)
}

func (p *program) addAdmin(ops map[string]control.Op) {
	ops["admin.create_topics"] = bind(p, createTopics)
	ops["admin.delete_topics"] = bind(p, deleteTopics)
	ops["admin.list_topics"] = bind(p, listTopics)
	ops["admin.describe_topic"] = bind(p, describeTopic)
	ops["admin.create_partitions"] = bind(p, createPartitions)
	ops["admin.describe_configs"] = bind(p, describeConfigs)
	ops["admin.alter_configs"] = bind(p, alterConfigs)
	ops["admin.list_offsets"] = bind(p, listOffsets)
	ops["admin.describe_cluster"] = bind(p, describeCluster)
	ops["admin.list_groups"] = bind(p, listGroups)
	ops["admin.describe_group"] = bind(p, describeGroup)
	ops["admin.group_offsets"] = bind(p, groupOffsets)
	ops["admin.alter_group_offsets"] = bind(p, alterGroupOffsets)
	ops["admin.delete_groups"] = bind(p, deleteGroups)
	ops["admin.fence_producers"] = bind(p, fenceProducers)
}

func createTopics(ctx context.Context, client *kafka.Client, create control.CreateTopics) (any, error) {
	outcomes := control.Outcomes{}
	for _, topic := range create.Topics {
		config := kafka.TopicConfig{Topic: topic.Name, NumPartitions: int(topic.Partitions), ReplicationFactor: 1}
		if topic.Replication != nil {
			config.ReplicationFactor = int(*topic.Replication)
		}
		for name, value := range topic.Configs {
			config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
		}
		response, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
		if err != nil {
			return nil, err
		}
		outcomes.Set(topic.Name, response.Errors[topic.Name], explain)
	}
	return outcomes.Answer(), nil
}

func deleteTopics(ctx context.Context, client *kafka.Client, names control.Names) (any, error) {
	response, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: names.Topics})
	if err != nil {
		return nil, err
	}
	outcomes := control.Outcomes{}
	for _, name := range names.Topics {
		outcomes.Set(name, response.Errors[name], explain)
	}
	return outcomes.Answer(), nil
}

func listTopics(ctx context.Context, client *kafka.Client, _ control.Cluster) (any, error) {
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, topic := range metadata.Topics {
		if !topic.Internal {
			names = append(names, topic.Name)
		}
	}
	return control.Rows("topics", names), nil
}

func describeTopic(ctx context.Context, client *kafka.Client, of control.Topic) (any, error) {
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{of.Topic}})
	if err != nil {
		return nil, err
	}
	var partitions []control.DescribedPartition
	for _, topic := range metadata.Topics {
		if topic.Error != nil {
			return nil, topic.Error
		}
		for _, partition := range topic.Partitions {
			partitions = append(partitions, control.DescribedPartition{
				Partition: int32(partition.ID),
				Leader:    int32(partition.Leader.ID),
				Replicas:  ids(partition.Replicas),
				ISR:       ids(partition.Isr),
			})
		}
	}
	return control.Rows("partitions", partitions), nil
}

func ids(brokers []kafka.Broker) []int32 {
	found := []int32{}
	for _, broker := range brokers {
		found = append(found, int32(broker.ID))
	}
	return found
}

func createPartitions(ctx context.Context, client *kafka.Client, create control.Topic) (any, error) {
	topics := []kafka.TopicPartitionsConfig{{Name: create.Topic, Count: int32(create.Count)}}
	response, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: topics})
	if err != nil {
		return nil, err
	}
	return struct{}{}, response.Errors[create.Topic]
}

var resources = map[string]kafka.ResourceType{"topic": kafka.ResourceTypeTopic, "broker": kafka.ResourceTypeBroker}

func describeConfigs(ctx context.Context, client *kafka.Client, of control.Configs) (any, error) {
	resource := kafka.DescribeConfigRequestResource{ResourceType: resources[of.Resource], ResourceName: of.Name}
	response, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{resource}})
	if err != nil {
		return nil, err
	}
	configs := map[string]string{}
	for _, resource := range response.Resources {
		if resource.Error != nil {
			return nil, resource.Error
		}
		for _, entry := range resource.ConfigEntries {
			configs[entry.ConfigName] = entry.ConfigValue
		}
	}
	return map[string]any{"configs": configs}, nil
}

func alterConfigs(ctx context.Context, client *kafka.Client, of control.Configs) (any, error) {
	resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: resources[of.Resource], ResourceName: of.Name}
	for name, value := range of.Set {
		set := kafka.IncrementalAlterConfigsRequestConfig{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}
		resource.Configs = append(resource.Configs, set)
	}
	for _, name := range of.Delete {
		unset := kafka.IncrementalAlterConfigsRequestConfig{Name: name, ConfigOperation: kafka.ConfigOperationDelete}
		resource.Configs = append(resource.Configs, unset)
	}
	request := &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{resource}}
	response, err := client.IncrementalAlterConfigs(ctx, request)
	if err != nil {
		return nil, err
	}
	for _, resource := range response.Resources {
		if resource.Error != nil {
			return nil, resource.Error
		}
	}
	return struct{}{}, nil
}

var times = map[string]int64{"earliest": kafka.FirstOffset, "latest": kafka.LastOffset}

func listOffsets(ctx context.Context, client *kafka.Client, of control.Offsets) (any, error) {
	return control.Answered(of.Offsets, func(asked control.Offset) (int64, error) {
		time := asked.Number
		if asked.Word != "" {
			known := false
			if time, known = times[asked.Word]; !known {
				return 0, control.Unsupported("lists the first and the last offset and those of times, but not " + asked.Word)
			}
		}
		found, err := listOffset(ctx, client, asked.Partition, time)
		return offsetAt(found, time), err
	})
}

func describeCluster(ctx context.Context, client *kafka.Client, _ control.Cluster) (any, error) {
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	var nodes [][]any
	for _, broker := range metadata.Brokers {
		nodes = append(nodes, []any{broker.ID, broker.Host, broker.Port})
	}
	return map[string]any{"cluster_id": metadata.ClusterID, "controller": metadata.Controller.ID, "nodes": nodes}, nil
}

// fenceProducers raises the epochs as Java's admin client does, with an InitProducerId that names no producer.
func fenceProducers(ctx context.Context, client *kafka.Client, names control.Names) (any, error) {
	for _, id := range names.TransactionalIDs {
		request := &kafka.InitProducerIDRequest{TransactionalID: id, TransactionTimeoutMs: 1, ProducerID: -1, ProducerEpoch: -1}
		err := control.UntilAborted(func() (bool, error) {
			response, err := client.InitProducerID(ctx, request)
			if err != nil {
				return false, err
			}
			return errors.Is(response.Error, kafka.ConcurrentTransactions), response.Error
		})
		if err != nil {
			return nil, err
		}
	}
	return struct{}{}, nil
}
