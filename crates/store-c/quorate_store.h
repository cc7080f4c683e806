/* quorate_store.h: the lazy-trie store, for C.
 *
 * Made of crates/store-c by cbindgen: change it there, then `make header`.
 *
 * Rules that hold for all functions:
 *  - A function that can fail returns a QuorateStoreStatus, and leaves what it was to write untouched unless that is
 *    QUORATE_STORE_STATUS_OK. quorate_store_error_message() tells what went wrong on this thread.
 *  - Bytes are a pointer and a length. The pointer may be NULL where the length is 0. They are copied before the function returns.
 *  - Who gets a handle frees it, once, by the function named for it; freeing NULL does nothing. A handle may be given to another
 *    thread. A store and a snapshot may be used by many threads at once; a batch and an iterator by one at a time.
 *  - A store, its snapshots and their iterators may be freed in any order: the folder is given back with the last of them.
 *  - No panic crosses into the caller: it becomes QUORATE_STORE_STATUS_PANICKED, after which the store refuses every call
 *    until it is closed and opened again. What was committed is safe.
 */

#ifndef QUORATE_STORE_H
#define QUORATE_STORE_H

#include <stddef.h>
#include <stdint.h>

/*
 A commit returns when it survives the loss of power.
 */
#define QUORATE_STORE_DURABILITY_SYNC 0

/*
 A commit returns when it survives the end of the process; quorate_store_sync() makes all so far survive the loss of power.
 */
#define QUORATE_STORE_DURABILITY_OS 1

/*
 A log that is damaged below what a sync had confirmed is refused.
 */
#define QUORATE_STORE_RECOVERY_STRICT 0

/*
 Of such a log every commit up to the damage is taken, and the rest is set aside in files that end in .lost.
 */
#define QUORATE_STORE_RECOVERY_BEST_EFFORT 1

/*
 How a call ended. Numbers stay what they are; others may follow.
 */
typedef enum {
  /*
   It was done.
   */
  QUORATE_STORE_STATUS_OK = 0,
  /*
   There is no such item, or no further one.
   */
  QUORATE_STORE_STATUS_NOT_FOUND = 1,
  /*
   An argument that cannot be: NULL, an unknown number, a name that is no text.
   */
  QUORATE_STORE_STATUS_ARGUMENT = 2,
  /*
   Another process has the folder; the message names it.
   */
  QUORATE_STORE_STATUS_LOCKED = 3,
  /*
   Something on disk is not what was written; the message names file, offset and remedy.
   */
  QUORATE_STORE_STATUS_DAMAGED = 4,
  /*
   Files of another tool, another store, or another version of this one.
   */
  QUORATE_STORE_STATUS_FOREIGN = 5,
  /*
   The system refused something; the message says what, and what to do.
   */
  QUORATE_STORE_STATUS_SYSTEM = 6,
  /*
   Something is longer, or more, than it may be.
   */
  QUORATE_STORE_STATUS_LIMIT = 7,
  /*
   An earlier error ended writing: close the store and open it again.
   */
  QUORATE_STORE_STATUS_STOPPED = 8,
  /*
   A fault of this library: close the store and open it again.
   */
  QUORATE_STORE_STATUS_PANICKED = 9,
} QuorateStoreStatus;

/*
 A store. Freed by quorate_store_close().
 */
typedef struct QuorateStore QuorateStore;

/*
 Changes that are made together or not at all, in order. Freed by quorate_store_batch_free(). It belongs to no store.
 */
typedef struct QuorateStoreBatch QuorateStoreBatch;

/*
 Where an iteration is. Freed by quorate_store_iterator_free().
 */
typedef struct QuorateStoreIterator QuorateStoreIterator;

/*
 The last commit at some moment, unchanged until freed by quorate_store_snapshot_free(). What has been replaced since is kept as long: hold it no
 longer than needed.
 */
typedef struct QuorateStoreSnapshot QuorateStoreSnapshot;

/*
 How a store is opened. All zeros are the defaults.
 */
