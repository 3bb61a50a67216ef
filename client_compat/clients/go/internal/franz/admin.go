package franz

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"ottla/clients/go/internal/control"
)

func admin[A control.Clustered](p *program, run func(context.Context, *kadm.Client, A) (any, error)) control.Op {
	return control.OnCluster(&p.admins, newAdmin, run)
}

func newAdmin(bootstrap string) (*kadm.Client, error) {
	return kadm.NewOptClient(common(control.Open{Bootstrap: bootstrap})...)
}

func (p *program) addAdmin(ops map[string]control.Op) {
	ops["admin.create_topics"] = admin(p, createTopics)
	ops["admin.delete_topics"] = admin(p, deleteTopics)
	ops["admin.list_topics"] = admin(p, listTopics)
	ops["admin.describe_topic"] = admin(p, describeTopic)
	ops["admin.create_partitions"] = admin(p, createPartitions)
	ops["admin.describe_configs"] = admin(p, describeConfigs)
	ops["admin.alter_configs"] = admin(p, alterConfigs)
	ops["admin.delete_records"] = admin(p, deleteRecords)
	ops["admin.list_offsets"] = admin(p, listOffsets)
	ops["admin.describe_cluster"] = admin(p, describeCluster)
	ops["admin.connect"] = control.Bind(connect)
	p.addGroupAdmin(ops)
	p.addTransactionAdmin(ops)
}

func createTopics(ctx context.Context, client *kadm.Client, create control.CreateTopics) (any, error) {
	outcomes := control.Outcomes{}
	for _, topic := range create.Topics {
		replication := int16(1)
		if topic.Replication != nil {
			replication = *topic.Replication
		}
		configs := map[string]*string{}
		for key, value := range topic.Configs {
			configs[key] = &value
		}
		created, err := client.CreateTopics(ctx, topic.Partitions, replication, configs, topic.Name)
		if err == nil {
			err = created[topic.Name].Err
		}
		outcomes.Set(topic.Name, err, explain)
	}
	return outcomes.Answer(), nil
}

func deleteTopics(ctx context.Context, client *kadm.Client, names control.Names) (any, error) {
	responses, err := client.DeleteTopics(ctx, names.Topics...)
	if err != nil {
		return nil, err
	}
	outcomes := control.Outcomes{}
	for name, response := range responses {
		outcomes.Set(name, response.Err, explain)
	}
	return outcomes.Answer(), nil
}

func listTopics(ctx context.Context, client *kadm.Client, _ control.Cluster) (any, error) {
	topics, err := client.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	return control.Rows("topics", topics.Names()), nil
}

func describeTopic(ctx context.Context, client *kadm.Client, of control.Topic) (any, error) {
	topics, err := client.ListTopics(ctx, of.Topic)
	if err != nil {
		return nil, err
	}
	topic, ok := topics[of.Topic]
	if !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	if topic.Err != nil {
		return nil, topic.Err
	}
	var partitions []control.DescribedPartition
	for _, partition := range topic.Partitions.Sorted() {
		partitions = append(partitions, control.DescribedPartition{
			Partition: partition.Partition, Leader: partition.Leader, Replicas: partition.Replicas, ISR: partition.ISR,
		})
	}
	return control.Rows("partitions", partitions), nil
}

func createPartitions(ctx context.Context, client *kadm.Client, create control.Topic) (any, error) {
	responses, err := client.UpdatePartitions(ctx, create.Count, create.Topic)
	if err != nil {
		return nil, err
	}
	return struct{}{}, responses[create.Topic].Err
}

func describeConfigs(ctx context.Context, client *kadm.Client, of control.Configs) (any, error) {
	described, err := resourceConfigs(ctx, client, of)
	if err != nil {
		return nil, err
	}
	configs := map[string]*string{}
	for _, resource := range described {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, config := range resource.Configs {
			configs[config.Key] = config.Value
		}
	}
	return map[string]any{"configs": configs}, nil
}

func resourceConfigs(ctx context.Context, client *kadm.Client, of control.Configs) (kadm.ResourceConfigs, error) {
	if of.Resource == "topic" {
		return client.DescribeTopicConfigs(ctx, of.Name)
	}
	broker, err := strconv.ParseInt(of.Name, 10, 32)
	if err != nil {
		return nil, err
	}
	return client.DescribeBrokerConfigs(ctx, int32(broker))
}

func alterConfigs(ctx context.Context, client *kadm.Client, of control.Configs) (any, error) {
	var alter []kadm.AlterConfig
	for name, value := range of.Set {
		alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	for _, name := range of.Delete {
		alter = append(alter, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	responses, err := alterResource(ctx, client, of, alter)
	if err != nil {
		return nil, err
	}
	for _, response := range responses {
		if response.Err != nil {
			return nil, response.Err
		}
	}
	return struct{}{}, nil
}

func alterResource(ctx context.Context, client *kadm.Client, of control.Configs, alter []kadm.AlterConfig) (kadm.AlterConfigsResponses, error) {
	if of.Resource == "topic" {
		return client.AlterTopicConfigs(ctx, alter, of.Name)
	}
	broker, err := strconv.ParseInt(of.Name, 10, 32)
	if err != nil {
		return nil, err
	}
	return client.AlterBrokerConfigs(ctx, alter, int32(broker))
}

func deleteRecords(ctx context.Context, client *kadm.Client, of control.Offsets) (any, error) {
	var before kadm.Offsets
	for _, offset := range of.Offsets {
		before.AddOffset(offset.Topic, offset.Index, offset.Number, -1)
	}
	responses, err := client.DeleteRecords(ctx, before)
	if err != nil {
		return nil, err
	}
	var low [][]any
	for _, response := range responses.Sorted() {
		if response.Err != nil {
			return nil, response.Err
		}
		low = append(low, []any{response.Topic, response.Partition, response.LowWatermark})
	}
	return control.Rows("low", low), nil
}

func listOffsets(ctx context.Context, client *kadm.Client, of control.Offsets) (any, error) {
	return control.Answered(of.Offsets, func(asked control.Offset) (int64, error) {
		return listedOffset(ctx, client, asked.Partition, asked.Where)
	})
}

func listerOf(client *kadm.Client, where control.Where) lister {
	switch where.Word {
	case "earliest":
		return client.ListStartOffsets
	case "latest":
		return client.ListEndOffsets
	case "max_timestamp":
		return listMaxTimestamp(client)
	}
	return func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return client.ListOffsetsAfterMilli(ctx, where.Number, topics...)
	}
}

func describeCluster(ctx context.Context, client *kadm.Client, _ control.Cluster) (any, error) {
	cluster, err := client.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	var nodes [][]any
	for _, node := range cluster.Brokers {
		nodes = append(nodes, []any{node.NodeID, node.Host, node.Port})
	}
	return map[string]any{"cluster_id": cluster.Cluster, "controller": cluster.Controller, "nodes": nodes}, nil
}
