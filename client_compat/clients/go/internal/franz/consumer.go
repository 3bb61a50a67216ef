package franz

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"ottla/clients/go/internal/control"
)

// consumer is a kgo client that is made when it is told what to consume: kgo takes the group and the kind of consuming only at its
// making, and refuses partitions of one's own in a group.
type consumer struct {
	open   control.ConsumerOpen
	admin  *kadm.Client                    // for offsets, which kgo has no methods for
	client *kgo.Client                     // nil until subscribe or assign
	direct bool                            // partitions of one's own
	begins map[string]map[int32]kgo.Offset // where those begin

	mu        sync.Mutex // kgo's callbacks come from its own goroutines
	assigned  map[control.Partition]bool
	positions map[control.Partition]int64
	// pending are records that were polled before an error was: the next poll answers them.
	pending []control.Read
}

func (p *program) addConsumer(ops map[string]control.Op) {
	ops["consumer.open"] = control.Do(p.openConsumer)
	ops["consumer.subscribe"] = control.DoOn(&p.consumers, subscribe)
	ops["consumer.assign"] = control.DoOn(&p.consumers, assign)
	ops["consumer.poll"] = control.Bind(p.poll)
	ops["consumer.assignment"] = control.On(&p.consumers, assignment)
	ops["consumer.commit"] = control.DoOn(&p.consumers, commitOffsets)
	ops["consumer.committed"] = control.On(&p.consumers, committed)
	ops["consumer.position"] = control.On(&p.consumers, position)
	ops["consumer.seek"] = control.Do(p.seek)
	ops["consumer.offsets_for_times"] = control.On(&p.consumers, offsetsForTimes)
	ops["consumer.end_offsets"] = control.On(&p.consumers, edges("latest"))
	ops["consumer.beginning_offsets"] = control.On(&p.consumers, edges("earliest"))
	ops["consumer.pause"] = control.Do(p.pause)
	ops["consumer.resume"] = control.Do(p.resume)
	ops["consumer.close"] = control.Close(&p.consumers, (*consumer).close)
}

func (p *program) openConsumer(_ context.Context, open control.ConsumerOpen) error {
	c := &consumer{open: open, assigned: map[control.Partition]bool{}, positions: map[control.Partition]int64{}}
	options, err := c.options()
	if err != nil {
		return err
	}
	// The topic is for older versions, which refuse a group without one.
	if err := kgo.ValidateOpts(append(append(options, kgo.ConsumeTopics("any")), c.groupOptions()...)...); err != nil {
		return err
	}
	if c.admin, err = kadm.NewOptClient(common(open.Open)...); err != nil {
		return err
	}
	p.consumers.Put(open.Handle, c)
	return nil
}

func (c *consumer) group() string {
	if c.open.Group == nil {
		return ""
	}
	return *c.open.Group
}

func (c *consumer) member() (string, int32) {
	if c.client == nil || c.direct {
		return "", -1
	}
	return c.client.GroupMetadata()
}

func subscribe(_ context.Context, c *consumer, to control.Subscribe) error {
	options, err := c.options()
	if err != nil {
		return err
	}
	topics := to.Topics
	if to.Pattern != "" {
		topics = []string{to.Pattern}
		options = append(options, kgo.ConsumeRegex())
	}
	options = append(append(options, kgo.ConsumeTopics(topics...)), c.groupOptions()...)
	c.shut()
	c.direct = false
	c.client, err = kgo.NewClient(options...)
	return err
}

func (p *program) poll(ctx context.Context, ask control.Poll) (any, error) {
	c, err := p.consuming(ask.Handle)
	if err != nil {
		return nil, err
	}
	for len(c.pending) < ask.Count && ctx.Err() == nil {
		fetches := c.client.PollRecords(ctx, c.pollLimit(ask.Count-len(c.pending)))
		fetches.EachRecord(c.take)
		if err := worthTelling(fetches); err != nil {
			return nil, err
		}
	}
	records := c.pending
	c.pending = nil
	return control.Records(records), nil
}

func (c *consumer) pollLimit(wanted int) int {
	if most := c.open.MaxPollRecords; most != nil && *most < wanted {
		return *most
	}
	return wanted
}

// worthTelling leaves out the end of the poll's own time and what kgo retries by itself.
func worthTelling(fetches kgo.Fetches) error {
	for _, failed := range fetches.Errors() {
		own := errors.Is(failed.Err, context.DeadlineExceeded) || errors.Is(failed.Err, context.Canceled)
		// A member goes on trying to join, whatever it was that broke its connection.
		var connection *net.OpError
		own = own || errors.As(failed.Err, &connection)
		if !own && !kerr.IsRetriable(failed.Err) && !retriedByItself(failed.Err) {
			return failed.Err
		}
	}
	return nil
}

func (c *consumer) take(record *kgo.Record) {
	read := control.Read{
		Topic:     record.Topic,
		Partition: record.Partition,
		Offset:    record.Offset,
		Key:       record.Key,
		Value:     record.Value,
		Headers:   []control.Header{},
		Timestamp: record.Timestamp.UnixMilli(),
	}
	for _, header := range record.Headers {
		read.Headers = append(read.Headers, control.Header{Name: header.Key, Value: header.Value})
	}
	switch record.Attrs.TimestampType() {
	case 0:
		read.TimestampType = control.Known("create")
	case 1:
		read.TimestampType = control.Known("append")
	}
	c.pending = append(c.pending, read)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions[control.Partition{Topic: record.Topic, Index: record.Partition}] = record.Offset + 1
}

func assignment(_ context.Context, c *consumer, _ control.Object) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var partitions []control.Partition
	for partition := range c.assigned {
		partitions = append(partitions, partition)
	}
	return control.Rows("partitions", partitions), nil
}

func (p *program) pause(_ context.Context, of control.Partitions) error {
	c, err := p.consuming(of.Handle)
	if err != nil {
		return err
	}
	c.client.PauseFetchPartitions(byTopic(of.Partitions))
	return nil
}

func (p *program) resume(_ context.Context, of control.Partitions) error {
	c, err := p.consuming(of.Handle)
	if err != nil {
		return err
	}
	c.client.ResumeFetchPartitions(byTopic(of.Partitions))
	return nil
}

// consuming returns a consumer that was told what to consume.
func (p *program) consuming(handle string) (*consumer, error) {
	c, err := p.consumers.Get(handle)
	if err == nil && c.client == nil {
		err = control.Failure{Code: "CLIENT:BAD_REQUEST", Message: "neither subscribed nor assigned"}
	}
	return c, err
}

// shut ends the client, which leaves its group.
func (c *consumer) shut() {
	if c.client != nil {
		c.client.Close()
	}
}

func (c *consumer) close() error {
	c.shut()
	c.admin.Close()
	return nil
}

func byTopic(partitions []control.Partition) map[string][]int32 {
	topics := map[string][]int32{}
	for _, partition := range partitions {
		topics[partition.Topic] = append(topics[partition.Topic], partition.Index)
	}
	return topics
}
