package franz

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"ottla/clients/go/internal/control"
)

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func producerOptions(open control.ProducerOpen) ([]kgo.Opt, error) {
	idempotent := open.Idempotent != nil && *open.Idempotent || open.Idempotent == nil && (open.Acks == nil || *open.Acks == "all")
	lacks := control.Missing(
		control.Lack{Asked: open.Serializer != nil, What: "serializer hook in its producer: a record's value is bytes"},
		control.Lack{Asked: open.BufferBytes != nil && maxBufferedBytes == nil, What: "limit in bytes of what is buffered"},
		control.Lack{Asked: open.MaxInFlight != nil && idempotent, What: "setting of the requests in flight beside idempotence"},
	)
	if lacks != nil {
		return nil, lacks
	}
	partitioner, err := choosePartitioner(open.Partitioner)
	if err != nil {
		return nil, err
	}
	// A topic is made on first use only if the producer asks for it. Java's producer always does; a user who wants that sets this.
	options := append(common(open.Open), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(partitioner))
	if open.Acks != nil {
		options = append(options, kgo.RequiredAcks(acks[*open.Acks]))
	}
	if !idempotent {
		// kgo refuses fewer acks with its default of idempotence.
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if open.TransactionalID != nil {
		options = append(options, kgo.TransactionalID(*open.TransactionalID))
	}
	if open.Compression != nil {
		options = append(options, kgo.ProducerBatchCompression(codecs[*open.Compression]))
	}
	if open.Interceptor != nil {
		options = append(options, kgo.WithHooks(interceptor{}))
	}
	return append(options, producerLimits(open)...), nil
}

func producerLimits(open control.ProducerOpen) (options []kgo.Opt) {
	add := func(value *int, option func(int) kgo.Opt) {
		if value != nil {
			options = append(options, option(*value))
		}
	}
	add(open.TransactionTimeoutMS, func(ms int) kgo.Opt { return kgo.TransactionTimeout(control.Milliseconds(ms)) })
	add(open.LingerMS, func(ms int) kgo.Opt { return kgo.ProducerLinger(control.Milliseconds(ms)) })
	add(open.BufferBytes, maxBufferedBytes)
	add(open.Retries, func(n int) kgo.Opt { return kgo.RecordRetries(n) })
	add(open.RequestTimeoutMS, func(ms int) kgo.Opt { return kgo.ProduceRequestTimeout(control.Milliseconds(ms)) })
	add(open.DeliveryTimeoutMS, func(ms int) kgo.Opt { return kgo.RecordDeliveryTimeout(control.Milliseconds(ms)) })
	add(open.MaxRequestBytes, func(n int) kgo.Opt { return kgo.BrokerMaxWriteBytes(int32(n)) })
	if open.BatchBytes == nil {
		// kgo refuses a batch that may be larger than a request.
		add(open.MaxRequestBytes, func(n int) kgo.Opt { return kgo.ProducerBatchMaxBytes(int32(n)) })
	}
	return options
}

type interceptor struct{}

// OnProduceRecordBuffered is kgo's place for what other clients call an interceptor.
func (interceptor) OnProduceRecordBuffered(record *kgo.Record) {
	header := kgo.RecordHeader{Key: control.InterceptedHeader, Value: []byte(control.InterceptedValue)}
	record.Headers = append(record.Headers, header)
}

func choosePartitioner(name *string) (kgo.Partitioner, error) {
	switch {
	case name == nil, *name == "default":
		// kgo's default, by its documentation; it has to be named because explicit partitions are wrapped around it.
		return orChosen{kgo.UniformBytesPartitioner(64<<10, true, true, nil)}, nil
	case *name == "murmur2":
		return orChosen{kgo.StickyKeyPartitioner(nil)}, nil
	case *name == "last":
		last := func(string) func(*kgo.Record, int) int { return func(_ *kgo.Record, n int) int { return n - 1 } }
		return orChosen{kgo.BasicConsistentPartitioner(last)}, nil
	}
	return nil, fmt.Errorf("no partitioner %q", *name)
}
