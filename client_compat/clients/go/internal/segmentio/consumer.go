package segmentio

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"

	"ottla/clients/go/internal/control"
)

// consumer is what a handle stands for: first what was opened, then a member of a group or readers of partitions. kafka-go makes a
// Reader for one of the two.
type consumer interface {
	poll(ctx context.Context, count int) ([]kafka.Message, error)
	commit(ctx context.Context, commit control.Commit) error
	position(partition control.Partition) (int64, bool)
	seek(partition control.Partition, offset int64) error
	close() error
	base() *opened
}

// opened is a consumer that was not told yet what to consume.
type opened struct {
	open   control.ConsumerOpen
	config kafka.ReaderConfig
	client *kafka.Client
}

var errIdle = control.Failure{Code: "CLIENT:BAD_REQUEST", Message: "neither subscribed nor assigned"}

func (o *opened) base() *opened                                      { return o }
func (o *opened) poll(context.Context, int) ([]kafka.Message, error) { return nil, errIdle }
func (o *opened) position(control.Partition) (int64, bool)           { return 0, false }
func (o *opened) seek(control.Partition, int64) error                { return errIdle }
func (o *opened) commit(ctx context.Context, c control.Commit) error { return o.alter(ctx, c.Offsets) }
func (o *opened) close() error                                       { return nil }

func (p *program) addConsumer(ops map[string]control.Op) {
	ops["consumer.open"] = control.Do(p.openConsumer)
	ops["consumer.subscribe"] = control.DoOn(&p.consumers, p.subscribe)
	ops["consumer.assign"] = control.DoOn(&p.consumers, p.assign)
	ops["consumer.poll"] = control.On(&p.consumers, poll)
	ops["consumer.commit"] = control.DoOn(&p.consumers, commitOffsets)
	ops["consumer.committed"] = control.On(&p.consumers, committed)
	ops["consumer.position"] = control.On(&p.consumers, position)
	ops["consumer.seek"] = control.DoOn(&p.consumers, seek)
	ops["consumer.offsets_for_times"] = control.On(&p.consumers, offsetsForTimes)
	ops["consumer.end_offsets"] = control.On(&p.consumers, edges(kafka.LastOffset))
	ops["consumer.beginning_offsets"] = control.On(&p.consumers, edges(kafka.FirstOffset))
	ops["consumer.close"] = control.Close(&p.consumers, consumer.close)
}

func (p *program) openConsumer(_ context.Context, open control.ConsumerOpen) error {
	config, err := readerConfig(open)
	if err != nil {
		return err
	}
	p.consumers.Put(open.Handle, &opened{open: open, config: config, client: client(open.Bootstrap, open.ClientID)})
	return nil
}

func (p *program) subscribe(_ context.Context, c consumer, to control.Subscribe) error {
	if to.Pattern != "" {
		return control.Unsupported("subscribes to no pattern: a Reader takes names")
	}
	if c.base().open.Group == nil {
		return control.Unsupported("subscribes only as a member of a group: a Reader without one has one partition")
	}
	if err := c.close(); err != nil {
		return err
	}
	joined, err := join(c.base(), to.Topics)
	if err != nil {
		return err
	}
	p.consumers.Put(to.Handle, joined)
	return nil
}

func (p *program) assign(ctx context.Context, c consumer, to control.Partitions) error {
	if err := c.close(); err != nil {
		return err
	}
	reading, err := read(ctx, c.base(), to.Partitions)
	if err != nil {
		return err
	}
	p.consumers.Put(to.Handle, reading)
	return nil
}

func poll(ctx context.Context, c consumer, ask control.Poll) (any, error) {
	messages, err := c.poll(ctx, ask.Count)
	if err != nil {
		return nil, err
	}
	var records []control.Read
	for _, message := range messages {
		records = append(records, toRead(message))
	}
	return control.Records(records), nil
}

func toRead(message kafka.Message) control.Read {
	read := control.Read{
		Topic:     message.Topic,
		Partition: int32(message.Partition),
		Offset:    message.Offset,
		Key:       message.Key,
		Value:     message.Value,
		Headers:   []control.Header{},
		Timestamp: message.Time.UnixMilli(),
	}
	for _, header := range message.Headers {
		read.Headers = append(read.Headers, control.Header{Name: header.Key, Value: header.Value})
	}
	return read
}

var balancers = map[string]kafka.GroupBalancer{"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}}

func readerConfig(open control.ConsumerOpen) (kafka.ReaderConfig, error) {
	config := kafka.ReaderConfig{Brokers: []string{open.Bootstrap}}
	sticky := open.Assignor != nil && balancers[*open.Assignor] == nil
	err := control.Missing(
		control.Lack{Asked: open.GroupProtocol != nil && *open.GroupProtocol == "consumer", What: "KIP-848 groups"},
		control.Lack{Asked: open.InstanceID != nil, What: "static membership in its Reader"},
		control.Lack{Asked: sticky, What: "sticky assignors: its Reader gives all back in every rebalance"},
		control.Lack{Asked: open.Reset != nil && *open.Reset == "none", What: "way to begin nowhere: StartOffset is the first or the last"},
		control.Lack{Asked: open.MaxPollRecords != nil, What: "polls, and so no limit of one"},
		control.Lack{Asked: open.FetchMaxBytes != nil, What: "limit over partitions: each is fetched alone"},
	)
	if err != nil {
		return config, err
	}
	if open.ClientID != "" {
		config.Dialer = &kafka.Dialer{Timeout: kafka.DefaultDialer.Timeout, DualStack: true, ClientID: open.ClientID}
	}
	if open.Isolation != nil && *open.Isolation == "read_committed" {
		config.IsolationLevel = kafka.ReadCommitted
	}
	if n := open.FetchMinBytes; n != nil {
		// The most is a megabyte by default, and may not be less.
		config.MinBytes, config.MaxBytes = *n, max(*n, 1_000_000)
	}
	if n := open.PartitionFetchBytes; n != nil {
		config.MaxBytes = *n
	}
	if ms := open.FetchMaxWaitMS; ms != nil {
		config.MaxWait = control.Milliseconds(*ms)
	}
	if open.Reset != nil {
		if config.StartOffset, err = edge(*open.Reset); err != nil {
			return config, err
		}
	}
	return config, nil
}

func edge(name string) (int64, error) {
	switch name {
	case "earliest", "beginning":
		return kafka.FirstOffset, nil
	case "latest", "end":
		return kafka.LastOffset, nil
	}
	return 0, fmt.Errorf("no offset %q", name)
}
