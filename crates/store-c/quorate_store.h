/* quorate_store.h: the lazy-trie store, for C.
 *
 * Generated from crates/store-c by cbindgen: change the crate, then run `make header`.
 *
 * Rules for all functions:
 *  - A function that can fail returns a QuorateStoreStatus. It writes its results only if that is
 *    QUORATE_STORE_STATUS_OK. quorate_store_error_message() describes this thread's last error.
 *  - Bytes are a pointer and a length. The pointer may be NULL if the length is 0. They are copied
 *    before the function returns.
 *  - The caller frees each handle once, by the function named for it; freeing NULL does nothing. A
 *    handle may be given to another thread. Many threads may use a store or a snapshot at once, but
 *    only one at a time may use a batch or an iterator.
 *  - A store, its snapshots and their iterators may be freed in any order. The folder is released
 *    with the last of them.
 *  - No panic reaches the caller: it becomes QUORATE_STORE_STATUS_PANICKED. Then the store refuses
 *    every call until it is closed and opened again. Commits are safe.
 */

#ifndef QUORATE_STORE_H
#define QUORATE_STORE_H

#include <stddef.h>
#include <stdint.h>

/*
 A commit returns when it survives a power failure.
 */
#define QUORATE_STORE_DURABILITY_SYNC 0

/*
 A commit returns when it survives the end of the process. quorate_store_sync() makes all commits
 survive a power failure.
 */
#define QUORATE_STORE_DURABILITY_OS 1

/*
 Refuses a log that is damaged below the point that a sync has confirmed.
 */
#define QUORATE_STORE_RECOVERY_STRICT 0

/*
 Recovers every commit of such a log up to the damage, and sets the rest aside in files that end
 in .lost.
 */
#define QUORATE_STORE_RECOVERY_BEST_EFFORT 1

/*
 The result of a call. The numbers never change; others may be added.
 */
typedef enum {
  /*
   Success.
   */
  QUORATE_STORE_STATUS_OK = 0,
  /*
   There is no such item, or no further one.
   */
  QUORATE_STORE_STATUS_NOT_FOUND = 1,
  /*
   An invalid argument: NULL, an unknown number, or a name that is not UTF-8.
   */
  QUORATE_STORE_STATUS_ARGUMENT = 2,
  /*
   Another process uses the folder; the message names that process.
   */
  QUORATE_STORE_STATUS_LOCKED = 3,
  /*
   Data on disk is damaged; the message names file, offset and remedy.
   */
  QUORATE_STORE_STATUS_DAMAGED = 4,
  /*
   The files belong to another tool, another store, or another version of this one.
   */
  QUORATE_STORE_STATUS_FOREIGN = 5,
  /*
   The system refused an operation; the message names it and the remedy.
   */
  QUORATE_STORE_STATUS_SYSTEM = 6,
  /*
   A limit was exceeded.
   */
  QUORATE_STORE_STATUS_LIMIT = 7,
  /*
   An earlier error ended writing. Close the store and open it again.
   */
  QUORATE_STORE_STATUS_STOPPED = 8,
  /*
   A bug in this library. Close the store and open it again.
   */
  QUORATE_STORE_STATUS_PANICKED = 9,
} QuorateStoreStatus;

/*
 A store. Freed by quorate_store_close().
 */
typedef struct QuorateStore QuorateStore;

/*
 A list of changes that are committed together, in order, or not at all. Freed by
 quorate_store_batch_free(). It belongs to no store.
 */
typedef struct QuorateStoreBatch QuorateStoreBatch;

/*
 The position of an iteration. Freed by quorate_store_iterator_free().
 */
typedef struct QuorateStoreIterator QuorateStoreIterator;

/*
 The last commit at some moment, unchanged until it is freed by quorate_store_snapshot_free().
 The store keeps replaced items for that time, so do not hold a snapshot longer than needed.
 */
typedef struct QuorateStoreSnapshot QuorateStoreSnapshot;

