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
	ops["producer.send"] = control.Bind(p.send)
	ops["producer.close"] = control.Do(p.closeProducer)
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

func (p *program) send(ctx context.Context, send control.Send) (any, error) {
	producer, err := p.producers.Get(send.Handle)
	if err != nil {
		return nil, err
	}
	to := producer.batching
	if send.Mode == "sync" {
		to = producer.single
	}
	results := make([]any, len(send.Records))
	answers := make([]chan any, len(send.Records))
	for i, record := range send.Records {
		answers[i] = make(chan any, 1)
		if err := to.WriteMessages(ctx, toMessage(send.Topic, record, answers[i])); err != nil {
			// Refused before it was in a batch: no Completion comes for it.
			results[i] = control.Failed{Error: control.Explain(explain).Failure(err)}
			continue
		}
		if send.Mode == "sync" {
			if results[i], err = awaited(ctx, answers[i]); err != nil {
				return nil, err
			}
		}
	}
	for i := range results {
		if results[i] == nil {
			if results[i], err = awaited(ctx, answers[i]); err != nil {
				return nil, err
			}
		}
	}
	return control.Rows("results", results), nil
}

func awaited(ctx context.Context, answer chan any) (any, error) {
	select {
	case result := <-answer:
		return result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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

func (p *program) closeProducer(_ context.Context, of control.Handle) error {
	producer, err := p.producers.Take(of.Handle)
	if err != nil {
		return err
	}
	return producer.close()
}

func (p *producer) close() error { return errors.Join(p.batching.Close(), p.single.Close()) }
