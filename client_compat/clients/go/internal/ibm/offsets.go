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

func (p *program) commitOffsets(_ context.Context, commit control.Commit) error {
	c, err := p.consumers.Get(commit.Handle)
	if err != nil {
		return err
	}
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

func (p *program) committed(_ context.Context, of control.Partitions) (any, error) {
	c, err := p.consumers.Get(of.Handle)
	if err != nil {
		return nil, err
	}
	found, err := c.committedOffsets(of.Partitions)
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for _, partition := range of.Partitions {
		row := []any{partition.Topic, partition.Index, nil, nil}
		if block, ok := found[partition]; ok {
			row[2], row[3] = block.Offset, block.Metadata
		}
		rows = append(rows, row)
	}
	return control.Rows("offsets", rows), nil
}

func (p *program) position(_ context.Context, of control.Partitions) (any, error) {
	c, err := p.consumers.Get(of.Handle)
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for _, partition := range of.Partitions {
		at, known := c.inbox.Position(partition)
		if !known {
			return nil, control.Unsupported("tells no position of a partition before something was read from it")
		}
		rows = append(rows, []any{partition.Topic, partition.Index, at})
	}
	return control.Rows("offsets", rows), nil
}

func (p *program) seek(_ context.Context, to control.Seek) error {
	c, err := p.consumers.Get(to.Handle)
	if err != nil {
		return err
	}
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

func (p *program) offsetsForTimes(_ context.Context, of control.Times) (any, error) {
	c, err := p.consumers.Get(of.Handle)
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for _, time := range of.Times {
		found, err := listOffset(c.admin, time.Partition, time.Number)
		if err != nil {
			return nil, err
		}
		row := []any{time.Topic, time.Index, nil, nil}
		if found.Offset >= 0 {
			row[2], row[3] = found.Offset, found.Timestamp
		}
		rows = append(rows, row)
	}
	return control.Rows("offsets", rows), nil
}

func (p *program) edges(edge int64) func(context.Context, control.Partitions) (any, error) {
	return func(_ context.Context, of control.Partitions) (any, error) {
		c, err := p.consumers.Get(of.Handle)
		if err != nil {
			return nil, err
		}
		var rows [][]any
		for _, partition := range of.Partitions {
			found, err := listOffset(c.admin, partition, edge)
			if err != nil {
				return nil, err
			}
			rows = append(rows, []any{partition.Topic, partition.Index, found.Offset})
		}
		return control.Rows("offsets", rows), nil
	}
}

func listOffset(admin sarama.ClusterAdmin, partition control.Partition, time int64) (*sarama.OffsetResult, error) {
	wanted := map[string]map[int32]int64{partition.Topic: {partition.Index: time}}
	found, err := admin.ListOffsets(wanted, nil)
	if err != nil {
		return nil, err
	}
	result := found[partition.Topic][partition.Index]
	// sarama keeps a number in this error even where it is that of no error.
	if number, ok := result.Err.(sarama.KError); ok {
		return result, failed(number)
	}
	return result, result.Err
}