/*
 Options for opening a store. All zeros are the defaults.
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
   Memory for pages that are not written yet, in bytes; 0: 256 MiB.
   */
  uint64_t write_buffer_bytes;
  /*
   The limit of the space, in bytes; 0: 1 TiB.
   */
  uint64_t limit_bytes;
} QuorateStoreOptions;

/*
 An item of an iteration. The bytes belong to the snapshot: they are valid until the snapshot and
 its iterators are freed.
 */
typedef struct {
  /*
   The key; NULL if the item was put by the hash of its key.
   */
  const uint8_t *key;
  /*
   The length of the key.
   */
  size_t key_bytes;
  /*
   The value.
   */
  const uint8_t *value;
  /*
   The length of the value.
   */
  size_t value_bytes;
  /*
   The BLAKE3 hash of the key. Items are ordered by it.
   */
  uint8_t hash[32];
} QuorateStoreItem;

/*
 The content of a store, and its work since it was opened.
 */
typedef struct {
  /*
   The number of items.
   */
  uint64_t items;
  /*
   The length of all keys, in bytes.
   */
  uint64_t key_bytes;
  /*
   The length of all values, in bytes.
   */
  uint64_t value_bytes;
  /*
   The slots of items, in bytes.
   */
  uint64_t item_slot_bytes;
  /*
   The slots of buckets and nodes, in bytes.
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
   Memory for pages that are not written yet, in bytes.
   */
  uint64_t shadow_bytes;
  /*
   The number of snapshots held.
   */
  uint64_t snapshots;
  /*
   The number of batches committed.
   */
  uint64_t commits;
  /*
   The number of checkpoints made.
   */
  uint64_t checkpoints;
} QuorateStoreStatistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The message of the last call on this thread that failed: UTF-8 text that names the place and the
 remedy, empty if no call failed. It belongs to the library. It is valid until the next call on
 this thread fails or the thread ends.
 */
const char *quorate_store_error_message(void);

/*
 Opens the store in a folder, or creates one if the folder is empty or missing. `folder` is a
 path in UTF-8 that ends with a zero byte. `options` may be NULL, for the defaults. Neither is
 kept. The caller frees the handle in `store` by quorate_store_close().

 # Safety
 `folder` is NULL or such a text; `options` is NULL or points to options; `store` is NULL or may
 be written to.
 */
QuorateStoreStatus quorate_store_open(const char *folder, const QuorateStoreOptions *options, QuorateStore **store);

/*
 Installs a handler of SIGBUS. The kernel sends this signal if another program shortens a mapped
 file of an open store, or if the disk cannot read a block of one. The handler prints a line with
 the file, the offset and the remedy on standard error. Then the previous handler runs, or the
 process ends as it would have. The handler is for the whole process, so the program has to ask
 for it. A second call does nothing.
 */
QuorateStoreStatus quorate_store_explain_bus_errors(void);

/*
 Closes a store. Commits are in its files. The folder is released when the last snapshot and
 iterator are freed, too.

 # Safety
 `store` is NULL or came from quorate_store_open(), was not closed before, and no other call uses
 it at the same time.
 */
void quorate_store_close(QuorateStore *store);

/*
 Copies the value of a key. The caller frees it by quorate_store_free(), with both results.
 QUORATE_STORE_STATUS_NOT_FOUND if there is none. Without a copy: quorate_store_snapshot_get().

 # Safety
 `store` is NULL or an open store; `key` has `key_bytes` bytes; `value` and `value_bytes` are
 NULL or may be written to.
 */
QuorateStoreStatus quorate_store_get(const QuorateStore *store,
                                     const uint8_t *key,
                                     size_t key_bytes,
                                     uint8_t **value,
                                     size_t *value_bytes);

/*
 The same, with the hash of a key: 32 bytes. Finds the item whether it was put by its key or by
 its hash.

 # Safety
 `store` is NULL or an open store; `hash` is NULL or has 32 bytes; `value` and `value_bytes` are
 NULL or may be written to.
 */
