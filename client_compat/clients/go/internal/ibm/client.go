// Package ibm is sarama behind the control protocol: its AsyncProducer, ConsumerGroup, Consumer and ClusterAdmin.
package ibm

import (
	"errors"
	"io"
	"log"
	"net"
	"os"
	"reflect"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

type program struct {
	producers control.Handles[*producer]
	consumers control.Handles[*consumer]
	admins    control.Handles[*admin]
}

// Client returns sarama's table of operations.
func Client() control.Client {
	if os.Getenv("COMPAT_DEBUG") != "" {
		sarama.Logger = log.New(os.Stderr, "sarama ", log.LstdFlags)
	}
	p := &program{}
	ops := map[string]control.Op{}
	p.addProducer(ops)
	p.addConsumer(ops)
	p.addAdmin(ops)
	lacks := map[string]string{
		"admin.abort_transaction": "has no WriteTxnMarkers: its TransactionClusterAdmin only reads",
	}
	return control.Client{Name: "sarama", Module: "github.com/IBM/sarama", Ops: ops, Lacks: lacks, Explain: explain, Close: p.close}
}

func (p *program) close() {
	for _, producer := range p.producers.Empty() {
		_ = producer.close()
	}
	for _, consumer := range p.consumers.Empty() {
		_ = consumer.close()
	}
	for _, admin := range p.admins.Empty() {
		_ = admin.Close()
	}
}

// settings speaks the newest protocol that sarama knows: it asks for no version above the one it was told the brokers have, and its
// default is 2.8.
func settings(open control.Open) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	if open.ClientID != "" {
		config.ClientID = open.ClientID
	}
	comeIn(config, open.Security)
	config.Consumer.Return.Errors = true
	config.Producer.Return.Successes = true
	return config
}

var clientErrors = map[error]string{
	sarama.ErrOutOfBrokers:             "ErrOutOfBrokers",
	sarama.ErrClosedClient:             "ErrClosedClient",
	sarama.ErrInvalidPartition:         "ErrInvalidPartition",
	sarama.ErrShuttingDown:             "ErrShuttingDown",
	sarama.ErrMessageTooLarge:          "ErrMessageTooLarge",
	sarama.ErrConsumerRetriesExhausted: "ErrConsumerRetriesExhausted",
	sarama.ErrNonTransactedProducer:    "ErrNonTransactedProducer",
	sarama.ErrTransitionNotAllowed:     "ErrTransitionNotAllowed",
	sarama.ErrTransactionNotReady:      "ErrTransactionNotReady",
}

// explain looks for Kafka's number in whatever sarama wrapped it in.
func explain(err error) control.Failure {
	var number sarama.KError
	if errors.As(err, &number) && number != sarama.ErrNoError {
		return control.Numbered(int16(number), err.Error())
	}
	var config sarama.ConfigurationError
	if errors.As(err, &config) {
		return control.Failure{Code: "CLIENT:ConfigurationError", Message: err.Error()}
	}
	for known, name := range clientErrors {
		if errors.Is(err, known) {
			return control.Failure{Code: "CLIENT:" + name, Message: err.Error()}
		}
	}
	// sarama's TopicError, DescribeError and the like carry the number in a field and do not unwrap to it.
	if value := reflect.Indirect(reflect.ValueOf(err)); value.Kind() == reflect.Struct {
		if field := value.FieldByName("Err"); field.IsValid() {
			if number, ok := field.Interface().(sarama.KError); ok && number != sarama.ErrNoError {
				return control.Numbered(int16(number), err.Error())
			}
		}
	}
	return control.Failure{}
}

// failed is nil for sarama's error of no error.
func failed(number sarama.KError) error {
	if number == sarama.ErrNoError {
		return nil
	}
	return number
}

// passing errors are of a broker that is away for a while: sarama's consumers report them and go on.
func passing(err error) bool {
	var connection *net.OpError
	return errors.As(err, &connection) || errors.Is(err, io.EOF) || errors.Is(err, sarama.ErrOutOfBrokers) ||
		errors.Is(err, sarama.ErrNotConnected) || errors.Is(err, sarama.ErrBrokerNotFound)
}
