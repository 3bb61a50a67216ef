package ibm

import (
	"fmt"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"sticky":             sarama.NewBalanceStrategySticky,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

func consumerConfig(open control.ConsumerOpen) (*sarama.Config, error) {
	err := control.Missing(
		control.Lack{Asked: open.GroupProtocol != nil && *open.GroupProtocol == "consumer", What: "KIP-848 groups"},
		control.Lack{Asked: open.Reset != nil && *open.Reset == "none", What: "way to begin nowhere: Offsets.Initial is the oldest or the newest"},
		control.Lack{Asked: open.MaxPollRecords != nil, What: "polls, and so no limit of one"},
	)
	if err != nil {
		return nil, err
	}
	config := settings(open.Open)
	if open.Reset != nil && *open.Reset == "earliest" {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	if open.Isolation != nil && *open.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	if open.InstanceID != nil {
		config.Consumer.Group.InstanceId = *open.InstanceID
	}
	if open.Assignor != nil {
		strategy, known := strategies[*open.Assignor]
		if !known {
			return nil, fmt.Errorf("no assignor %q", *open.Assignor)
		}
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy()}
	}
	if open.AutoCommit != nil {
		config.Consumer.Offsets.AutoCommit.Enable = *open.AutoCommit
	}
	consumerLimits(config, open)
	return config, nil
}

func consumerLimits(config *sarama.Config, open control.ConsumerOpen) {
	if ms := open.AutoCommitIntervalMS; ms != nil {
		config.Consumer.Offsets.AutoCommit.Interval = control.Milliseconds(*ms)
	}
	if ms := open.SessionTimeoutMS; ms != nil {
		config.Consumer.Group.Session.Timeout = control.Milliseconds(*ms)
	}
	if ms := open.HeartbeatIntervalMS; ms != nil {
		config.Consumer.Group.Heartbeat.Interval = control.Milliseconds(*ms)
	}
	if n := open.FetchMinBytes; n != nil {
		config.Consumer.Fetch.Min = int32(*n)
	}
	if ms := open.FetchMaxWaitMS; ms != nil {
		config.Consumer.MaxWaitTime = control.Milliseconds(*ms)
	}
	if n := open.FetchMaxBytes; n != nil {
		config.Consumer.Fetch.MaxBytes = int32(*n)
	}
	if n := open.PartitionFetchBytes; n != nil {
		config.Consumer.Fetch.Default = int32(*n)
	}
}