QuorateStoreStatus quorate_store_get_by_hash(const QuorateStore *store,
                                             const uint8_t *hash,
                                             uint8_t **value,
                                             size_t *value_bytes);

/*
 Frees a value that quorate_store_get() or quorate_store_get_by_hash() has written.

 # Safety
 `value` is NULL, or `value` and `value_bytes` are the results of one such call, and were not
 freed before.
 */
void quorate_store_free(uint8_t *value, size_t value_bytes);

/*
 Puts an item in a commit of its own, and replaces the item of the same key.

 # Safety
 `store` is NULL or an open store; `key` has `key_bytes` bytes, `value` has `value_bytes`.
 */
QuorateStoreStatus quorate_store_put(const QuorateStore *store,
                                     const uint8_t *key,
                                     size_t key_bytes,
                                     const uint8_t *value,
                                     size_t value_bytes);

/*
 The same, with the hash of a key: 32 bytes. They are the BLAKE3 hash of the key, or other bytes
 with the distribution of a hash. It replaces the item of that key, too. The store then knows the
 hash alone, not the key.

 # Safety
 `store` is NULL or an open store; `hash` is NULL or has 32 bytes; `value` has `value_bytes`.
 */
QuorateStoreStatus quorate_store_put_by_hash(const QuorateStore *store,
                                             const uint8_t *hash,
                                             const uint8_t *value,
                                             size_t value_bytes);

/*
 Removes an item in a commit of its own. QUORATE_STORE_STATUS_NOT_FOUND if there was none.

 # Safety
 `store` is NULL or an open store; `key` has `key_bytes` bytes.
 */
QuorateStoreStatus quorate_store_delete(const QuorateStore *store, const uint8_t *key, size_t key_bytes);

/*
 The same, with the hash of a key: 32 bytes. Removes the item whether it was put by its key or by
 its hash.

 # Safety
 `store` is NULL or an open store; `hash` is NULL or has 32 bytes.
 */
QuorateStoreStatus quorate_store_delete_by_hash(const QuorateStore *store, const uint8_t *hash);

/*
 Makes all commits survive a power failure, whatever the durability of commits.

 # Safety
 `store` is NULL or an open store.
 */
QuorateStoreStatus quorate_store_sync(const QuorateStore *store);

/*
 Writes all changes to the space, so that the next start has nothing to replay.

 # Safety
 `store` is NULL or an open store.
 */
QuorateStoreStatus quorate_store_checkpoint(const QuorateStore *store);

/*
 Creates an empty batch. The caller frees it by quorate_store_batch_free().
 */
QuorateStoreBatch *quorate_store_batch_new(void);

/*
 Frees a batch. Commits made from it are unaffected.

 # Safety
 `batch` is NULL or came from quorate_store_batch_new(), was not freed before, and no other call
 uses it at the same time.
 */
void quorate_store_batch_free(QuorateStoreBatch *batch);

/*
 Appends: put an item, and replace the item of the same key.

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time; `key` has `key_bytes`
 bytes, `value` has `value_bytes`.
 */
QuorateStoreStatus quorate_store_batch_put(QuorateStoreBatch *batch,
                                           const uint8_t *key,
                                           size_t key_bytes,
                                           const uint8_t *value,
                                           size_t value_bytes);

/*
 Appends the same, with the hash of a key: 32 bytes. See quorate_store_put_by_hash().

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time; `hash` is NULL or has 32
 bytes; `value` has `value_bytes`.
 */
QuorateStoreStatus quorate_store_batch_put_by_hash(QuorateStoreBatch *batch,
                                                   const uint8_t *hash,
                                                   const uint8_t *value,
                                                   size_t value_bytes);

/*
 Appends: remove the item of a key, if there is one.

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time; `key` has `key_bytes`
 bytes.
 */
QuorateStoreStatus quorate_store_batch_delete(QuorateStoreBatch *batch, const uint8_t *key, size_t key_bytes);

