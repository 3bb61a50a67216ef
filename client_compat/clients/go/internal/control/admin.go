package control

import "time"

// Every admin operation carries the bootstrap, by which its client is found.

// Cluster is an admin operation without arguments.
type Cluster struct {
	Bootstrap string `json:"bootstrap"`
}

// At is the bootstrap of any admin operation.
func (c Cluster) At() string { return c.Bootstrap }

// Clustered is what every admin operation's arguments are.
type Clustered interface{ At() string }

// NewTopic is one topic of admin.create_topics.
type NewTopic struct {
	Name        string            `json:"name"`
	Partitions  int32             `json:"partitions"`
	Replication *int16            `json:"replication"`
	Configs     map[string]string `json:"configs"`
}

// CreateTopics is admin.create_topics.
type CreateTopics struct {
	Cluster
	Topics []NewTopic `json:"topics"`
}

// Names is admin.delete_topics, admin.delete_groups and admin.fence_producers.
type Names struct {
	Cluster
	Topics           []string `json:"topics"`
	Groups           []string `json:"groups"`
	TransactionalIDs []string `json:"transactional_ids"`
}

// Topic is admin.describe_topic and admin.create_partitions.
type Topic struct {
	Cluster
	Topic string `json:"topic"`
	Count int    `json:"count"`
}

// Configs is admin.describe_configs and admin.alter_configs.
type Configs struct {
	Cluster
	Resource string            `json:"resource"`
	Name     string            `json:"name"`
	Set      map[string]string `json:"set"`
	Delete   []string          `json:"delete"`
}

// Offsets is admin.delete_records and admin.list_offsets.
type Offsets struct {
	Cluster
	Offsets []Offset `json:"offsets"`
}

// Group is admin.describe_group, admin.group_offsets and admin.alter_group_offsets.
type Group struct {
	Cluster
	Group   string   `json:"group"`
	Offsets []Offset `json:"offsets"`
}

// Transaction is admin.describe_producers, admin.describe_transaction and admin.abort_transaction.
type Transaction struct {
	Cluster
	Partition       Partition `json:"partition"`
	StartOffset     int64     `json:"start_offset"`
	TransactionalID string    `json:"transactional_id"`
}

// Member is one member in the answer of admin.describe_group.
type Member struct {
	ID         string      `json:"id"`
	ClientID   string      `json:"client_id"`
	InstanceID *string     `json:"instance_id"`
	Partitions []Partition `json:"partitions"`
}

// DescribedPartition is one partition in the answer of admin.describe_topic.
type DescribedPartition struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
}

// DescribedProducer is one producer in the answer of admin.describe_producers. TxnStart is nil without an open transaction.
type DescribedProducer struct {
	ProducerID   int64  `json:"producer_id"`
	Epoch        int32  `json:"epoch"`
	LastSequence int32  `json:"last_sequence"`
	TxnStart     *int64 `json:"txn_start"`
}

// DescribedTransaction is the answer of admin.describe_transaction.
type DescribedTransaction struct {
	State      string      `json:"state"`
	ProducerID int64       `json:"producer_id"`
	Epoch      int16       `json:"epoch"`
	TimeoutMS  int32       `json:"timeout_ms"`
	Partitions []Partition `json:"partitions"`
}

const (
	abortAttempts = 100
	abortPause    = 50 * time.Millisecond
)

// UntilAborted asks again while a coordinator is busy aborting the transaction that is fenced, which it answers with an error to retry.
func UntilAborted(ask func() (busy bool, err error)) error {
	for range abortAttempts {
		if busy, err := ask(); !busy {
			return err
		}
		time.Sleep(abortPause)
	}
	_, err := ask()
	return err
}
