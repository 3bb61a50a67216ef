package ibm

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
	"ottla/clients/go/internal/inbox"
)

// consumer is one sarama client, and over it either a member of a group or a PartitionConsumer for each partition of its own.
type consumer struct {
	open   control.ConsumerOpen
	client sarama.Client
	admin  sarama.ClusterAdmin
	inbox  *inbox.Inbox[*sarama.ConsumerMessage]
	member *member
	direct *direct
}

func (p *program) addConsumer(ops map[string]control.Op) {
	ops["consumer.open"] = control.Do(p.openConsumer)
	ops["consumer.subscribe"] = control.DoOn(&p.consumers, subscribe)
	ops["consumer.assign"] = control.DoOn(&p.consumers, assign)
	ops["consumer.poll"] = control.On(&p.consumers, poll)
	ops["consumer.assignment"] = control.On(&p.consumers, assignment)
	ops["consumer.commit"] = control.DoOn(&p.consumers, commitOffsets)
	ops["consumer.committed"] = control.On(&p.consumers, committed)
	ops["consumer.position"] = control.On(&p.consumers, position)
	ops["consumer.seek"] = control.DoOn(&p.consumers, seek)
	ops["consumer.offsets_for_times"] = control.On(&p.consumers, offsetsForTimes)
	ops["consumer.end_offsets"] = control.On(&p.consumers, edges(sarama.OffsetNewest))
	ops["consumer.beginning_offsets"] = control.On(&p.consumers, edges(sarama.OffsetOldest))
	ops["consumer.pause"] = control.DoOn(&p.consumers, pauses(true))
	ops["consumer.resume"] = control.DoOn(&p.consumers, pauses(false))
	ops["consumer.close"] = control.Close(&p.consumers, (*consumer).close)
}

func (p *program) openConsumer(_ context.Context, open control.ConsumerOpen) error {
	config, err := consumerConfig(open)
	if err != nil {
		return err
	}
	client, err := sarama.NewClient([]string{open.Bootstrap}, config)
	if err != nil {
		return err
	}
	// On connections of its own: a broker answers a connection's requests in order, and a long fetch would be before each of these.
	admin, err := sarama.NewClusterAdmin([]string{open.Bootstrap}, config)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	place := func(message *sarama.ConsumerMessage) (control.Partition, int64) {
		return control.Partition{Topic: message.Topic, Index: message.Partition}, message.Offset
	}
	p.consumers.Put(open.Handle, &consumer{open: open, client: client, admin: admin, inbox: inbox.New(place)})
	return nil
}

func subscribe(_ context.Context, c *consumer, to control.Subscribe) error {
	if to.Pattern != "" {
		return control.Unsupported("subscribes to no pattern: ConsumerGroup.Consume takes names")
	}
	if c.open.Group == nil {
		return control.Unsupported("subscribes only as a member of a group")
	}
	if c.member != nil {
		if err := c.member.leave(); err != nil {
			return err
		}
	}
	var err error
	c.member, err = join(c, to.Topics)
	return err
}

func assign(_ context.Context, c *consumer, to control.Partitions) error {
	if c.direct != nil {
		if err := c.direct.close(); err != nil {
			return err
		}
	}
	var err error
	c.direct, err = consume(c, to.Partitions)
	return err
}

func poll(ctx context.Context, c *consumer, ask control.Poll) (any, error) {
	if c.member == nil && c.direct == nil {
		return nil, control.Failure{Code: "CLIENT:BAD_REQUEST", Message: "neither subscribed nor assigned"}
	}
	messages, err := c.inbox.Take(ctx, ask.Count)
	if err != nil {
		return nil, err
	}
	var records []control.Read
	for _, message := range messages {
		records = append(records, read(message))
		if c.member != nil && c.autoCommits() {
			c.member.mark(message)
		}
	}
	return control.Records(records), nil
}

func (c *consumer) autoCommits() bool { return c.open.AutoCommit == nil || *c.open.AutoCommit }

func read(message *sarama.ConsumerMessage) control.Read {
	read := control.Read{
		Topic:     message.Topic,
		Partition: message.Partition,
		Offset:    message.Offset,
		Key:       message.Key,
		Value:     message.Value,
		Headers:   []control.Header{},
		Timestamp: message.Timestamp.UnixMilli(),
	}
	for _, header := range message.Headers {
		read.Headers = append(read.Headers, control.Header{Name: string(header.Key), Value: header.Value})
	}
	return read
}

func assignment(_ context.Context, c *consumer, _ control.Object) (any, error) {
	var partitions []control.Partition
	switch {
	case c.member != nil:
		partitions = c.member.claims()
	case c.direct != nil:
		partitions = slices.Collect(maps.Keys(c.direct.consumers))
	}
	return control.Rows("partitions", partitions), nil
}

// pauses stops the fetching, or lets it go on, and holds back what was fetched before.
func pauses(paused bool) func(context.Context, *consumer, control.Partitions) error {
	return func(_ context.Context, c *consumer, of control.Partitions) error {
		c.inbox.Pause(of.Partitions, paused)
		if c.member != nil {
			c.member.pause(of.Partitions, paused)
		}
		if c.direct != nil {
			c.direct.pause(of.Partitions, paused)
		}
		return nil
	}
}

func (c *consumer) close() error {
	var left, stopped error
	if c.member != nil {
		left = c.member.leave()
	}
	if c.direct != nil {
		stopped = c.direct.close()
	}
	return errors.Join(left, stopped, c.admin.Close(), c.client.Close())
}