/*
 Appends the same, with the hash of a key: 32 bytes.

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time; `hash` is NULL or has 32
 bytes.
 */
QuorateStoreStatus quorate_store_batch_delete_by_hash(QuorateStoreBatch *batch, const uint8_t *hash);

/*
 Removes all changes from a batch, so that it can be filled again.

 # Safety
 `batch` is NULL or a batch that no other call uses at the same time.
 */
QuorateStoreStatus quorate_store_batch_clear(QuorateStoreBatch *batch);

/*
 Commits the changes of a batch: all or none. The batch stays as it is.

 # Safety
 `store` is NULL or an open store; `batch` is NULL or a batch that no other call changes at the
 same time.
 */
QuorateStoreStatus quorate_store_write(const QuorateStore *store, const QuorateStoreBatch *batch);

/*
 Takes a snapshot. The caller frees it by quorate_store_snapshot_free(). There may be 1024 at
 once.

 # Safety
 `store` is NULL or an open store; `snapshot` is NULL or may be written to.
 */
QuorateStoreStatus quorate_store_snapshot(const QuorateStore *store, QuorateStoreSnapshot **snapshot);

/*
 Frees a snapshot. Its iterators remain valid until they are freed themselves.

 # Safety
 `snapshot` is NULL or came from quorate_store_snapshot(), was not freed before, and no other
 call uses it at the same time.
 */
void quorate_store_snapshot_free(QuorateStoreSnapshot *snapshot);

/*
 Finds the value of a key without a copy. The bytes belong to the snapshot: they are valid until
 it is freed. QUORATE_STORE_STATUS_NOT_FOUND if there is none.

 # Safety
 `snapshot` is NULL or a snapshot; `key` has `key_bytes` bytes; `value` and `value_bytes` are
 NULL or may be written to.
 */
QuorateStoreStatus quorate_store_snapshot_get(const QuorateStoreSnapshot *snapshot,
                                              const uint8_t *key,
                                              size_t key_bytes,
                                              const uint8_t **value,
                                              size_t *value_bytes);

/*
 The same, with the hash of a key: 32 bytes. Finds the item whether it was put by its key or by
 its hash.

 # Safety
 `snapshot` is NULL or a snapshot; `hash` is NULL or has 32 bytes; `value` and `value_bytes` are
 NULL or may be written to.
 */
QuorateStoreStatus quorate_store_snapshot_get_by_hash(const QuorateStoreSnapshot *snapshot,
                                                      const uint8_t *hash,
                                                      const uint8_t **value,
                                                      size_t *value_bytes);

/*
 Begins an iteration over all items of a snapshot, in the order of the hashes of their keys. The
 caller frees the iterator by quorate_store_iterator_free().

 # Safety
 `snapshot` is NULL or a snapshot; `iterator` is NULL or may be written to.
 */
QuorateStoreStatus quorate_store_iterate(const QuorateStoreSnapshot *snapshot, QuorateStoreIterator **iterator);

/*
 The next item; QUORATE_STORE_STATUS_NOT_FOUND if there is none. After
 QUORATE_STORE_STATUS_DAMAGED the iteration continues behind the unreadable part.

 # Safety
 `iterator` is NULL or an iterator that no other call uses at the same time; `item` is NULL or
 may be written to.
 */
QuorateStoreStatus quorate_store_iterator_next(QuorateStoreIterator *iterator, QuorateStoreItem *item);

/*
 Frees an iterator.

 # Safety
 `iterator` is NULL or came from quorate_store_iterate(), was not freed before, and no other call
 uses it at the same time.
 */
void quorate_store_iterator_free(QuorateStoreIterator *iterator);

/*
 Collects the statistics of a store. It scans every slab, and writers wait meanwhile.

 # Safety
 `store` is NULL or an open store; `statistics` is NULL or may be written to.
 */
QuorateStoreStatus quorate_store_statistics(const QuorateStore *store, QuorateStoreStatistics *statistics);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QUORATE_STORE_H */
