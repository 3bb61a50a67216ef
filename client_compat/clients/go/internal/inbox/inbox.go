// Package inbox holds what a library's own goroutines consumed until a poll asks for it. The libraries that push messages, or read one
// partition at a time, have no poll of their own.
package inbox

import (
	"context"
	"maps"
	"slices"
	"sync"

	"ottla/clients/go/internal/control"
)

// most is how many messages of a partition wait here before its reader has to.
const most = 2000

// Inbox is one queue a partition, with messages of the library's type.
type Inbox[M any] struct {
	mu        sync.Mutex
	queues    map[control.Partition][]M
	paused    map[control.Partition]bool
	positions map[control.Partition]int64
	failed    error
	changed   chan struct{}
	place     func(M) (control.Partition, int64)
}

// New makes an empty inbox; place tells a message's partition and offset.
func New[M any](place func(M) (control.Partition, int64)) *Inbox[M] {
	return &Inbox[M]{
		queues:    map[control.Partition][]M{},
		paused:    map[control.Partition]bool{},
		positions: map[control.Partition]int64{},
		changed:   make(chan struct{}),
		place:     place,
	}
}

// wake lets everyone who waits look again. The lock is held.
func (b *Inbox[M]) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Put adds a message, once there is room for it. False where stopped came first.
func (b *Inbox[M]) Put(stopped <-chan struct{}, message M) bool {
	partition, _ := b.place(message)
	for {
		b.mu.Lock()
		if len(b.queues[partition]) < most {
			b.queues[partition] = append(b.queues[partition], message)
			b.wake()
			b.mu.Unlock()
			return true
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-stopped:
			return false
		case <-changed:
		}
	}
}

// Fail keeps an error for the next poll.
func (b *Inbox[M]) Fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = err
	b.wake()
}

// Failed returns the error that is kept, and forgets it.
func (b *Inbox[M]) Failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.failed
	b.failed = nil
	return err
}

// Take waits until count messages of partitions that are not paused were taken, or the context ends. An error that was kept is returned
// once no message comes before it.
func (b *Inbox[M]) Take(ctx context.Context, count int) ([]M, error) {
	var taken []M
	for {
		b.mu.Lock()
		taken = append(taken, b.takeUpTo(count-len(taken))...)
		failed, changed := b.failed, b.changed
		if len(taken) == 0 {
			b.failed = nil
		}
		b.mu.Unlock()
		switch {
		case len(taken) == 0 && failed != nil:
			return nil, failed
		case len(taken) >= count, failed != nil:
			return taken, nil
		}
		select {
		case <-ctx.Done():
			return taken, nil
		case <-changed:
		}
	}
}

func (b *Inbox[M]) takeUpTo(count int) (taken []M) {
	for _, partition := range slices.SortedFunc(maps.Keys(b.queues), control.Partition.Compare) {
		if b.paused[partition] {
			continue
		}
		queue := b.queues[partition]
		n := min(count-len(taken), len(queue))
		if n == 0 {
			continue
		}
		taken = append(taken, queue[:n]...)
		b.queues[partition] = slices.Clone(queue[n:])
		_, offset := b.place(queue[n-1])
		b.positions[partition] = offset + 1
	}
	if len(taken) > 0 {
		b.wake()
	}
	return taken
}

// Pause holds back, or gives again, what is here of partitions.
func (b *Inbox[M]) Pause(partitions []control.Partition, paused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, partition := range partitions {
		b.paused[partition] = paused
	}
	b.wake()
}

// Drop forgets what is here of a partition, and its position.
func (b *Inbox[M]) Drop(partition control.Partition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.queues, partition)
	delete(b.positions, partition)
	b.wake()
}

// Move sets a partition's position, as a seek does.
func (b *Inbox[M]) Move(partition control.Partition, position int64) {
	b.Drop(partition)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.positions[partition] = position
}

// Position is one past the last message taken, or where the last seek went.
func (b *Inbox[M]) Position(partition control.Partition) (int64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	position, known := b.positions[partition]
	return position, known
}

// Positions are all positions that are known.
func (b *Inbox[M]) Positions() map[control.Partition]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.positions)
}
