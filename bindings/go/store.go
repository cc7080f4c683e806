// Package store is the lazy-trie store of Quorate: a persistent key-value store in a folder of its own, with atomic batches,
// snapshots that wait for nobody, and iteration in the order of the hashes of keys.
//
// It stands on the C library of crates/store-c, linked statically. Tell the linker where that is:
//
//	cargo build --release -p quorate-store-c
//	CGO_LDFLAGS=-L$PWD/target/release go build ./...
//
// A Store and a Snapshot may be used by many goroutines at once, a Batch by one at a time. What a function returns is the caller's: nothing
// refers to the store's memory.
package store

/*
#cgo CFLAGS: -I${SRCDIR}/../../crates/store-c
#cgo LDFLAGS: -l:libquorate_store_c.a -lpthread -ldl -lm
#include <stdlib.h>
#include "quorate_store.h"
*/
import "C"

import (
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Durability is how far a commit goes before it returns.
type Durability uint32

const (
	// Sync commits survive the loss of power.
	Sync Durability = C.QUORATE_STORE_DURABILITY_SYNC
	// OS commits survive the end of the process; Store.Sync makes all so far survive the loss of power.
	OS Durability = C.QUORATE_STORE_DURABILITY_OS
)

// Recovery is what to do with a log that is damaged below what a sync had confirmed.
type Recovery uint32

const (
	// Strict refuses it.
	Strict Recovery = C.QUORATE_STORE_RECOVERY_STRICT
	// BestEffort takes every commit up to the damage, and sets the rest aside in files that end in .lost.
	BestEffort Recovery = C.QUORATE_STORE_RECOVERY_BEST_EFFORT
)

// Options are how a store is opened. The zero value is the default.
type Options struct {
	Durability Durability
	Recovery   Recovery
	// WriteBufferBytes is memory for pages that are not written out yet; 0: 256 MiB.
	WriteBufferBytes uint64
	// LimitBytes is what the space may take; 0: 1 TiB.
	LimitBytes uint64
}

// Hash is what items are found and in order by: BLAKE3 of their keys, or what they were put by.
type Hash = [32]byte

// Store is an open store. Close it.
type Store struct {
	// Calls hold it for reading, so that Close waits for them.
	mutex  sync.RWMutex
	handle *C.QuorateStore
}

// Statistics are what a store holds, and what it has done since it was opened. Sizes are in bytes.
type Statistics struct {
	Items         uint64
	KeyBytes      uint64
	ValueBytes    uint64
	ItemSlotBytes uint64
	// TreeSlotBytes are slots taken by buckets and nodes.
	TreeSlotBytes uint64
	SpaceBytes    uint64
	LogBytes      uint64
	// ShadowBytes are memory for pages that are not written out.
	ShadowBytes uint64
	Snapshots   uint64
	Commits     uint64
	Checkpoints uint64
}

// Open opens the store in a folder, or begins one if the folder is empty or missing. options may be nil.
func Open(folder string, options *Options) (*Store, error) {
	if strings.IndexByte(folder, 0) >= 0 {
		return nil, &Error{Status: StatusArgument, Message: "the folder's name has a zero byte in it"}
	}
	var given C.QuorateStoreOptions
	if options != nil {
		given.durability = C.uint32_t(options.Durability)
		given.recovery = C.uint32_t(options.Recovery)
		given.write_buffer_bytes = C.uint64_t(options.WriteBufferBytes)
		given.limit_bytes = C.uint64_t(options.LimitBytes)
	}
	name := C.CString(folder)
	defer C.free(unsafe.Pointer(name))
	store := &Store{}
	err := call(func() C.QuorateStoreStatus {
		return C.quorate_store_open(name, &given, &store.handle)
	})
	if err != nil {
		return nil, err
	}
	return store, nil
}

// ExplainBusErrors lets the signal that the kernel sends if a mapped file of an open store was shortened by somebody else, or if the disk cannot read a block of it,
// be told on standard error with file, offset and remedy, before the Go runtime ends the process. For the whole process, so its owner decides.
func ExplainBusErrors() error {
	return call(func() C.QuorateStoreStatus { return C.quorate_store_explain_bus_errors() })
}

// Close closes the store, when the calls that use it have returned. What was committed is in its files. The folder is given back when the last
// snapshot is closed, too. Closing twice does nothing.
func (s *Store) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	C.quorate_store_close(s.handle)
	s.handle = nil
}

