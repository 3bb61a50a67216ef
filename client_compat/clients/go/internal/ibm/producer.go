package ibm

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

type producer struct {
	async   sarama.AsyncProducer
	json    bool
	unacked bool
	closed  chan struct{} // once every answer was delivered
}

// ticket travels with a message, so that its answer finds the request that waits for it.
type ticket struct {
	partition *int32 // nil: the partitioner chooses
	answer    chan any
}

func (p *program) addProducer(ops map[string]control.Op) {
	ops["producer.open"] = control.Do(p.openProducer)
	ops["producer.send"] = control.On(&p.producers, send)
	ops["producer.begin"] = control.DoOn(&p.producers, inTransaction(sarama.AsyncProducer.BeginTxn))
	ops["producer.commit"] = control.DoOn(&p.producers, inTransaction(sarama.AsyncProducer.CommitTxn))
	ops["producer.abort"] = control.DoOn(&p.producers, inTransaction(sarama.AsyncProducer.AbortTxn))
	ops["producer.send_offsets"] = control.DoOn(&p.producers, p.sendOffsets)
	ops["producer.close"] = control.Close(&p.producers, (*producer).close)
}

func (p *program) openProducer(_ context.Context, open control.ProducerOpen) error {
	config, err := producerConfig(open)
	if err != nil {
		return err
	}
	async, err := sarama.NewAsyncProducer([]string{open.Bootstrap}, config)
	if err != nil {
		return err
	}
	opened := &producer{
		async:   async,
		json:    open.Serializer != nil,
		unacked: config.Producer.RequiredAcks == sarama.NoResponse,
		closed:  make(chan struct{}),
	}
	go opened.deliver()
	p.producers.Put(open.Handle, opened)
	return nil
}

// deliver brings every answer to its ticket until the producer is closed.
func (p *producer) deliver() {
	defer close(p.closed)
	successes, failures := p.async.Successes(), p.async.Errors()
	for successes != nil || failures != nil {
		select {
		case message, open := <-successes:
			if !open {
				successes = nil
				continue
			}
			message.Metadata.(ticket).answer <- p.sent(message)
		case failure, open := <-failures:
			if !open {
				failures = nil
				continue
			}
			failure.Msg.Metadata.(ticket).answer <- control.Failed{Error: control.Explain(explain).Failure(failure.Err)}
		}
	}
}

func (p *producer) sent(message *sarama.ProducerMessage) control.Sent {
	sent := control.Sent{Partition: message.Partition, Offset: message.Offset}
	if p.unacked {
		sent.Offset = -1 // sarama leaves it undefined
	}
	if !message.Timestamp.IsZero() {
		sent.Timestamp = control.Known(message.Timestamp.UnixMilli())
	}
	return sent
}

func send(ctx context.Context, producer *producer, send control.Send) (any, error) {
	return control.SendEach(ctx, send, func(record control.Record, answer chan any) (any, error) {
		select {
		case producer.async.Input() <- producer.message(send.Topic, record, answer):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

func (p *producer) message(topic string, record control.Record, answer chan any) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{Topic: topic, Metadata: ticket{record.Partition, answer}}
	if record.Key != nil {
		message.Key = sarama.ByteEncoder(record.Key)
	}
	if record.Value != nil {
		message.Value = sarama.ByteEncoder(record.Value)
		if p.json {
			message.Value = &jsonEncoder{text: record.Value}
		}
	}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
	}
	if record.Timestamp != nil {
		message.Timestamp = time.UnixMilli(*record.Timestamp)
	}
	return message
}

func inTransaction(step func(sarama.AsyncProducer) error) func(context.Context, *producer, control.Object) error {
	return func(_ context.Context, producer *producer, _ control.Object) error {
		return step(producer.async)
	}
}

func (p *program) sendOffsets(_ context.Context, producer *producer, send control.SendOffsets) error {
	consumer, err := p.consumers.Get(send.Consumer)
	if err != nil {
		return err
	}
	if consumer.open.Group == nil {
		return fmt.Errorf("the consumer has no group")
	}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for _, offset := range send.Offsets {
		at := &sarama.PartitionOffsetMetadata{Partition: offset.Index, Offset: offset.Number, LeaderEpoch: -1}
		offsets[offset.Topic] = append(offsets[offset.Topic], at)
	}
	return producer.async.AddOffsetsToTxnWithGroupMetadata(offsets, consumer.groupMetadata())
}

// close flushes. sarama's own Close would read the answers that are deliver's.
func (p *producer) close() error {
	p.async.AsyncClose()
	<-p.closed
	return nil
}
