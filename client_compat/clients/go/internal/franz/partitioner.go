package franz

import "github.com/twmb/franz-go/pkg/kgo"

// chosen marks a record, in its context, whose partition the caller chose. kgo takes a record's Partition only from its manual
// partitioner, and a client has one partitioner for all its records.
type chosen struct{}

// orChosen is another partitioner for the records whose partition nobody chose.
type orChosen struct{ kgo.Partitioner }

// ForTopic implements kgo.Partitioner.
func (o orChosen) ForTopic(topic string) kgo.TopicPartitioner {
	return topicOrChosen{o.Partitioner.ForTopic(topic)}
}

type topicOrChosen struct{ kgo.TopicPartitioner }

func isChosen(record *kgo.Record) bool {
	return record.Context != nil && record.Context.Value(chosen{}) != nil
}

func (t topicOrChosen) RequiresConsistency(record *kgo.Record) bool {
	return isChosen(record) || t.TopicPartitioner.RequiresConsistency(record)
}

// PartitionByBackup implements kgo.TopicBackupPartitioner, which kgo prefers to Partition.
func (t topicOrChosen) PartitionByBackup(record *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if isChosen(record) {
		return int(record.Partition)
	}
	if byBackup, ok := t.TopicPartitioner.(kgo.TopicBackupPartitioner); ok {
		return byBackup.PartitionByBackup(record, n, backup)
	}
	return t.TopicPartitioner.Partition(record, n)
}

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch.
func (t topicOrChosen) OnNewBatch() {
	if sticky, ok := t.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		sticky.OnNewBatch()
	}
}
