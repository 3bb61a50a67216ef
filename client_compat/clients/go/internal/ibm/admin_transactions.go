package ibm

import (
	"time"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

func (p *program) addTransactionAdmin(ops map[string]control.Op) {
	ops["admin.describe_producers"] = bind(p, describeProducers)
	ops["admin.list_transactions"] = bind(p, listTransactions)
	ops["admin.describe_transaction"] = bind(p, describeTransaction)
	ops["admin.fence_producers"] = bind(p, fenceProducers)
}

func describeProducers(admin *admin, of control.Transaction) (any, error) {
	found, err := admin.DescribeProducers(map[string][]int32{of.Partition.Topic: {of.Partition.Index}})
	if err != nil {
		return nil, err
	}
	partition := found[of.Partition.Topic][of.Partition.Index]
	if err := failed(partition.ErrorCode); err != nil {
		return nil, err
	}
	var rows []control.DescribedProducer
	for _, producer := range partition.ActiveProducers {
		row := control.DescribedProducer{
			ProducerID: producer.ProducerID, Epoch: producer.ProducerEpoch, LastSequence: producer.LastSequence,
		}
		if producer.CurrentTxnStartOffset >= 0 {
			row.TxnStart = control.Known(producer.CurrentTxnStartOffset)
		}
		rows = append(rows, row)
	}
	return control.Rows("producers", rows), nil
}

func listTransactions(admin *admin, _ control.Cluster) (any, error) {
	found, err := admin.ListTransactions(nil, nil, -1)
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for _, transaction := range found {
		rows = append(rows, []any{transaction.TransactionalID, transaction.ProducerID, transaction.TransactionState})
	}
	return control.Rows("transactions", rows), nil
}

func describeTransaction(admin *admin, of control.Transaction) (any, error) {
	found, err := admin.DescribeTransactions([]string{of.TransactionalID})
	if err != nil {
		return nil, err
	}
	transaction := found[of.TransactionalID]
	if err := failed(transaction.ErrorCode); err != nil {
		return nil, err
	}
	described := control.DescribedTransaction{
		State:      transaction.TransactionState,
		ProducerID: transaction.ProducerID,
		Epoch:      transaction.ProducerEpoch,
		TimeoutMS:  int32(transaction.TransactionTimeout / time.Millisecond),
		Partitions: []control.Partition{},
	}
	for _, topic := range transaction.Topics {
		for _, index := range topic.Partitions {
			described.Partitions = append(described.Partitions, control.Partition{Topic: topic.Topic, Index: index})
		}
	}
	return described, nil
}

// fenceProducers raises the epochs as Java's admin client does, with an InitProducerId that names no producer. sarama has that as a
// request to a broker.
func fenceProducers(admin *admin, names control.Names) (any, error) {
	for _, id := range names.TransactionalIDs {
		coordinator, err := admin.client.TransactionCoordinator(id)
		if err != nil {
			return nil, err
		}
		request := &sarama.InitProducerIDRequest{
			Version: 4, TransactionalID: &id, TransactionTimeout: time.Millisecond, ProducerID: -1, ProducerEpoch: -1,
		}
		err = control.UntilAborted(func() (bool, error) {
			response, err := coordinator.InitProducerID(request)
			if err != nil {
				return false, err
			}
			return response.Err == sarama.ErrConcurrentTransactions, failed(response.Err)
		})
		if err != nil {
			return nil, err
		}
	}
	return struct{}{}, nil
}
