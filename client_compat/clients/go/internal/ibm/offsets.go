package ibm

import (
	"context"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

func (c *consumer) groupMetadata() *sarama.ConsumerGroupMetadata {
	if c.member != nil {
		if session := c.member.current(); session != nil {
			return sarama.NewConsumerGroupMetadataFromSession(session, *c.open.Group, c.open.InstanceID)
		}
	}
	return sarama.NewConsumerGroupMetadata(*c.open.Group)
}

func commitOffsets(_ context.Context, c *consumer, commit control.Commit) error {
	if commit.Mode == "async" {
		return control.Unsupported("commits synchronously, or by its own timer")
	}
	if c.open.Group == nil {
		return control.Failure{Code: "CLIENT:BAD_REQUEST", Message: "no group to commit for"}
	}
	if c.member != nil {
		_ = c.inbox.Failed() // of before
		if err := c.member.commit(commit.Offsets); err != nil {
			return err
		}
		// Commit returns nothing: what went wrong is in the errors on the side.
		return c.inbox.Failed()
	}
	offsets := commit.Offsets
	if offsets == nil {
		for partition, at := range c.inbox.Positions() {
			offsets = append(offsets, control.Offset{Partition: partition, Where: control.Where{Number: at}})
		}
	}
	return alterOffsets(c.admin, *c.open.Group, offsets)
}

func alterOffsets(admin sarama.ClusterAdmin, group string, offsets []control.Offset) error {
	topics := map[string]map[int32]sarama.OffsetAndMetadata{}
	for _, offset := range offsets {
		if topics[offset.Topic] == nil {
			topics[offset.Topic] = map[int32]sarama.OffsetAndMetadata{}
		}
		topics[offset.Topic][offset.Index] = sarama.OffsetAndMetadata{Offset: offset.Number, Metadata: offset.Metadata, LeaderEpoch: -1}
	}
	response, err := admin.AlterConsumerGroupOffsets(group, topics, nil)
	if err != nil {
		return err
	}
	for _, partitions := range response.Errors {
		for _, number := range partitions {
			if err := failed(number); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *consumer) committedOffsets(partitions []control.Partition) (map[control.Partition]*sarama.OffsetFetchResponseBlock, error) {
	if c.open.Group == nil {
		return nil, nil
	}
	topics := map[string][]int32{}
	for _, partition := range partitions {
		topics[partition.Topic] = append(topics[partition.Topic], partition.Index)
	}
	response, err := c.admin.ListConsumerGroupOffsets(*c.open.Group, topics)
	if err != nil {
		return nil, err
	}
	if err := failed(response.Err); err != nil {
		return nil, err
	}
	found := map[control.Partition]*sarama.OffsetFetchResponseBlock{}
	for _, partition := range partitions {
		block := response.GetBlock(partition.Topic, partition.Index)
		if block == nil {
			continue
		}
		if err := failed(block.Err); err != nil {
			return nil, err
		}
		if block.Offset >= 0 {
			found[partition] = block
		}
	}
	return found, nil
}

func committed(_ context.Context, c *consumer, of control.Partitions) (any, error) {
	found, err := c.committedOffsets(of.Partitions)
	if err != nil {
		return nil, err
	}
	return control.Committed(of.Partitions, func(partition control.Partition) (int64, string, bool) {
		if block, ok := found[partition]; ok {
			return block.Offset, block.Metadata, true
		}
		return 0, "", false
	})
}

func position(_ context.Context, c *consumer, of control.Partitions) (any, error) {
	return control.Positions(of.Partitions, c.inbox.Position)
}

func seek(_ context.Context, c *consumer, to control.Seek) error {
	if c.direct == nil {
		return control.Unsupported("moves no member of a group: a session begins at what was committed")
	}
	offset := to.Offset.Number
	switch to.Offset.Word {
	case "beginning":
		offset = sarama.OffsetOldest
	case "end":
		offset = sarama.OffsetNewest
	}
	return c.direct.seek(control.Partition{Topic: to.Topic, Index: to.Partition}, offset)
}

func offsetsForTimes(_ context.Context, c *consumer, of control.Times) (any, error) {
	return control.AtTimes(of.Times, func(time control.Offset) (*int64, *int64, error) {
		found, err := listOffset(c.admin, time.Partition, time.Number)
		if err != nil || found.Offset < 0 {
			return nil, nil, err
		}
		return &found.Offset, &found.Timestamp, nil
	})
}

func edges(edge int64) func(context.Context, *consumer, control.Partitions) (any, error) {
	return func(_ context.Context, c *consumer, of control.Partitions) (any, error) {
		return control.Answered(of.Partitions, func(partition control.Partition) (int64, error) {
			found, err := listOffset(c.admin, partition, edge)
			return found.Offset, err
		})
	}
}

func listOffset(admin sarama.ClusterAdmin, partition control.Partition, time int64) (sarama.OffsetResult, error) {
	wanted := map[string]map[int32]int64{partition.Topic: {partition.Index: time}}
	found, err := admin.ListOffsets(wanted, nil)
	if err != nil {
		return sarama.OffsetResult{}, err
	}
	result := found[partition.Topic][partition.Index]
	// sarama keeps a number in this error even where it is that of no error.
	if number, ok := result.Err.(sarama.KError); ok {
		return *result, failed(number)
	}
	return *result, result.Err
}
