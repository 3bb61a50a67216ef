package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Addressed is what the arguments of an operation on an open object are.
type Addressed interface{ Of() string }

// On makes an Op of a function on the open object that the arguments name.
func On[T any, A Addressed](open *Handles[T], run func(context.Context, T, A) (any, error)) Op {
	return Bind(func(ctx context.Context, arguments A) (any, error) {
		object, err := open.Get(arguments.Of())
		if err != nil {
			return nil, err
		}
		return run(ctx, object, arguments)
	})
}

// DoOn is On for an operation that answers {}.
func DoOn[T any, A Addressed](open *Handles[T], run func(context.Context, T, A) error) Op {
	return On(open, func(ctx context.Context, object T, arguments A) (any, error) {
		return struct{}{}, run(ctx, object, arguments)
	})
}

// OnCluster makes an Op of a function on the admin client of the bootstrap that the arguments name, which is made with the first one.
func OnCluster[T any, A Clustered](
	admins *Handles[T], open func(bootstrap string) (T, error), run func(context.Context, T, A) (any, error),
) Op {
	return Bind(func(ctx context.Context, arguments A) (any, error) {
		admin, err := admins.Get(arguments.At())
		if err != nil {
			if admin, err = open(arguments.At()); err != nil {
				return nil, err
			}
			admins.Put(arguments.At(), admin)
		}
		return run(ctx, admin, arguments)
	})
}

// Close makes an Op that forgets an open object and ends it.
func Close[T any](open *Handles[T], end func(T) error) Op {
	return Do(func(_ context.Context, of Object) error {
		object, err := open.Take(of.Handle)
		if err != nil {
			return err
		}
		return end(object)
	})
}

// Handles holds the open objects of one kind by the names that the runner gave them. An operation that overran its limit goes on beside
// the next one, hence the lock.
type Handles[T any] struct {
	mu      sync.Mutex
	objects map[string]T
}

// Put keeps an object under a handle.
func (h *Handles[T]) Put(handle string, object T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.objects == nil {
		h.objects = make(map[string]T)
	}
	h.objects[handle] = object
}

// Get returns the object of a handle.
func (h *Handles[T]) Get(handle string) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, open := h.objects[handle]
	if !open {
		return object, Failure{Code: "CLIENT:BAD_REQUEST", Message: fmt.Sprintf("no open object has the handle %q", handle)}
	}
	return object, nil
}

// Take returns the object of a handle and forgets it.
func (h *Handles[T]) Take(handle string) (T, error) {
	object, err := h.Get(handle)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.objects, handle)
	return object, err
}

// Empty returns every object and forgets them.
func (h *Handles[T]) Empty() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	objects := slices.Collect(maps.Values(h.objects))
	h.objects = nil
	return objects
}