typedef struct {
  /*
   QUORATE_STORE_DURABILITY_SYNC or QUORATE_STORE_DURABILITY_OS.
   */
  uint32_t durability;
  /*
   QUORATE_STORE_RECOVERY_STRICT or QUORATE_STORE_RECOVERY_BEST_EFFORT.
   */
  uint32_t recovery;
  /*
   Memory for pages that are not written out yet, in bytes; 0: 256 MiB.
   */
  uint64_t write_buffer_bytes;
  /*
   The space takes no more than this, in bytes; 0: 1 TiB.
   */
  uint64_t limit_bytes;
} QuorateStoreOptions;

/*
 An item of an iteration. The bytes belong to the snapshot: they are valid until it and its iterators are freed.
 */
typedef struct {
  /*
   The key; NULL if the item was put by the hash of its key.
   */
  const uint8_t *key;
  /*
   Its length.
   */
  size_t key_bytes;
  /*
   The value.
   */
  const uint8_t *value;
  /*
   Its length.
   */
  size_t value_bytes;
  /*
   The hash of the key, by which items are in order: BLAKE3.
   */
  uint8_t hash[32];
} QuorateStoreItem;

/*
 What a store holds, and what it has done since it was opened.
 */
typedef struct {
  /*
   Items.
   */
  uint64_t items;
  /*
   Their keys, in bytes.
   */
  uint64_t key_bytes;
  /*
   Their values, in bytes.
   */
  uint64_t value_bytes;
  /*
   Slots taken by items, in bytes.
   */
  uint64_t item_slot_bytes;
  /*
   Slots taken by buckets and nodes, in bytes.
   */
  uint64_t tree_slot_bytes;
  /*
   The files of the space, in bytes.
   */
  uint64_t space_bytes;
  /*
   The files of the log, in bytes.
   */
  uint64_t log_bytes;
  /*
   Memory for pages that are not written out, in bytes.
   */
  uint64_t shadow_bytes;
  /*
   Snapshots held.
   */
  uint64_t snapshots;
  /*
   Batches committed.
   */
  uint64_t commits;
  /*
   Checkpoints made.
   */
  uint64_t checkpoints;
} QuorateStoreStatistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 What went wrong in the last call on this thread that failed: text in UTF-8 that names the place and the remedy, empty if none did. It belongs
 to the library, and is valid until a call on this thread fails or the thread ends.
 */
const char *quorate_store_error_message(void);

/*
 Opens the store in a folder, or begins one if the folder is empty or missing. `folder` is a path, as text in UTF-8 that ends with a zero byte;
 `options` may be NULL, for the defaults. Neither is kept. The caller frees what is written to `store` by quorate_store_close().

 # Safety
 `folder` is NULL or such a text; `options` is NULL or points to options; `store` is NULL or may be written to.
 */
QuorateStoreStatus quorate_store_open(const char *folder,
                                      const QuorateStoreOptions *options,
                                      QuorateStore **store);

/*
 Installs a handler of SIGBUS, which the kernel sends if a mapped file of an open store is shortened by somebody else, or if the disk cannot read a block of it:
 a line on standard error then names the file, the offset and the remedy. The handler there was before goes on from there, or the process
 ends as it would have. For the whole process, so its owner decides; doing it again does nothing.
 */
QuorateStoreStatus quorate_store_explain_bus_errors(void);

/*
 Closes a store. What was committed is in its files. The folder is given back when the last snapshot and iterator are freed, too.

 # Safety
 `store` is NULL or was got from quorate_store_open(), was not closed before, and no call uses it at the same time.
 */
void quorate_store_close(QuorateStore *store);

/*
 Copies the value of a key. The caller frees it by quorate_store_free(), with both of what was written. QUORATE_STORE_STATUS_NOT_FOUND if there is none.
 Without a copy: quorate_store_snapshot_get().

 # Safety
 `store` is NULL or an open store; `key` has `key_bytes` bytes; `value` and `value_bytes` are NULL or may be written to.
 */
