// Package segmentio is kafka-go behind the control protocol: its Writer, Reader and Client.
package segmentio

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go"

	"ottla/clients/go/internal/control"
)

type program struct {
	producers control.Handles[*producer]
	consumers control.Handles[consumer]
	admins    control.Handles[*kafka.Client]
}

const noTransactions = "has no transactions: its Writer puts no producer id into a batch"

// Client returns kafka-go's table of operations.
func Client() control.Client {
	p := &program{}
	ops := map[string]control.Op{}
	p.addProducer(ops)
	p.addConsumer(ops)
	p.addAdmin(ops)
	lacks := map[string]string{
		"producer.begin":             noTransactions,
		"producer.commit":            noTransactions,
		"producer.abort":             noTransactions,
		"producer.send_offsets":      noTransactions,
		"consumer.assignment":        "does not tell what a Reader was assigned",
		"consumer.pause":             "cannot pause a Reader",
		"consumer.resume":            "cannot pause a Reader",
		"admin.delete_records":       "has no DeleteRecords",
		"admin.describe_producers":   "has no DescribeProducers",
		"admin.list_transactions":    "has no ListTransactions",
		"admin.describe_transaction": "has no DescribeTransactions",
		"admin.abort_transaction":    "has no WriteTxnMarkers",
	}
	return control.Client{Name: "kafka-go", Module: "github.com/segmentio/kafka-go", Ops: ops, Lacks: lacks, Explain: explain, Close: p.close}
}

func (p *program) close() {
	for _, producer := range p.producers.Empty() {
		_ = producer.close()
	}
	for _, consumer := range p.consumers.Empty() {
		_ = consumer.close()
	}
}

func transport(clientID string) *kafka.Transport { return &kafka.Transport{ClientID: clientID} }

func client(bootstrap, clientID string) *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(bootstrap), Transport: transport(clientID)}
}

// explain: kafka-go calls an error temporary where Kafka calls it retriable.
func explain(err error) control.Failure {
	var number kafka.Error
	if errors.As(err, &number) {
		failure := control.Numbered(int16(number), err.Error())
		failure.Retriable = control.Known(number.Temporary())
		return failure
	}
	// Of one message, for each is written by a call of its own.
	var writes kafka.WriteErrors
	if errors.As(err, &writes) && len(writes) == 1 {
		return explain(writes[0])
	}
	var large kafka.MessageTooLargeError
	if errors.As(err, &large) {
		return control.Failure{Code: "CLIENT:MessageTooLargeError", Message: err.Error()}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return control.Failure{Code: "CLIENT:EOF", Message: err.Error()}
	}
	return control.Failure{}
}

const retryAfter = 250 * time.Millisecond

// passing errors are of a broker that is away for a while: a Reader gives them, and is asked again.
func passing(ctx context.Context, err error) bool {
	var connection *net.OpError
	if !errors.As(err, &connection) {
		return false
	}
	select {
	case <-ctx.Done():
	case <-time.After(retryAfter):
	}
	return true
}

func ended(ctx context.Context, err error) bool { return err != nil && ctx.Err() != nil }
