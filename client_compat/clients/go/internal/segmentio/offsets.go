package segmentio

import (
	"context"

	"github.com/segmentio/kafka-go"

	"ottla/clients/go/internal/control"
)

func commitOffsets(ctx context.Context, c consumer, commit control.Commit) error {
	if c.base().open.Group == nil {
		return control.Failure{Code: "CLIENT:BAD_REQUEST", Message: "no group to commit for"}
	}
	return c.commit(ctx, commit)
}

// alter commits as nobody in particular, which a group without members allows.
func (o *opened) alter(ctx context.Context, offsets []control.Offset) error {
	return alterOffsets(ctx, o.client, *o.open.Group, offsets)
}

func alterOffsets(ctx context.Context, client *kafka.Client, group string, offsets []control.Offset) error {
	topics := map[string][]kafka.OffsetCommit{}
	for _, offset := range offsets {
		commit := kafka.OffsetCommit{Partition: int(offset.Index), Offset: offset.Number, Metadata: offset.Metadata}
		topics[offset.Topic] = append(topics[offset.Topic], commit)
	}
	response, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: topics})
	if err != nil {
		return err
	}
	for _, partitions := range response.Topics {
		for _, partition := range partitions {
			if partition.Error != nil {
				return partition.Error
			}
		}
	}
	return nil
}

// fetch returns what the group committed; nothing without a group.
func (o *opened) fetch(ctx context.Context, partitions []control.Partition) (map[control.Partition]kafka.OffsetFetchPartition, error) {
	if o.open.Group == nil {
		return nil, nil
	}
	topics := map[string][]int{}
	for _, partition := range partitions {
		topics[partition.Topic] = append(topics[partition.Topic], int(partition.Index))
	}
	return fetchOffsets(ctx, o.client, *o.open.Group, topics)
}

func fetchOffsets(
	ctx context.Context, client *kafka.Client, group string, topics map[string][]int,
) (map[control.Partition]kafka.OffsetFetchPartition, error) {
	response, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: topics})
	if err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, response.Error
	}
	found := map[control.Partition]kafka.OffsetFetchPartition{}
	for topic, partitions := range response.Topics {
		for _, partition := range partitions {
			if partition.Error != nil {
				return nil, partition.Error
			}
			if partition.CommittedOffset >= 0 {
				found[control.Partition{Topic: topic, Index: int32(partition.Partition)}] = partition
			}
		}
	}
	return found, nil
}

func committed(ctx context.Context, c consumer, of control.Partitions) (any, error) {
	found, err := c.base().fetch(ctx, of.Partitions)
	if err != nil {
		return nil, err
	}
	return control.Committed(of.Partitions, func(partition control.Partition) (int64, string, bool) {
		offset, ok := found[partition]
		return offset.CommittedOffset, offset.Metadata, ok
	})
}

func position(_ context.Context, c consumer, of control.Partitions) (any, error) {
	return control.Positions(of.Partitions, c.position)
}

func seek(_ context.Context, c consumer, to control.Seek) error {
	offset := to.Offset.Number
	if to.Offset.Word != "" {
		var err error
		if offset, err = edge(to.Offset.Word); err != nil {
			return err
		}
	}
	return c.seek(control.Partition{Topic: to.Topic, Index: to.Partition}, offset)
}

func offsetsForTimes(ctx context.Context, c consumer, of control.Times) (any, error) {
	return control.AtTimes(of.Times, func(time control.Offset) (*int64, *int64, error) {
		found, err := listOffset(ctx, c.base().client, time.Partition, time.Number)
		// The time that kafka-go gives with it is the one that was asked for, not the record's.
		if offset := offsetAt(found, time.Number); err == nil && offset >= 0 {
			return &offset, nil, nil
		}
		return nil, nil, err
	})
}

func edges(edge int64) func(context.Context, consumer, control.Partitions) (any, error) {
	return func(ctx context.Context, c consumer, of control.Partitions) (any, error) {
		return control.Answered(of.Partitions, func(partition control.Partition) (int64, error) {
			found, err := listOffset(ctx, c.base().client, partition, edge)
			return offsetAt(found, edge), err
		})
	}
}

func listOffset(ctx context.Context, client *kafka.Client, partition control.Partition, time int64) (kafka.PartitionOffsets, error) {
	ask := []kafka.OffsetRequest{{Partition: int(partition.Index), Timestamp: time}}
	response, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{partition.Topic: ask}})
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	for _, found := range response.Topics[partition.Topic] {
		return found, found.Error
	}
	return kafka.PartitionOffsets{}, kafka.UnknownTopicOrPartition
}

// offsetAt finds the offset in one of the three places of kafka-go's answer; -1 where there is none.
func offsetAt(found kafka.PartitionOffsets, time int64) int64 {
	switch time {
	case kafka.FirstOffset:
		return found.FirstOffset
	case kafka.LastOffset:
		return found.LastOffset
	}
	for offset := range found.Offsets {
		return offset
	}
	return -1
}
