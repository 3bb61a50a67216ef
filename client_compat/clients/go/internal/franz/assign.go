package franz

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"ottla/clients/go/internal/control"
)

// assign consumes partitions of one's own. With a group they begin where it committed, which kgo leaves to its user.
func assign(ctx context.Context, c *consumer, to control.Partitions) error {
	starts, err := c.starts(ctx, to.Partitions)
	if err != nil {
		return err
	}
	c.mu.Lock()
	clear(c.assigned)
	clear(c.positions)
	for _, partition := range to.Partitions {
		c.assigned[partition] = true
	}
	c.mu.Unlock()
	c.direct = true
	return c.consume(starts)
}

// consume makes the client anew for partitions of its own.
func (c *consumer) consume(starts map[string]map[int32]kgo.Offset) error {
	options, err := c.options()
	if err != nil {
		return err
	}
	c.shut()
	c.client, err = kgo.NewClient(append(options, kgo.ConsumePartitions(starts))...)
	c.begins = starts
	return err
}

func (c *consumer) starts(ctx context.Context, partitions []control.Partition) (map[string]map[int32]kgo.Offset, error) {
	var committed kadm.OffsetResponses
	if c.open.Group != nil {
		found, err := c.admin.FetchOffsets(ctx, c.group())
		if err != nil {
			return nil, err
		}
		committed = found
	}
	topics := map[string]map[int32]kgo.Offset{}
	for _, partition := range partitions {
		if topics[partition.Topic] == nil {
			topics[partition.Topic] = map[int32]kgo.Offset{}
		}
		topics[partition.Topic][partition.Index] = c.firstOffset()
		if offset, ok := committed.Lookup(partition.Topic, partition.Index); ok && offset.At >= 0 {
			topics[partition.Topic][partition.Index] = kgo.NewOffset().At(offset.At)
		}
	}
	return topics, nil
}

// firstOffset is where a partition begins for which nothing was committed. The default is kgo's own: the start.
func (c *consumer) firstOffset() kgo.Offset {
	if c.open.Reset != nil {
		if start, _, err := resets(*c.open.Reset, false); err == nil {
			return start
		}
	}
	return kgo.NewOffset().AtStart()
}

func (p *program) seek(ctx context.Context, to control.Seek) error {
	c, err := p.consuming(to.Handle)
	if err != nil {
		return err
	}
	partition := control.Partition{Topic: to.Topic, Index: to.Partition}
	at, err := c.resolve(ctx, partition, to.Offset)
	if err != nil {
		return err
	}
	c.mu.Lock()
	_, moved := c.positions[partition]
	c.positions[partition] = at
	c.mu.Unlock()
	if moved || !c.direct {
		c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{to.Topic: {to.Partition: {Epoch: -1, Offset: at}}})
		return nil
	}
	// SetOffsets moves only what was polled from. Nothing was yet, so the client may as well begin elsewhere.
	return c.consume(c.beginsWith(partition, at))
}

// beginsWith is where the client would begin now: at its positions, and one partition at an offset.
func (c *consumer) beginsWith(partition control.Partition, at int64) map[string]map[int32]kgo.Offset {
	c.mu.Lock()
	defer c.mu.Unlock()
	for known, position := range c.positions {
		c.begins[known.Topic][known.Index] = kgo.NewOffset().At(position)
	}
	c.begins[partition.Topic][partition.Index] = kgo.NewOffset().At(at)
	return c.begins
}

func (c *consumer) resolve(ctx context.Context, partition control.Partition, where control.Where) (int64, error) {
	switch where.Word {
	case "beginning":
		where.Word = "earliest"
	case "end":
		where.Word = "latest"
	default:
		return where.Number, nil
	}
	return listedOffset(ctx, c.admin, partition, where)
}