// with calls a function of the library with the store's handle.
func (s *Store) with(function func(*C.QuorateStore) C.QuorateStoreStatus) error {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	if s.handle == nil {
		return ErrClosed
	}
	return call(func() C.QuorateStoreStatus { return function(s.handle) })
}

// Get returns the value of a key, or ErrNotFound.
func (s *Store) Get(key []byte) ([]byte, error) {
	return s.get(func(handle *C.QuorateStore, value **C.uint8_t, length *C.size_t) C.QuorateStoreStatus {
		return C.quorate_store_get(handle, start(key), size(key), value, length)
	})
}

// GetByHash does the same by the hash of a key. It finds the item whether it was put by its key or by its hash.
func (s *Store) GetByHash(hash Hash) ([]byte, error) {
	return s.get(func(handle *C.QuorateStore, value **C.uint8_t, length *C.size_t) C.QuorateStoreStatus {
		return C.quorate_store_get_by_hash(handle, start(hash[:]), value, length)
	})
}

func (s *Store) get(function func(*C.QuorateStore, **C.uint8_t, *C.size_t) C.QuorateStoreStatus) ([]byte, error) {
	var value *C.uint8_t
	var length C.size_t
	err := s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return function(handle, &value, &length)
	})
	if err != nil {
		return nil, err
	}
	defer C.quorate_store_free(value, length)
	return copied(value, length), nil
}

// Put puts an item, replacing one of the same key: a commit of its own.
func (s *Store) Put(key, value []byte) error {
	return s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return C.quorate_store_put(handle, start(key), size(key), start(value), size(value))
	})
}

// PutByHash does the same by the hash of a key: BLAKE3 of it, or any 32 bytes that are spread like a hash. It replaces the item of that key, too; of its name the
// store then keeps the hash alone.
func (s *Store) PutByHash(hash Hash, value []byte) error {
	return s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return C.quorate_store_put_by_hash(handle, start(hash[:]), start(value), size(value))
	})
}

// Delete removes an item: a commit of its own. ErrNotFound if there was none.
func (s *Store) Delete(key []byte) error {
	return s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return C.quorate_store_delete(handle, start(key), size(key))
	})
}

// DeleteByHash does the same by the hash of a key. It removes the item whether it was put by its key or by its hash.
func (s *Store) DeleteByHash(hash Hash) error {
	return s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return C.quorate_store_delete_by_hash(handle, start(hash[:]))
	})
}

// Write makes the changes of a batch: one commit, all or none.
func (s *Store) Write(batch *Batch) error {
	if batch.handle == nil {
		return ErrClosed
	}
	defer runtime.KeepAlive(batch)
	return s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return C.quorate_store_write(handle, batch.handle)
	})
}

// Sync makes everything committed so far survive the loss of power, whatever the durability of commits.
func (s *Store) Sync() error {
	return s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return C.quorate_store_sync(handle)
	})
}

// Checkpoint writes out all that is not yet in the space, so that the next start has nothing to replay.
func (s *Store) Checkpoint() error {
	return s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return C.quorate_store_checkpoint(handle)
	})
}

// Statistics tells what the store holds and has done.
func (s *Store) Statistics() (Statistics, error) {
	var found C.QuorateStoreStatistics
	err := s.with(func(handle *C.QuorateStore) C.QuorateStoreStatus {
		return C.quorate_store_statistics(handle, &found)
	})
	return Statistics{
		Items:         uint64(found.items),
		KeyBytes:      uint64(found.key_bytes),
		ValueBytes:    uint64(found.value_bytes),
		ItemSlotBytes: uint64(found.item_slot_bytes),
		TreeSlotBytes: uint64(found.tree_slot_bytes),
		SpaceBytes:    uint64(found.space_bytes),
		LogBytes:      uint64(found.log_bytes),
		ShadowBytes:   uint64(found.shadow_bytes),
		Snapshots:     uint64(found.snapshots),
		Commits:       uint64(found.commits),
		Checkpoints:   uint64(found.checkpoints),
	}, err
}

// start is where bytes are; the library takes any pointer where the length is 0.
func start(bytes []byte) *C.uint8_t {
	if len(bytes) == 0 {
		return nil
	}
	return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(bytes)))
}

func size(bytes []byte) C.size_t {
	return C.size_t(len(bytes))
}

// copied copies bytes of the library. A slice of length 0 is not nil: it is a value.
func copied(from *C.uint8_t, length C.size_t) []byte {
	into := make([]byte, int(length))
	copy(into, unsafe.Slice((*byte)(unsafe.Pointer(from)), int(length)))
	return into
}