QuorateStoreStatus quorate_store_get(const QuorateStore *store,
                                     const uint8_t *key,
                                     size_t key_bytes,
                                     uint8_t **value,
                                     size_t *value_bytes);

/*
 The same by the hash of a key: 32 bytes. Finds the item whether it was put by its key or by its hash.

 # Safety
 `store` is NULL or an open store; `hash` is NULL or has 32 bytes; `value` and `value_bytes` are NULL or may be written to.
 */
QuorateStoreStatus quorate_store_get_by_hash(const QuorateStore *store,
                                             const uint8_t *hash,
                                             uint8_t **value,
                                             size_t *value_bytes);

/*
 Frees a value that quorate_store_get() or quorate_store_get_by_hash() has written.

 # Safety
 `value` is NULL, or `value` and `value_bytes` are what one call of theirs has written, and were not freed before.
 */
void quorate_store_free(uint8_t *value, size_t value_bytes);

/*
 Puts an item, replacing one of the same key: a commit of its own.

 # Safety
 `store` is NULL or an open store; `key` has `key_bytes` bytes, `value` has `value_bytes`.
 */
QuorateStoreStatus quorate_store_put(const QuorateStore *store,
                                     const uint8_t *key,
                                     size_t key_bytes,
                                     const uint8_t *value,
                                     size_t value_bytes);

/*
 The same by the hash of a key: 32 bytes, BLAKE3 of it or any that are spread like a hash. It replaces the item of that key, too; of its name the store then keeps
 the hash alone.

 # Safety
 `store` is NULL or an open store; `hash` is NULL or has 32 bytes; `value` has `value_bytes`.
 */
QuorateStoreStatus quorate_store_put_by_hash(const QuorateStore *store,
                                             const uint8_t *hash,
                                             const uint8_t *value,
                                             size_t value_bytes);

/*
 Removes an item: a commit of its own. QUORATE_STORE_STATUS_NOT_FOUND if there was none.

 # Safety
 `store` is NULL or an open store; `key` has `key_bytes` bytes.
 */
QuorateStoreStatus quorate_store_delete(const QuorateStore *store, const uint8_t *key, size_t key_bytes);

/*
 The same by the hash of a key: 32 bytes. Removes the item whether it was put by its key or by its hash.

 # Safety
 `store` is NULL or an open store; `hash` is NULL or has 32 bytes.
 */
QuorateStoreStatus quorate_store_delete_by_hash(const QuorateStore *store, const uint8_t *hash);

/*
 Makes everything committed so far survive the loss of power, whatever the durability of commits.

 # Safety
 `store` is NULL or an open store.
 */
QuorateStoreStatus quorate_store_sync(const QuorateStore *store);

/*
 Writes out all that is not yet in the space, so that the next start has nothing to replay.

 # Safety
 `store` is NULL or an open store.
 */
QuorateStoreStatus quorate_store_checkpoint(const QuorateStore *store);

/*
 A batch without changes, which the caller frees by quorate_store_batch_free().
 */
QuorateStoreBatch *quorate_store_batch_new(void);

/*
 Frees a batch. What was written of it stays.

 # Safety
 `batch` is NULL or was got from quorate_store_batch_new(), was not freed before, and no call uses it at the same time.
 */
void quorate_store_batch_free(QuorateStoreBatch *batch);

/*
 Appends: put an item, replacing one of the same key.

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time; `key` has `key_bytes` bytes, `value` has `value_bytes`.
 */
QuorateStoreStatus quorate_store_batch_put(QuorateStoreBatch *batch,
                                           const uint8_t *key,
                                           size_t key_bytes,
                                           const uint8_t *value,
                                           size_t value_bytes);

/*
 The same by the hash of a key: 32 bytes. See quorate_store_put_by_hash().

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time; `hash` is NULL or has 32 bytes; `value` has `value_bytes`.
 */
QuorateStoreStatus quorate_store_batch_put_by_hash(QuorateStoreBatch *batch,
                                                   const uint8_t *hash,
                                                   const uint8_t *value,
                                                   size_t value_bytes);

/*
 Appends: remove the item of a key, if there is one.

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time; `key` has `key_bytes` bytes.
 */
