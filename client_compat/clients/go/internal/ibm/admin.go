package ibm

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

type admin struct {
	sarama.TransactionClusterAdmin
	client sarama.Client
}

func bind[A control.Clustered](p *program, run func(*admin, A) (any, error)) control.Op {
	return control.OnCluster(&p.admins, newAdmin, func(_ context.Context, opened *admin, arguments A) (any, error) {
		return run(opened, arguments)
	})
}

func newAdmin(bootstrap string) (*admin, error) {
	client, err := sarama.NewClient([]string{bootstrap}, settings(control.Open{}))
	if err != nil {
		return nil, err
	}
	cluster, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return nil, err
	}
	return &admin{cluster.(sarama.TransactionClusterAdmin), client}, nil
}

func (p *program) addAdmin(ops map[string]control.Op) {
	ops["admin.create_topics"] = bind(p, createTopics)
	ops["admin.delete_topics"] = bind(p, deleteTopics)
	ops["admin.list_topics"] = bind(p, listTopics)
	ops["admin.describe_topic"] = bind(p, describeTopic)
	ops["admin.create_partitions"] = bind(p, createPartitions)
	ops["admin.describe_configs"] = bind(p, describeConfigs)
	ops["admin.alter_configs"] = bind(p, alterConfigs)
	ops["admin.delete_records"] = bind(p, deleteRecords)
	ops["admin.list_offsets"] = bind(p, listOffsets)
	ops["admin.describe_cluster"] = bind(p, describeCluster)
	ops["admin.connect"] = control.Bind(connect)
	p.addGroupAdmin(ops)
	p.addTransactionAdmin(ops)
}

func createTopics(admin *admin, create control.CreateTopics) (any, error) {
	outcomes := control.Outcomes{}
	for _, topic := range create.Topics {
		detail := &sarama.TopicDetail{NumPartitions: topic.Partitions, ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
		if topic.Replication != nil {
			detail.ReplicationFactor = *topic.Replication
		}
		for key, value := range topic.Configs {
			detail.ConfigEntries[key] = &value
		}
		outcomes.Set(topic.Name, admin.CreateTopic(topic.Name, detail, false), explain)
	}
	return outcomes.Answer(), nil
}

func deleteTopics(admin *admin, names control.Names) (any, error) {
	outcomes := control.Outcomes{}
	for _, name := range names.Topics {
		outcomes.Set(name, admin.DeleteTopic(name), explain)
	}
	return outcomes.Answer(), nil
}

func listTopics(admin *admin, _ control.Cluster) (any, error) {
	all, err := admin.ListTopics()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	described, err := admin.DescribeTopics(names)
	if err != nil {
		return nil, err
	}
	// Only the description says which are internal.
	names = nil
	for _, topic := range described {
		if !topic.IsInternal {
			names = append(names, topic.Name)
		}
	}
	slices.Sort(names)
	return control.Rows("topics", names), nil
}

func describeTopic(admin *admin, of control.Topic) (any, error) {
	described, err := admin.DescribeTopics([]string{of.Topic})
	if err != nil {
		return nil, err
	}
	var partitions []control.DescribedPartition
	for _, topic := range described {
		if err := failed(topic.Err); err != nil {
			return nil, err
		}
		for _, partition := range topic.Partitions {
			partitions = append(partitions, control.DescribedPartition{
				Partition: partition.ID, Leader: partition.Leader, Replicas: partition.Replicas, ISR: partition.Isr,
			})
		}
	}
	return control.Rows("partitions", partitions), nil
}

func createPartitions(admin *admin, create control.Topic) (any, error) {
	return struct{}{}, admin.CreatePartitions(create.Topic, int32(create.Count), nil, false)
}

var resources = map[string]sarama.ConfigResourceType{"topic": sarama.TopicResource, "broker": sarama.BrokerResource}

func describeConfigs(admin *admin, of control.Configs) (any, error) {
	resource := &sarama.ConfigResource{Type: resources[of.Resource], Name: of.Name}
	described, err := admin.DescribeConfigs([]*sarama.ConfigResource{resource}, sarama.DescribeConfigsOptions{})
	if err != nil {
		return nil, err
	}
	configs := map[string]string{}
	for _, result := range described {
		if err := failed(result.ErrorCode); err != nil {
			return nil, err
		}
		for _, entry := range result.Configs {
			configs[entry.Name] = entry.Value
		}
	}
	return map[string]any{"configs": configs}, nil
}

func alterConfigs(admin *admin, of control.Configs) (any, error) {
	entries := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range of.Set {
		entries[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	}
	for _, name := range of.Delete {
		entries[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationDelete}
	}
	return struct{}{}, admin.IncrementalAlterConfig(resources[of.Resource], of.Name, entries, false)
}

func deleteRecords(admin *admin, of control.Offsets) (any, error) {
	topics := map[string]map[int32]int64{}
	for _, offset := range of.Offsets {
		if topics[offset.Topic] == nil {
			topics[offset.Topic] = map[int32]int64{}
		}
		topics[offset.Topic][offset.Index] = offset.Number
	}
	for topic, partitions := range topics {
		if err := admin.DeleteRecords(topic, partitions); err != nil {
			return nil, err
		}
	}
	// sarama keeps the low watermarks of the answer to itself: they are asked for.
	var low [][]any
	for _, offset := range of.Offsets {
		found, err := listOffset(admin, offset.Partition, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		low = append(low, []any{offset.Topic, offset.Index, found.Offset})
	}
	return control.Rows("low", low), nil
}

var times = map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}

func listOffsets(admin *admin, of control.Offsets) (any, error) {
	return control.Answered(of.Offsets, func(asked control.Offset) (int64, error) {
		time := asked.Number
		if asked.Word != "" {
			known := false
			if time, known = times[asked.Word]; !known {
				return 0, control.Unsupported("lists the oldest and the newest offset and those of times, but not " + asked.Word)
			}
		}
		found, err := listOffset(admin, asked.Partition, time)
		return found.Offset, err
	})
}

func describeCluster(admin *admin, _ control.Cluster) (any, error) {
	brokers, controller, err := admin.DescribeCluster()
	if err != nil {
		return nil, err
	}
	var nodes [][]any
	for _, broker := range brokers {
		host, port, err := net.SplitHostPort(broker.Addr())
		if err != nil {
			return nil, err
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, []any{broker.ID(), host, number})
	}
	// sarama does not tell the cluster's id.
	return map[string]any{"cluster_id": nil, "controller": controller, "nodes": nodes}, nil
}
