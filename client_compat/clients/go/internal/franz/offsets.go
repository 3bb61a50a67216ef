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
func (p *program) commitOffsets(ctx context.Context, commit control.Commit) error {
	c, err := p.consumers.Get(commit.Handle)
	if err != nil {
		return err
	}
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

func (p *program) committed(ctx context.Context, of control.Partitions) (any, error) {
	c, err := p.consumers.Get(of.Handle)
	if err != nil {
		return nil, err
	}
	found, err := c.admin.FetchOffsets(ctx, c.group())
	if err != nil {
		return nil, err
	}
	if err := found.Error(); err != nil {
		return nil, err
	}
	var rows [][]any
	for _, partition := range of.Partitions {
		row := []any{partition.Topic, partition.Index, nil, nil}
		if offset, ok := found.Lookup(partition.Topic, partition.Index); ok && offset.At >= 0 {
			row[2], row[3] = offset.At, offset.Metadata
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
	c.mu.Lock()
	defer c.mu.Unlock()
	var rows [][]any
	for _, partition := range of.Partitions {
		at, polled := c.positions[partition]
		if !polled {
			return nil, control.Unsupported("tells no position of a partition before something was polled from it")
		}
		rows = append(rows, []any{partition.Topic, partition.Index, at})
	}
	return control.Rows("offsets", rows), nil
}

func (p *program) offsetsForTimes(ctx context.Context, of control.Times) (any, error) {
	c, err := p.consumers.Get(of.Handle)
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for _, time := range of.Times {
		found, err := listed(ctx, time.Partition, listerOf(c.admin, time.Where))
		if err != nil {
			return nil, err
		}
		row := []any{time.Topic, time.Index, nil, nil}
		// Where no record is late enough kadm gives the end offset, and no timestamp with it.
		if found.Timestamp >= 0 {
			row[2], row[3] = found.Offset, found.Timestamp
		}
		rows = append(rows, row)
	}
	return control.Rows("offsets", rows), nil
}

type lister func(context.Context, ...string) (kadm.ListedOffsets, error)

// edges answers the offsets at one end of partitions.
func (p *program) edges(word string) func(context.Context, control.Partitions) (any, error) {
	return func(ctx context.Context, of control.Partitions) (any, error) {
		c, err := p.consumers.Get(of.Handle)
		if err != nil {
			return nil, err
		}
		var rows [][]any
		for _, partition := range of.Partitions {
			found, err := listed(ctx, partition, listerOf(c.admin, control.Where{Word: word}))
			if err != nil {
				return nil, err
			}
			rows = append(rows, []any{partition.Topic, partition.Index, found.Offset})
		}
		return control.Rows("offsets", rows), nil
	}
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