QuorateStoreStatus quorate_store_batch_delete(QuorateStoreBatch *batch, const uint8_t *key, size_t key_bytes);

/*
 The same by the hash of a key: 32 bytes.

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time; `hash` is NULL or has 32 bytes.
 */
QuorateStoreStatus quorate_store_batch_delete_by_hash(QuorateStoreBatch *batch, const uint8_t *hash);

/*
 Forgets all changes of a batch, so that it can be filled anew.

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time.
 */
QuorateStoreStatus quorate_store_batch_clear(QuorateStoreBatch *batch);

/*
 Makes the changes of a batch: one commit, all or none. The batch stays as it is.

 # Safety
 `store` is NULL or an open store; `batch` is NULL or a batch that no other call changes at the same time.
 */
QuorateStoreStatus quorate_store_write(const QuorateStore *store, const QuorateStoreBatch *batch);

/*
 Takes a snapshot, which the caller frees by quorate_store_snapshot_free(). There may be 1024 at once.

 # Safety
 `store` is NULL or an open store; `snapshot` is NULL or may be written to.
 */
QuorateStoreStatus quorate_store_snapshot(const QuorateStore *store, QuorateStoreSnapshot **snapshot);

/*
 Frees a snapshot. Its iterators stay good until they are freed themselves.

 # Safety
 `snapshot` is NULL or was got from quorate_store_snapshot(), was not freed before, and no call uses it at the same time.
 */
void quorate_store_snapshot_free(QuorateStoreSnapshot *snapshot);

/*
 Finds the value of a key where it lies. The bytes belong to the snapshot: they are valid until it is freed. QUORATE_STORE_STATUS_NOT_FOUND if
 there is none.

 # Safety
 `snapshot` is NULL or a snapshot; `key` has `key_bytes` bytes; `value` and `value_bytes` are NULL or may be written to.
 */
QuorateStoreStatus quorate_store_snapshot_get(const QuorateStoreSnapshot *snapshot,
                                              const uint8_t *key,
                                              size_t key_bytes,
                                              const uint8_t **value,
                                              size_t *value_bytes);

/*
 The same by the hash of a key: 32 bytes. Finds the item whether it was put by its key or by its hash.

 # Safety
 `snapshot` is NULL or a snapshot; `hash` is NULL or has 32 bytes; `value` and `value_bytes` are NULL or may be written to.
 */
QuorateStoreStatus quorate_store_snapshot_get_by_hash(const QuorateStoreSnapshot *snapshot,
                                                      const uint8_t *hash,
                                                      const uint8_t **value,
                                                      size_t *value_bytes);

/*
 Begins to go through all items of a snapshot, in the order of the hashes of their keys. The caller frees what is written to `iterator` by
 quorate_store_iterator_free().

 # Safety
 `snapshot` is NULL or a snapshot; `iterator` is NULL or may be written to.
 */
QuorateStoreStatus quorate_store_iterate(const QuorateStoreSnapshot *snapshot,
                                         QuorateStoreIterator **iterator);

/*
 The next item; QUORATE_STORE_STATUS_NOT_FOUND if there is none. After QUORATE_STORE_STATUS_DAMAGED it goes on behind what could not be read.

 # Safety
 `iterator` is NULL or an iterator that no other call uses at the same time; `item` is NULL or may be written to.
 */
QuorateStoreStatus quorate_store_iterator_next(QuorateStoreIterator *iterator,
                                               QuorateStoreItem *item);

/*
 Frees an iterator.

 # Safety
 `iterator` is NULL or was got from quorate_store_iterate(), was not freed before, and no call uses it at the same time.
 */
void quorate_store_iterator_free(QuorateStoreIterator *iterator);

/*
 What a store holds and has done. Looks at every slab while writers wait.

 # Safety
 `store` is NULL or an open store; `statistics` is NULL or may be written to.
 */
QuorateStoreStatus quorate_store_statistics(const QuorateStore *store, QuorateStoreStatistics *statistics);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QUORATE_STORE_H */
