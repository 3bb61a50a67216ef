package ibm

import (
	"context"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"ottla/clients/go/internal/control"
)

func comeIn(config *sarama.Config, security *control.Security) {
	if security == nil {
		return
	}
	encrypted := security.TLS()
	config.Net.TLS.Enable, config.Net.TLS.Config = encrypted != nil, encrypted
	if security.Mechanism == "" {
		return
	}
	login := &config.Net.SASL
	login.Enable, login.Mechanism = true, sarama.SASLMechanism(security.Mechanism)
	login.User, login.Password = security.User, security.Secret()
	if security.Token != nil {
		login.TokenProvider = bearer(*security.Token)
	}
	hash := scram.SHA256
	if login.Mechanism == sarama.SASLTypeSCRAMSHA512 {
		hash = scram.SHA512
	}
	login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: hash} }
}

type bearer string

// Token implements sarama.AccessTokenProvider.
func (b bearer) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(b)}, nil
}

// conversation is the SCRAM client that sarama leaves to its user to bring.
type conversation struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

// Begin implements sarama.SCRAMClient.
func (c *conversation) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	c.ClientConversation = client.NewConversation()
	return nil
}

func connect(_ context.Context, to control.Connect) (any, error) {
	client, err := sarama.NewClient([]string{to.Bootstrap}, settings(control.Open{Security: to.Security}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return map[string]any{"brokers": len(client.Brokers())}, nil
}
