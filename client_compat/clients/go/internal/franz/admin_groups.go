package franz

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"ottla/clients/go/internal/control"
)

func (p *program) addGroupAdmin(ops map[string]control.Op) {
	ops["admin.list_groups"] = admin(p, listGroups)
	ops["admin.describe_group"] = admin(p, describeGroup)
	ops["admin.group_offsets"] = admin(p, groupOffsets)
	ops["admin.alter_group_offsets"] = admin(p, alterGroupOffsets)
	ops["admin.delete_groups"] = admin(p, deleteGroups)
}

func listGroups(ctx context.Context, client *kadm.Client, _ control.Cluster) (any, error) {
	groups, err := client.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for _, group := range groups.Sorted() {
		// kadm can filter by type, but does not tell it.
		rows = append(rows, []any{group.Group, nil, group.State})
	}
	return control.Rows("groups", rows), nil
}

func describeClassic(ctx context.Context, client *kadm.Client, name string) (any, error) {
	groups, err := client.DescribeGroups(ctx, name)
	if err != nil {
		return nil, err
	}
	group := groups[name]
	if group.Err != nil {
		return nil, group.Err
	}
	members := []control.Member{}
	for _, member := range group.Members {
		described := control.Member{
			ID: member.MemberID, ClientID: member.ClientID, InstanceID: member.InstanceID, Partitions: []control.Partition{},
		}
		if assigned, ok := member.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				for _, index := range topic.Partitions {
					described.Partitions = append(described.Partitions, control.Partition{Topic: topic.Topic, Index: index})
				}
			}
		}
		members = append(members, described)
	}
	return map[string]any{"state": group.State, "type": "classic", "assignor": group.Protocol, "members": members}, nil
}

func flat(set kadm.TopicsSet) []control.Partition {
	partitions := []control.Partition{}
	for _, topic := range set.Sorted() {
		slices.Sort(topic.Partitions)
		for _, index := range topic.Partitions {
			partitions = append(partitions, control.Partition{Topic: topic.Topic, Index: index})
		}
	}
	return partitions
}

func groupOffsets(ctx context.Context, client *kadm.Client, of control.Group) (any, error) {
	found, err := client.FetchOffsets(ctx, of.Group)
	if err != nil {
		return nil, err
	}
	if err := found.Error(); err != nil {
		return nil, err
	}
	var rows [][]any
	for _, offset := range found.Sorted() {
		rows = append(rows, []any{offset.Topic, offset.Partition, offset.At})
	}
	return control.Rows("offsets", rows), nil
}

func alterGroupOffsets(ctx context.Context, client *kadm.Client, of control.Group) (any, error) {
	var offsets kadm.Offsets
	for _, offset := range of.Offsets {
		offsets.AddOffset(offset.Topic, offset.Index, offset.Number, -1)
	}
	return struct{}{}, client.CommitAllOffsets(ctx, of.Group, offsets)
}

func deleteGroups(ctx context.Context, client *kadm.Client, names control.Names) (any, error) {
	responses, err := client.DeleteGroups(ctx, names.Groups...)
	if err != nil {
		return nil, err
	}
	outcomes := control.Outcomes{}
	for name, response := range responses {
		outcomes.Set(name, response.Err, explain)
	}
	return outcomes.Answer(), nil
}
