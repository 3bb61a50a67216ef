package segmentio

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"

	"ottla/clients/go/internal/control"
)

// producer is two Writers: one that collects batches, and one that does not wait for more than the message it was given, which is what
// kafka-go advises for sending one at a time: its default is to wait a second.
type producer struct {
	batching, single *kafka.Writer
	unacked          bool
}

// ticket travels with a message through the Writer to its Completion.
type ticket struct {
	partition *int32 // nil: the balancer chooses
	answer    chan any
}

func (p *program) addProducer(ops map[string]control.Op) {
	ops["producer.open"] = control.Do(p.openProducer)
	ops["producer.send"] = control.On(&p.producers, send)
	ops["producer.close"] = control.Close(&p.producers, (*producer).close)
}

func (p *program) openProducer(_ context.Context, open control.ProducerOpen) error {
	batching, err := writer(open)
	if err != nil {
		return err
	}
	single, err := writer(open)
	if err != nil {
		return err
	}
	single.BatchSize = 1
	opened := &producer{batching: batching, single: single, unacked: batching.RequiredAcks == kafka.RequireNone}
	batching.Completion, single.Completion = opened.completed, opened.completed
	p.producers.Put(open.Handle, opened)
	return nil
}

// completed is called with the messages of one batch, their partition and offset set.
func (p *producer) completed(messages []kafka.Message, err error) {
	for _, message := range messages {
		if err != nil {
			message.WriterData.(ticket).answer <- control.Failed{Error: control.Explain(explain).Failure(err)}
			continue
		}
		sent := control.Sent{Partition: int32(message.Partition), Offset: message.Offset}
		if p.unacked {
			sent.Offset = -1
		}
		if !message.Time.IsZero() {
			sent.Timestamp = control.Known(message.Time.UnixMilli())
		}
		message.WriterData.(ticket).answer <- sent
	}
}

func send(ctx context.Context, producer *producer, send control.Send) (any, error) {
	to := producer.batching
	if send.Mode == "sync" {
		to = producer.single
	}
	return control.SendEach(ctx, send, func(record control.Record, answer chan any) (any, error) {
		if err := to.WriteMessages(ctx, toMessage(send.Topic, record, answer)); err != nil {
			// Refused before it was in a batch: no Completion comes for it.
			return control.Failed{Error: control.Explain(explain).Failure(err)}, nil
		}
		return nil, nil
	})
}

func toMessage(topic string, record control.Record, answer chan any) kafka.Message {
	message := kafka.Message{Topic: topic, Key: record.Key, Value: record.Value, WriterData: ticket{record.Partition, answer}}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, kafka.Header{Key: header.Name, Value: header.Value})
	}
	if record.Timestamp != nil {
		message.Time = time.UnixMilli(*record.Timestamp)
	}
	return message
}

func (p *producer) close() error { return errors.Join(p.batching.Close(), p.single.Close()) }
