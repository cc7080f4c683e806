package store

/*
#include "quorate_store.h"
*/
import "C"

import "runtime"

// Batch is changes that are made together or not at all, in order. Close it, or leave that to the garbage collector.
type Batch struct {
	handle *C.QuorateStoreBatch
}

// NewBatch returns a batch without changes. It belongs to no store.
func NewBatch() *Batch {
	batch := &Batch{handle: C.quorate_store_batch_new()}
	runtime.SetFinalizer(batch, (*Batch).Close)
	return batch
}

// Close frees a batch. What was written of it stays. Closing twice does nothing.
func (b *Batch) Close() {
	C.quorate_store_batch_free(b.handle)
	b.handle = nil
	runtime.SetFinalizer(b, nil)
}

func (b *Batch) with(function func(*C.QuorateStoreBatch) C.QuorateStoreStatus) error {
	if b.handle == nil {
		return ErrClosed
	}
	defer runtime.KeepAlive(b)
	return call(func() C.QuorateStoreStatus { return function(b.handle) })
}

// Put appends: put an item, replacing one of the same key.
func (b *Batch) Put(key, value []byte) error {
	return b.with(func(handle *C.QuorateStoreBatch) C.QuorateStoreStatus {
		return C.quorate_store_batch_put(handle, start(key), size(key), start(value), size(value))
	})
}

// PutByHash does the same by the hash of a key; see Store.PutByHash.
func (b *Batch) PutByHash(hash Hash, value []byte) error {
	return b.with(func(handle *C.QuorateStoreBatch) C.QuorateStoreStatus {
		return C.quorate_store_batch_put_by_hash(handle, start(hash[:]), start(value), size(value))
	})
}

// Delete appends: remove the item of a key, if there is one.
func (b *Batch) Delete(key []byte) error {
	return b.with(func(handle *C.QuorateStoreBatch) C.QuorateStoreStatus {
		return C.quorate_store_batch_delete(handle, start(key), size(key))
	})
}

// DeleteByHash does the same by the hash of a key.
func (b *Batch) DeleteByHash(hash Hash) error {
	return b.with(func(handle *C.QuorateStoreBatch) C.QuorateStoreStatus {
		return C.quorate_store_batch_delete_by_hash(handle, start(hash[:]))
	})
}

// Clear forgets all changes, so that the batch can be filled anew.
func (b *Batch) Clear() error {
	return b.with(func(handle *C.QuorateStoreBatch) C.QuorateStoreStatus {
		return C.quorate_store_batch_clear(handle)
	})
}
