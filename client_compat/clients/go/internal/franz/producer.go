package franz

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"ottla/clients/go/internal/control"
)

type producer struct {
	client        *kgo.Client
	transactional *string
	unacked       bool // acks 0
	// What the open transaction holds.
	records, offsets bool
}

func (p *program) addProducer(ops map[string]control.Op) {
	ops["producer.open"] = control.Do(p.openProducer)
	ops["producer.send"] = control.On(&p.producers, send)
	ops["producer.begin"] = control.DoOn(&p.producers, begin)
	ops["producer.commit"] = control.DoOn(&p.producers, commit)
	ops["producer.abort"] = control.DoOn(&p.producers, abort)
	ops["producer.send_offsets"] = control.DoOn(&p.producers, p.sendOffsets)
	ops["producer.close"] = control.Close(&p.producers, (*producer).close)
}

func (p *program) openProducer(ctx context.Context, open control.ProducerOpen) error {
	options, err := producerOptions(open)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	if open.TransactionalID != nil {
		// kgo initialises with the first record; ProducerID does it now.
		if _, _, err := client.ProducerID(ctx); err != nil {
			client.Close()
			return err
		}
	}
	unacked := open.Acks != nil && *open.Acks == "0"
	p.producers.Put(open.Handle, &producer{client: client, transactional: open.TransactionalID, unacked: unacked})
	return nil
}

func send(ctx context.Context, producer *producer, send control.Send) (any, error) {
	producer.records = true
	results := make([]any, len(send.Records))
	if send.Mode == "sync" {
		for i, record := range send.Records {
			sent, err := producer.client.ProduceSync(ctx, toRecord(send.Topic, record)).First()
			results[i] = producer.result(sent, err)
		}
		return control.Rows("results", results), nil
	}
	var answered sync.WaitGroup
	for i, record := range send.Records {
		answered.Add(1)
		producer.client.Produce(ctx, toRecord(send.Topic, record), func(sent *kgo.Record, err error) {
			results[i] = producer.result(sent, err)
			answered.Done()
		})
	}
	if err := producer.client.Flush(ctx); err != nil {
		return nil, err
	}
	answered.Wait()
	return control.Rows("results", results), nil
}

func (p *producer) result(sent *kgo.Record, err error) any {
	if err != nil {
		return control.Failed{Error: control.Explain(explain).Failure(err)}
	}
	timestamp := sent.Timestamp.UnixMilli()
	offset := sent.Offset
	if p.unacked {
		offset = -1 // kgo leaves it 0
	}
	return control.Sent{Partition: sent.Partition, Offset: offset, Timestamp: &timestamp}
}

func toRecord(topic string, from control.Record) *kgo.Record {
	record := &kgo.Record{Topic: topic, Key: from.Key, Value: from.Value}
	for _, header := range from.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
	}
	if from.Timestamp != nil {
		record.Timestamp = time.UnixMilli(*from.Timestamp)
	}
	if from.Partition != nil {
		record.Partition = *from.Partition
		record.Context = context.WithValue(context.Background(), chosen{}, true)
	}
	return record
}

func (p *producer) close() error {
	p.client.Close()
	return nil
}
