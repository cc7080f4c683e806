/* The lazy-trie store from C.
 *
 *   cargo build --release -p quorate-store-c
 *   cc -Icrates/store-c examples/c/planets.c target/release/libquorate_store_c.a -lpthread -ldl -lm -o planets
 *   ./planets                                    (makes a folder planets.store)
 */
#include "quorate_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "planets.store"

static void must(QuorateStoreStatus status) {
    if (status != QUORATE_STORE_STATUS_OK) {
        fprintf(stderr, "status %d: %s\n", (int)status, quorate_store_error_message());
        exit(1);
    }
}

static const uint8_t *bytes(const char *text) { return (const uint8_t *)text; }

static void put(QuorateStore *store, const char *key, const char *value) {
    must(quorate_store_put(store, bytes(key), strlen(key), bytes(value), strlen(value)));
}

int main(void) {
    QuorateStore *store = NULL;
    must(quorate_store_open(FOLDER, NULL, &store));

    /* An item: the value is ours until we free it. */
    put(store, "planet", "Uranus");
    uint8_t *value = NULL;
    size_t length = 0;
    must(quorate_store_get(store, bytes("planet"), 6, &value, &length));
    printf("planet = %.*s\n", (int)length, (const char *)value);
    quorate_store_free(value, length);

    /* A snapshot stays as it is while a batch, all of it or nothing, changes the store. */
    QuorateStoreSnapshot *before = NULL;
    must(quorate_store_snapshot(store, &before));
    QuorateStoreBatch *batch = quorate_store_batch_new();
    must(quorate_store_batch_put(batch, bytes("planet"), 6, bytes("Neptune"), 7));
    must(quorate_store_batch_put(batch, bytes("moon"), 4, bytes("Triton"), 6));
    must(quorate_store_write(store, batch));
    quorate_store_batch_free(batch);

    /* Without a copy: these bytes are the snapshot's. */
    const uint8_t *old = NULL;
    size_t old_length = 0;
    must(quorate_store_snapshot_get(before, bytes("planet"), 6, &old, &old_length));
    must(quorate_store_get(store, bytes("planet"), 6, &value, &length));
    printf("in the snapshot: %.*s, now: %.*s\n", (int)old_length, (const char *)old, (int)length,
           (const char *)value);
    quorate_store_free(value, length);
    quorate_store_snapshot_free(before);

    /* All items. */
    QuorateStoreSnapshot *now = NULL;
    QuorateStoreIterator *items = NULL;
    QuorateStoreItem item;
    QuorateStoreStatus status;
    int count = 0;
    must(quorate_store_snapshot(store, &now));
    must(quorate_store_iterate(now, &items));
    while ((status = quorate_store_iterator_next(items, &item)) == QUORATE_STORE_STATUS_OK) count++;
    if (status != QUORATE_STORE_STATUS_NOT_FOUND) must(status);
    quorate_store_iterator_free(items);
    quorate_store_snapshot_free(now);
    printf("%d items, in the order of hashes\n", count);

    /* One process, and one handle, to a folder. */
    QuorateStore *second = NULL;
    if (quorate_store_open(FOLDER, NULL, &second) == QUORATE_STORE_STATUS_LOCKED)
        puts("the folder in use: a second opening was refused");

    quorate_store_close(store);
    return 0;
}
