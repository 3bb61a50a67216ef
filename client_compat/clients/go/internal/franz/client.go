// Package franz is franz-go behind the control protocol: kgo for producers and consumers, kadm for the admin operations, and kmsg
// requests through kgo's own routing for the few that kadm has no method for.
package franz

import (
	"errors"
	"os"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"ottla/clients/go/internal/control"
)

type program struct {
	producers control.Handles[*producer]
	consumers control.Handles[*consumer]
	admins    control.Handles[*kadm.Client]
}

// Client returns franz-go's table of operations.
func Client() control.Client {
	p := &program{}
	ops := map[string]control.Op{}
	p.addProducer(ops)
	p.addConsumer(ops)
	p.addAdmin(ops)
	return control.Client{Name: "franz-go", Module: "github.com/twmb/franz-go", Ops: ops, Explain: explain, Close: p.close}
}

func (p *program) close() {
	for _, producer := range p.producers.Empty() {
		_ = producer.close()
	}
	for _, consumer := range p.consumers.Empty() {
		_ = consumer.close()
	}
	for _, admin := range p.admins.Empty() {
		admin.Close()
	}
}

func common(open control.Open) []kgo.Opt {
	options := append([]kgo.Opt{kgo.SeedBrokers(open.Bootstrap)}, comeIn(open.Security)...)
	if open.ClientID != "" {
		options = append(options, kgo.ClientID(open.ClientID))
	}
	// franz-go says what surprised it only in its log; a warning comes with every retry.
	level := kgo.LogLevelError
	if os.Getenv("COMPAT_DEBUG") != "" {
		level = kgo.LogLevelDebug
	}
	return append(options, kgo.WithLogger(kgo.BasicLogger(os.Stderr, level, nil)))
}

var clientErrors = map[error]string{
	kgo.ErrRecordTimeout: "ErrRecordTimeout",
	kgo.ErrRecordRetries: "ErrRecordRetries",
	kgo.ErrMaxBuffered:   "ErrMaxBuffered",
	kgo.ErrAborting:      "ErrAborting",
	kgo.ErrClientClosed:  "ErrClientClosed",
}

// explain prefers Kafka's error: kgo wraps it in its own where it gave up on it.
func explain(err error) control.Failure {
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		return control.Failure{Code: kafka.Message, Message: err.Error(), Retriable: control.Known(kafka.Retriable)}
	}
	for known, name := range clientErrors {
		if errors.Is(err, known) {
			return control.Failure{Code: "CLIENT:" + name, Message: err.Error()}
		}
	}
	return control.Failure{}
}
