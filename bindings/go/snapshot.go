package store

/*
#include "quorate_store.h"
*/
import "C"

import (
	"errors"
	"iter"
	"sync"
	"unsafe"
)

// Snapshot is the last commit at some moment, unchanged until closed. What has been replaced since is kept as long: hold it no longer than
// needed. Close it: the garbage collector does not know what it holds.
type Snapshot struct {
	// Calls hold it for reading, so that Close waits for them.
	mutex  sync.RWMutex
	handle *C.QuorateStoreSnapshot
}

// Item is an item of an iteration.
type Item struct {
	// Key is nil if the item was put by the hash of its key.
	Key   []byte
	Value []byte
	// Hash is the BLAKE3 hash of the key, by which items are in order.
	Hash Hash
}

// Snapshot takes a snapshot. There may be 1024 at once. It outlives the store's Close.
func (s *Store) Snapshot() (*Snapshot, error) {
	snapshot := &Snapshot{}
	err := s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return C.quorate_store_snapshot(handle, &snapshot.handle)
	})
	if err != nil {
		return nil, err
	}
	return snapshot, nil
}

// Close frees the snapshot, when the calls that use it have returned. Closing twice does nothing.
func (s *Snapshot) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	C.quorate_store_snapshot_free(s.handle)
	s.handle = nil
}

func (s *Snapshot) with(function func(*C.QuorateStoreSnapshot) C.QuorateStoreStatus) error {
	if s.handle == nil {
		return ErrClosed
	}
	return call(func() C.QuorateStoreStatus { return function(s.handle) })
}

// Get returns the value of a key, or ErrNotFound.
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	return s.get(func(handle *C.QuorateStoreSnapshot, value **C.uint8_t, length *C.size_t) C.QuorateStoreStatus {
		return C.quorate_store_snapshot_get(handle, start(key), size(key), value, length)
	})
}

// GetByHash does the same by the hash of a key. It finds the item whether it was put by its key or by its hash.
func (s *Snapshot) GetByHash(hash Hash) ([]byte, error) {
	return s.get(func(handle *C.QuorateStoreSnapshot, value **C.uint8_t, length *C.size_t) C.QuorateStoreStatus {
		return C.quorate_store_snapshot_get_by_hash(handle, start(hash[:]), value, length)
	})
}

func (s *Snapshot) get(function func(*C.QuorateStoreSnapshot, **C.uint8_t, *C.size_t) C.QuorateStoreStatus) ([]byte, error) {
	// The bytes are the snapshot's: it must not be closed before they are copied.
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	var value *C.uint8_t
	var length C.size_t
	err := s.with(func(handle *C.QuorateStoreSnapshot) C.QuorateStoreStatus {
		return function(handle, &value, &length)
	})
	if err != nil {
		return nil, err
	}
	return copied(value, length), nil
}

// Items goes through all items, in the order of the hashes of their keys. After an error of status StatusDamaged it goes on behind what could not be
// read; any other error is the last thing it yields.
func (s *Snapshot) Items() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		var iterator *C.QuorateStoreIterator
		s.mutex.RLock()
		err := s.with(func(handle *C.QuorateStoreSnapshot) C.QuorateStoreStatus {
			return C.quorate_store_iterate(handle, &iterator)
		})
		s.mutex.RUnlock()
		if err != nil {
			yield(Item{}, err)
			return
		}
		// It keeps what it needs of the snapshot, which may be closed meanwhile.
		defer C.quorate_store_iterator_free(iterator)
		for {
			item, err := next(iterator)
			if errors.Is(err, ErrNotFound) || !yield(item, err) {
				return
			}
			if err != nil && !errors.Is(err, &Error{Status: StatusDamaged}) {
				return
			}
		}
	}
}

func next(iterator *C.QuorateStoreIterator) (Item, error) {
	var found C.QuorateStoreItem
	err := call(func() C.QuorateStoreStatus {
		return C.quorate_store_iterator_next(iterator, &found)
	})
	if err != nil {
		return Item{}, err
	}
	item := Item{Value: copied(found.value, found.value_bytes)}
	if found.key != nil {
		item.Key = copied(found.key, found.key_bytes)
	}
	item.Hash = *(*[32]byte)(unsafe.Pointer(&found.hash))
	return item, nil
}
