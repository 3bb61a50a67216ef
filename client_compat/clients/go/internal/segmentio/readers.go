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

// partitionReader is one Reader and the goroutine that empties it.
type partitionReader struct {
	*kafka.Reader
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
	// A Reader that does not say so would ask for the same offset for ever.
	config.OffsetOutOfRangeError = true
	made, err := newReader(config)
	if err != nil {
		return err
	}
	reader := &partitionReader{Reader: made}
	r.each[partition] = reader
	return r.from(reader, offset)
}

// from reads from an offset on.
func (r *readers) from(reader *partitionReader, offset int64) error {
	// A new Reader's zero is its word for the first offset as well.
	if offset != 0 || reader.stopped != nil {
		if err := reader.SetOffset(offset); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	reader.stop, reader.stopped = stop, stopped
	go func() {
		defer close(stopped)
		r.pump(ctx, reader.Reader)
	}()
	return nil
}

func (r *readers) pump(ctx context.Context, reader *kafka.Reader) {
	for {
		message, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if passing(ctx, err) {
			continue
		}
		if errors.Is(err, kafka.OffsetOutOfRange) && r.open.Reset != nil {
			err = control.Unsupported("goes nowhere from an offset out of range: its user has to set another")
		}
		if err != nil {
			r.inbox.Fail(err)
			return
		}
		if !r.inbox.Put(ctx.Done(), message) {
			return
		}
	}
}

func (p *partitionReader) halt() {
	if p.stopped != nil {
		p.stop()
		<-p.stopped
	}
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

func (r *readers) seek(partition control.Partition, offset int64) error {
	reader, ok := r.each[partition]
	if !ok {
		return kafka.UnknownTopicOrPartition
	}
	reader.halt()
	r.inbox.Drop(partition)
	if offset >= 0 {
		r.inbox.Move(partition, offset)
	}
	return r.from(reader, offset)
}

// close leaves the Readers to close by themselves: each waits for its last fetch, ten seconds by default, and nobody for it.
func (r *readers) close() error {
	for _, reader := range r.each {
		reader.halt()
		go func() { _ = reader.Close() }()
	}
	return nil
}
