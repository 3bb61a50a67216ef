package control

// Located is a partition, or an offset or a time in one.
type Located interface{ In() Partition }

// In is the partition of a partition, and of what embeds it.
func (p Partition) In() Partition { return p }

// Answered is the answer "offsets": one found for each of what was asked.
func Answered[L Located](asked []L, find func(L) (int64, error)) (any, error) {
	return rows(asked, func(one L) ([]any, error) {
		offset, err := find(one)
		return []any{offset}, err
	})
}

// Positions is the answer of consumer.position, from where a client is known to be.
func Positions(asked []Partition, at func(Partition) (offset int64, known bool)) (any, error) {
	return Answered(asked, func(partition Partition) (int64, error) {
		offset, known := at(partition)
		if !known {
			return 0, Unsupported("tells no position of a partition before something was read from it")
		}
		return offset, nil
	})
}

// Committed is the answer of consumer.committed, null where nothing is.
func Committed(asked []Partition, at func(Partition) (offset int64, metadata string, found bool)) (any, error) {
	return rows(asked, func(partition Partition) ([]any, error) {
		if offset, metadata, found := at(partition); found {
			return []any{offset, metadata}, nil
		}
		return []any{nil, nil}, nil
	})
}

// AtTimes is the answer of consumer.offsets_for_times. A nil offset: no record is so late; a nil timestamp: the client does not tell it.
func AtTimes(asked []Offset, find func(Offset) (offset, timestamp *int64, err error)) (any, error) {
	return rows(asked, func(time Offset) ([]any, error) {
		offset, timestamp, err := find(time)
		return []any{offset, timestamp}, err
	})
}

func rows[L Located](asked []L, rest func(L) ([]any, error)) (any, error) {
	var found [][]any
	for _, one := range asked {
		row, err := rest(one)
		if err != nil {
			return nil, err
		}
		found = append(found, append([]any{one.In().Topic, one.In().Index}, row...))
	}
	return Rows("offsets", found), nil
}
