package segmentio

import (
	"fmt"

	"github.com/segmentio/kafka-go"

	"ottla/clients/go/internal/control"
)

var acks = map[string]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll}

var codecs = map[string]kafka.Compression{"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}

func writer(open control.ProducerOpen) (*kafka.Writer, error) {
	err := control.Missing(
		control.Lack{Asked: open.TransactionalID != nil, What: "transactions: its Writer puts no producer id into a batch"},
		control.Lack{Asked: open.Idempotent != nil && *open.Idempotent, What: "idempotent producer: its Writer puts no producer id into a batch"},
		control.Lack{Asked: open.BufferBytes != nil, What: "limit of buffered bytes"},
		control.Lack{Asked: open.MaxInFlight != nil, What: "limit in flight: a partition has one request at a time"},
		control.Lack{Asked: open.DeliveryTimeoutMS != nil, What: "delivery timeout: it gives up by attempts"},
		control.Lack{Asked: open.Serializer != nil, What: "serializer hook: a message's value is bytes"},
		control.Lack{Asked: open.Interceptor != nil, What: "interceptors"},
		control.Lack{Asked: open.MaxRequestBytes != nil && open.BatchBytes != nil, What: "limit of requests apart from that of batches"},
	)
	if err != nil {
		return nil, err
	}
	balancer, err := chooseBalancer(open.Partitioner)
	if err != nil {
		return nil, err
	}
	made := &kafka.Writer{
		Addr:      kafka.TCP(open.Bootstrap),
		Transport: transport(open.ClientID),
		Balancer:  balancer,
		// Its answers come through Completion, those of single messages too.
		Async: true,
		// kafka.NewWriter's default; a Writer made without it asks for no acknowledgements.
		RequiredAcks: kafka.RequireAll,
		// As Java's producer always does.
		AllowAutoTopicCreation: true,
	}
	if open.Acks != nil {
		made.RequiredAcks = acks[*open.Acks]
	}
	if open.Compression != nil {
		made.Compression = codecs[*open.Compression]
	}
	writerLimits(made, open)
	return made, nil
}

func writerLimits(made *kafka.Writer, open control.ProducerOpen) {
	if ms := open.LingerMS; ms != nil {
		// Zero is its word for the default, a second.
		made.BatchTimeout = max(control.Milliseconds(*ms), 1)
	}
	if n := open.BatchBytes; n != nil {
		made.BatchBytes = int64(*n)
	}
	if n := open.MaxRequestBytes; n != nil {
		made.BatchBytes = int64(*n)
	}
	if n := open.Retries; n != nil {
		made.MaxAttempts = *n + 1
	}
	if ms := open.RequestTimeoutMS; ms != nil {
		made.ReadTimeout, made.WriteTimeout = control.Milliseconds(*ms), control.Milliseconds(*ms)
	}
}

func chooseBalancer(name *string) (kafka.Balancer, error) {
	switch {
	case name == nil, *name == "default":
		return orChosen(&kafka.RoundRobin{}), nil
	case *name == "murmur2":
		return orChosen(kafka.Murmur2Balancer{}), nil
	case *name == "last":
		last := func(_ kafka.Message, partitions ...int) int { return partitions[len(partitions)-1] }
		return orChosen(kafka.BalancerFunc(last)), nil
	}
	return nil, fmt.Errorf("no partitioner %q", *name)
}

// orChosen takes the partition that the request named: a Writer has no other way to be told.
func orChosen(other kafka.Balancer) kafka.Balancer {
	return kafka.BalancerFunc(func(message kafka.Message, partitions ...int) int {
		if chosen := message.WriterData.(ticket).partition; chosen != nil {
			return int(*chosen)
		}
		return other.Balance(message, partitions...)
	})
}
