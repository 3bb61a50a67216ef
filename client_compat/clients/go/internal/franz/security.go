package franz

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"ottla/clients/go/internal/control"
)

func comeIn(security *control.Security) (options []kgo.Opt) {
	if security == nil {
		return nil
	}
	if config := security.TLS(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism := mechanismOf(security); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options
}

func mechanismOf(security *control.Security) sasl.Mechanism {
	password := security.Secret()
	switch security.Mechanism {
	case "PLAIN":
		return plain.Auth{User: security.User, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: security.User, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: security.User, Pass: password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: *security.Token}.AsMechanism()
	}
	return nil
}

func connect(ctx context.Context, to control.Connect) (any, error) {
	options := common(control.Open{Bootstrap: to.Bootstrap, Security: to.Security})
	client, err := kgo.NewClient(append(options, kgo.RequestRetries(1))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	brokers, err := kadm.NewClient(client).ListBrokers(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"brokers": len(brokers)}, nil
}
