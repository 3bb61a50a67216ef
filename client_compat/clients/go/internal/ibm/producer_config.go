package ibm

import (
	"fmt"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

var acks = map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func producerConfig(open control.ProducerOpen) (*sarama.Config, error) {
	idempotent := open.Idempotent != nil && *open.Idempotent || open.TransactionalID != nil
	err := control.Missing(
		control.Lack{Asked: idempotent && open.MaxInFlight != nil && *open.MaxInFlight != 1, What: "idempotence with more than one request in flight"},
		control.Lack{Asked: open.BatchBytes != nil && open.MaxRequestBytes != nil, What: "limit of requests apart from that of batches"},
		control.Lack{Asked: open.BufferBytes != nil, What: "limit of buffered bytes: its channels count messages"},
		control.Lack{Asked: open.DeliveryTimeoutMS != nil, What: "delivery timeout: it gives up by retries"},
	)
	if err != nil {
		return nil, err
	}
	partitioner, err := choosePartitioner(open.Partitioner)
	if err != nil {
		return nil, err
	}
	config := settings(open.Open)
	config.Producer.Partitioner = partitioner
	if idempotent {
		// sarama refuses idempotence with anything else.
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
	}
	if open.Acks != nil {
		config.Producer.RequiredAcks = acks[*open.Acks]
	}
	if open.TransactionalID != nil {
		config.Producer.Transaction.ID = *open.TransactionalID
	}
	if open.Compression != nil {
		config.Producer.Compression = codecs[*open.Compression]
	}
	if open.Interceptor != nil {
		config.Producer.Interceptors = []sarama.ProducerInterceptor{interceptor{}}
	}
	producerLimits(config, open)
	return config, nil
}

func producerLimits(config *sarama.Config, open control.ProducerOpen) {
	if ms := open.TransactionTimeoutMS; ms != nil {
		config.Producer.Transaction.Timeout = control.Milliseconds(*ms)
	}
	if ms := open.LingerMS; ms != nil {
		config.Producer.Flush.Frequency = control.Milliseconds(*ms)
	}
	if n := open.BatchBytes; n != nil {
		// Flush.Bytes only says when a batch is worth sending.
		config.Producer.MaxMessageBytes = *n
	}
	if n := open.MaxInFlight; n != nil {
		config.Net.MaxOpenRequests = *n
	}
	if n := open.Retries; n != nil {
		config.Producer.Retry.Max = *n
	}
	if ms := open.RequestTimeoutMS; ms != nil {
		config.Producer.Timeout = control.Milliseconds(*ms)
		config.Net.ReadTimeout = control.Milliseconds(*ms)
	}
	if n := open.MaxRequestBytes; n != nil {
		config.Producer.MaxMessageBytes = *n
	}
}

type interceptor struct{}

// OnSend implements sarama.ProducerInterceptor.
func (interceptor) OnSend(message *sarama.ProducerMessage) {
	header := sarama.RecordHeader{Key: []byte(control.InterceptedHeader), Value: []byte(control.InterceptedValue)}
	message.Headers = append(message.Headers, header)
}

// jsonEncoder is a sarama.Encoder; sarama asks for the length apart from the bytes.
type jsonEncoder struct{ text []byte }

func (e *jsonEncoder) Encode() ([]byte, error) { return control.CompactJSON(e.text) }

func (e *jsonEncoder) Length() int {
	encoded, err := e.Encode()
	if err != nil {
		return 0
	}
	return len(encoded)
}

func choosePartitioner(name *string) (sarama.PartitionerConstructor, error) {
	if name == nil {
		return orChosen(sarama.NewConfig().Producer.Partitioner), nil
	}
	switch *name {
	case "default":
		return orChosen(sarama.NewConfig().Producer.Partitioner), nil
	case "murmur2":
		return orChosen(sarama.NewMurmur2Partitioner), nil
	case "last":
		return orChosen(func(string) sarama.Partitioner { return last{} }), nil
	}
	return nil, fmt.Errorf("no partitioner %q", *name)
}

type last struct{}

func (last) Partition(_ *sarama.ProducerMessage, count int32) (int32, error) { return count - 1, nil }
func (last) RequiresConsistency() bool                                       { return true }

// orChosen takes the partition that the request named, which only sarama's manual partitioner would do, and else asks the other one.
func orChosen(make sarama.PartitionerConstructor) sarama.PartitionerConstructor {
	return func(topic string) sarama.Partitioner { return chooser{make(topic)} }
}

type chooser struct{ sarama.Partitioner }

func (c chooser) Partition(message *sarama.ProducerMessage, count int32) (int32, error) {
	if chosen := message.Metadata.(ticket).partition; chosen != nil {
		return *chosen, nil
	}
	return c.Partitioner.Partition(message, count)
}

// MessageRequiresConsistency implements sarama.DynamicConsistencyPartitioner.
func (c chooser) MessageRequiresConsistency(message *sarama.ProducerMessage) bool {
	if message.Metadata.(ticket).partition != nil {
		return true
	}
	if dynamic, ok := c.Partitioner.(sarama.DynamicConsistencyPartitioner); ok {
		return dynamic.MessageRequiresConsistency(message)
	}
	return c.RequiresConsistency()
}
