package ibm

import (
	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

func (p *program) addGroupAdmin(ops map[string]control.Op) {
	ops["admin.list_groups"] = bind(p, listGroups)
	ops["admin.describe_group"] = bind(p, describeGroup)
	ops["admin.group_offsets"] = bind(p, groupOffsets)
	ops["admin.alter_group_offsets"] = bind(p, alterGroupOffsets)
	ops["admin.delete_groups"] = bind(p, deleteGroups)
}

func listGroups(admin *admin, _ control.Cluster) (any, error) {
	groups, err := admin.ListConsumerGroups()
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for group := range groups {
		// sarama tells the protocol's type ("consumer") alone.
		rows = append(rows, []any{group, nil, nil})
	}
	return control.Rows("groups", rows), nil
}

func describeGroup(admin *admin, of control.Group) (any, error) {
	described, err := admin.DescribeConsumerGroups([]string{of.Group})
	if err != nil {
		return nil, err
	}
	group := described[0]
	if err := failed(group.Err); err != nil {
		return nil, err
	}
	members := []control.Member{}
	for _, member := range group.Members {
		partitions, err := assigned(member)
		if err != nil {
			return nil, err
		}
		members = append(members, control.Member{
			ID: member.MemberId, ClientID: member.ClientId, InstanceID: member.GroupInstanceId, Partitions: partitions,
		})
	}
	return map[string]any{"state": group.State, "assignor": group.Protocol, "members": members}, nil
}

func assigned(member *sarama.GroupMemberDescription) ([]control.Partition, error) {
	partitions := []control.Partition{}
	assignment, err := member.GetMemberAssignment()
	if err != nil || assignment == nil {
		return partitions, err
	}
	for topic, indexes := range assignment.Topics {
		for _, index := range indexes {
			partitions = append(partitions, control.Partition{Topic: topic, Index: index})
		}
	}
	return partitions, nil
}

func groupOffsets(admin *admin, of control.Group) (any, error) {
	response, err := admin.ListConsumerGroupOffsets(of.Group, nil)
	if err != nil {
		return nil, err
	}
	if err := failed(response.Err); err != nil {
		return nil, err
	}
	var rows [][]any
	for topic, partitions := range response.Blocks {
		for index, block := range partitions {
			rows = append(rows, []any{topic, index, block.Offset})
		}
	}
	return control.Rows("offsets", rows), nil
}

func alterGroupOffsets(admin *admin, of control.Group) (any, error) {
	return struct{}{}, alterOffsets(admin, of.Group, of.Offsets)
}

func deleteGroups(admin *admin, names control.Names) (any, error) {
	outcomes := control.Outcomes{}
	for _, name := range names.Groups {
		outcomes.Set(name, admin.DeleteConsumerGroup(name), explain)
	}
	return outcomes.Answer(), nil
}
