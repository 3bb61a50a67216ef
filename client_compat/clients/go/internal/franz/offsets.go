package franz

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ottla/clients/go/internal/control"
)

// commitOffsets goes through the member where there is one, else as an admin's: kgo commits for groups only.
func commitOffsets(ctx context.Context, c *consumer, commit control.Commit) error {
	if c.open.Group == nil {
		return control.Failure{Code: "CLIENT:BAD_REQUEST", Message: "no group to commit for"}
	}
	if c.client == nil || c.direct {
		return c.admin.CommitAllOffsets(ctx, c.group(), c.adminOffsets(commit.Offsets))
	}
	offsets := c.client.UncommittedOffsets()
	if commit.Offsets != nil {
		offsets = epochOffsets(commit.Offsets)
	}
	if commit.Mode == "async" {
		// It outlives the request that asked for it.
		c.client.CommitOffsets(withMetadata(context.Background(), commit.Offsets), offsets, nil)
		return nil
	}
	var err error
	c.client.CommitOffsetsSync(withMetadata(ctx, commit.Offsets), offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, failed error) {
			err = commitError(response, failed)
		})
	return err
}

func commitError(response *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// withMetadata puts the metadata into the request on its way: kgo's offsets have no place for it.
func withMetadata(ctx context.Context, offsets []control.Offset) context.Context {
	said := map[control.Partition]string{}
	for _, offset := range offsets {
		if offset.Metadata != "" {
			said[offset.Partition] = offset.Metadata
		}
	}
	if len(said) == 0 {
		return ctx
	}
	return kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for _, topic := range request.Topics {
			for i := range topic.Partitions {
				partition := &topic.Partitions[i]
				if metadata, ok := said[control.Partition{Topic: topic.Topic, Index: partition.Partition}]; ok {
					partition.Metadata = &metadata
				}
			}
		}
		return nil
	})
}

func epochOffsets(offsets []control.Offset) map[string]map[int32]kgo.EpochOffset {
	topics := map[string]map[int32]kgo.EpochOffset{}
	for _, offset := range offsets {
		if topics[offset.Topic] == nil {
			topics[offset.Topic] = map[int32]kgo.EpochOffset{}
		}
		topics[offset.Topic][offset.Index] = kgo.EpochOffset{Epoch: -1, Offset: offset.Number}
	}
	return topics
}

// adminOffsets are the given ones, or the positions of what was polled.
func (c *consumer) adminOffsets(given []control.Offset) kadm.Offsets {
	var offsets kadm.Offsets
	for _, offset := range given {
		add := kadm.Offset{Topic: offset.Topic, Partition: offset.Index, At: offset.Number, LeaderEpoch: -1, Metadata: offset.Metadata}
		offsets.Add(add)
	}
	if given == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		for partition, at := range c.positions {
			offsets.AddOffset(partition.Topic, partition.Index, at, -1)
		}
	}
	return offsets
}

func committed(ctx context.Context, c *consumer, of control.Partitions) (any, error) {
	found, err := c.admin.FetchOffsets(ctx, c.group())
	if err != nil {
		return nil, err
	}
	if err := found.Error(); err != nil {
		return nil, err
	}
	return control.Committed(of.Partitions, func(partition control.Partition) (int64, string, bool) {
		offset, ok := found.Lookup(partition.Topic, partition.Index)
		return offset.At, offset.Metadata, ok && offset.At >= 0
	})
}

func position(_ context.Context, c *consumer, of control.Partitions) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return control.Positions(of.Partitions, func(partition control.Partition) (int64, bool) {
		at, polled := c.positions[partition]
		return at, polled
	})
}

func offsetsForTimes(ctx context.Context, c *consumer, of control.Times) (any, error) {
	return control.AtTimes(of.Times, func(time control.Offset) (*int64, *int64, error) {
		found, err := listed(ctx, time.Partition, listerOf(c.admin, time.Where))
		// Where no record is late enough kadm gives the end offset, and no timestamp with it.
		if err != nil || found.Timestamp < 0 {
			return nil, nil, err
		}
		return &found.Offset, &found.Timestamp, nil
	})
}

type lister func(context.Context, ...string) (kadm.ListedOffsets, error)

// edges answers the offsets at one end of partitions.
func edges(word string) func(context.Context, *consumer, control.Partitions) (any, error) {
	return func(ctx context.Context, c *consumer, of control.Partitions) (any, error) {
		return control.Answered(of.Partitions, func(partition control.Partition) (int64, error) {
			return listedOffset(ctx, c.admin, partition, control.Where{Word: word})
		})
	}
}

func listedOffset(ctx context.Context, client *kadm.Client, partition control.Partition, where control.Where) (int64, error) {
	found, err := listed(ctx, partition, listerOf(client, where))
	return found.Offset, err
}

// listed picks one partition of what kadm lists, which is whole topics.
func listed(ctx context.Context, partition control.Partition, list lister) (kadm.ListedOffset, error) {
	all, err := list(ctx, partition.Topic)
	if err != nil {
		return kadm.ListedOffset{}, err
	}
	found, ok := all.Lookup(partition.Topic, partition.Index)
	if !ok {
		return found, kerr.UnknownTopicOrPartition
	}
	return found, found.Err
}
