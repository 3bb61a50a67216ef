package segmentio

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"

	"ottla/clients/go/internal/control"
	"ottla/clients/go/internal/inbox"
)

// readers are one Reader for each partition of one's own.
type readers struct {
	*opened
	inbox *inbox.Inbox[kafka.Message]
	each  map[control.Partition]*partitionReader
}

type partitionReader struct {
	reader  *kafka.Reader
	stop    context.CancelFunc
	stopped chan struct{}
}

func read(ctx context.Context, o *opened, partitions []control.Partition) (*readers, error) {
	place := func(message kafka.Message) (control.Partition, int64) {
		return control.Partition{Topic: message.Topic, Index: int32(message.Partition)}, message.Offset
	}
	committed, err := o.fetch(ctx, partitions)
	if err != nil {
		return nil, err
	}
	r := &readers{opened: o, inbox: inbox.New(place), each: map[control.Partition]*partitionReader{}}
	for _, partition := range partitions {
		start := o.config.StartOffset
		if offset, ok := committed[partition]; ok {
			start = offset.CommittedOffset
		}
		if err := r.start(partition, start); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

func (r *readers) start(partition control.Partition, offset int64) error {
	config := r.config
	config.Topic, config.Partition = partition.Topic, int(partition.Index)
	config.StartOffset = 0 // for groups only
	reader := kafka.NewReader(config)
	// Zero is its word for the first offset as well as an offset.
	if offset != 0 {
		if err := reader.SetOffset(offset); err != nil {
			return errors.Join(err, reader.Close())
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	started := &partitionReader{reader: reader, stop: stop, stopped: make(chan struct{})}
	r.each[partition] = started
	go func() {
		defer close(started.stopped)
		for {
			message, err := reader.FetchMessage(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				r.inbox.Fail(err)
				return
			}
			if !r.inbox.Put(ctx.Done(), message) {
				return
			}
		}
	}()
	return nil
}

func (r *readers) end(partition control.Partition) error {
	reader, ok := r.each[partition]
	if !ok {
		return kafka.UnknownTopicOrPartition
	}
	delete(r.each, partition)
	reader.stop()
	<-reader.stopped
	r.inbox.Drop(partition)
	return reader.reader.Close()
}

func (r *readers) poll(ctx context.Context, count int) ([]kafka.Message, error) {
	return r.inbox.Take(ctx, count)
}

func (r *readers) commit(ctx context.Context, commit control.Commit) error {
	if commit.Mode == "async" {
		return control.Unsupported("commits when it is told to, or all commits by a timer")
	}
	offsets := commit.Offsets
	if offsets == nil {
		for partition, at := range r.inbox.Positions() {
			offsets = append(offsets, control.Offset{Partition: partition, Where: control.Where{Number: at}})
		}
	}
	return r.alter(ctx, offsets)
}

func (r *readers) position(partition control.Partition) (int64, bool) {
	return r.inbox.Position(partition)
}

// seek begins anew: a message that was fetched before may be on its way.
func (r *readers) seek(partition control.Partition, offset int64) error {
	if err := r.end(partition); err != nil {
		return err
	}
	if offset >= 0 {
		r.inbox.Move(partition, offset)
	}
	return r.start(partition, offset)
}

func (r *readers) close() error {
	var errs []error
	for partition := range r.each {
		errs = append(errs, r.end(partition))
	}
	return errors.Join(errs...)
}
