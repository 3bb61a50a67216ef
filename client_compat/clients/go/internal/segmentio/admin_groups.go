package segmentio

import (
	"context"

	"github.com/segmentio/kafka-go"

	"ottla/clients/go/internal/control"
)

func listGroups(ctx context.Context, client *kafka.Client, _ control.Cluster) (any, error) {
	response, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, response.Error
	}
	var rows [][]any
	for _, group := range response.Groups {
		// kafka-go tells neither type nor state.
		rows = append(rows, []any{group.GroupID, nil, nil})
	}
	return control.Rows("groups", rows), nil
}

func describeGroup(ctx context.Context, client *kafka.Client, of control.Group) (any, error) {
	response, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{of.Group}})
	if err != nil {
		return nil, err
	}
	for _, group := range response.Groups {
		if group.Error != nil {
			return nil, group.Error
		}
		members := []map[string]any{}
		for _, member := range group.Members {
			partitions := []control.Partition{}
			for _, topic := range member.MemberAssignments.Topics {
				for _, index := range topic.Partitions {
					partitions = append(partitions, control.Partition{Topic: topic.Topic, Index: int32(index)})
				}
			}
			// It tells no instance ids.
			members = append(members, map[string]any{"id": member.MemberID, "client_id": member.ClientID, "partitions": partitions})
		}
		return map[string]any{"state": group.GroupState, "members": members}, nil
	}
	return nil, kafka.GroupIdNotFound
}

func groupOffsets(ctx context.Context, client *kafka.Client, of control.Group) (any, error) {
	// No topics: all that the group committed.
	found, err := fetchOffsets(ctx, client, of.Group, nil)
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for partition, offset := range found {
		rows = append(rows, []any{partition.Topic, partition.Index, offset.CommittedOffset})
	}
	return control.Rows("offsets", rows), nil
}

func alterGroupOffsets(ctx context.Context, client *kafka.Client, of control.Group) (any, error) {
	return struct{}{}, alterOffsets(ctx, client, of.Group, of.Offsets)
}

func deleteGroups(ctx context.Context, client *kafka.Client, names control.Names) (any, error) {
	response, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: names.Groups})
	if err != nil {
		return nil, err
	}
	outcomes := control.Outcomes{}
	for _, name := range names.Groups {
		outcomes.Set(name, response.Errors[name], explain)
	}
	return outcomes.Answer(), nil
}
