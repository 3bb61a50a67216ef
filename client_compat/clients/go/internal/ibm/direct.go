package ibm

import (
	"context"
	"errors"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

// direct is one PartitionConsumer for each partition of one's own.
type direct struct {
	consumer  *consumer
	sarama    sarama.Consumer
	consumers map[control.Partition]sarama.PartitionConsumer
	stops     map[control.Partition]context.CancelFunc
}

func consume(c *consumer, partitions []control.Partition) (*direct, error) {
	consuming, err := sarama.NewConsumerFromClient(c.client)
	if err != nil {
		return nil, err
	}
	d := &direct{
		consumer:  c,
		sarama:    consuming,
		consumers: map[control.Partition]sarama.PartitionConsumer{},
		stops:     map[control.Partition]context.CancelFunc{},
	}
	committed, err := c.committedOffsets(partitions)
	if err != nil {
		return nil, err
	}
	for _, partition := range partitions {
		start := c.client.Config().Consumer.Offsets.Initial
		if at, ok := committed[partition]; ok {
			start = at.Offset
		}
		if err := d.start(partition, start); err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	return d, nil
}

func (d *direct) start(partition control.Partition, offset int64) error {
	consuming, err := d.sarama.ConsumePartition(partition.Topic, partition.Index, offset)
	if err != nil {
		return d.explained(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	d.consumers[partition], d.stops[partition] = consuming, stop
	go func() {
		for message := range consuming.Messages() {
			if !d.consumer.inbox.Put(ctx.Done(), message) {
				return
			}
		}
	}()
	go func() {
		for err := range consuming.Errors() {
			if !passing(err) {
				d.consumer.inbox.Fail(d.explained(err))
			}
		}
	}()
	return nil
}

// explained says what an error means where going on was asked for.
func (d *direct) explained(err error) error {
	if d.consumer.open.Reset != nil && errors.Is(err, sarama.ErrOffsetOutOfRange) {
		return control.Unsupported("ends a PartitionConsumer whose offset is out of range, or refuses it, and leaves it to its user to begin another")
	}
	return err
}

// seek begins anew: a PartitionConsumer cannot be moved.
func (d *direct) seek(partition control.Partition, offset int64) error {
	if err := d.end(partition); err != nil {
		return err
	}
	d.consumer.inbox.Drop(partition)
	if offset >= 0 {
		d.consumer.inbox.Move(partition, offset)
	}
	return d.start(partition, offset)
}

func (d *direct) end(partition control.Partition) error {
	consuming, ok := d.consumers[partition]
	if !ok {
		return sarama.ErrUnknownTopicOrPartition
	}
	d.stops[partition]()
	delete(d.consumers, partition)
	return consuming.Close()
}

func (d *direct) pause(partitions []control.Partition, paused bool) {
	for _, partition := range partitions {
		if consuming, ok := d.consumers[partition]; ok && paused {
			consuming.Pause()
		} else if ok {
			consuming.Resume()
		}
	}
}

func (d *direct) close() error {
	var errs []error
	for partition := range d.consumers {
		errs = append(errs, d.end(partition))
		d.consumer.inbox.Drop(partition)
	}
	return errors.Join(append(errs, d.sarama.Close())...)
}
