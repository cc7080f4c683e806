/* What the header promises, and what it does with arguments that cannot be. */
#include "quorate_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                        \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition,                           \
                    quorate_store_error_message());                                              \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

#define OK QUORATE_STORE_STATUS_OK
#define ARGUMENT QUORATE_STORE_STATUS_ARGUMENT
#define NOT_FOUND QUORATE_STORE_STATUS_NOT_FOUND

static const uint8_t *text(const char *text) { return (const uint8_t *)text; }

static void arguments_that_cannot_be(QuorateStore *store) {
    QuorateStore *other = NULL;
    QuorateStoreSnapshot *snapshot = NULL;
    QuorateStoreIterator *iterator = NULL;
    QuorateStoreItem item;
    QuorateStoreOptions unknown = {7, 0, 0, 0};
    uint8_t *value = NULL;
    size_t length = 0;
    EXPECT(quorate_store_open(NULL, NULL, &other) == ARGUMENT);
    EXPECT(quorate_store_open("x", NULL, NULL) == ARGUMENT);
    EXPECT(quorate_store_open("x", &unknown, &other) == ARGUMENT && other == NULL);
    EXPECT(strstr(quorate_store_error_message(), "durability") != NULL);
    EXPECT(quorate_store_open("\xff", NULL, &other) == ARGUMENT);
    EXPECT(quorate_store_put(NULL, text("k"), 1, text("v"), 1) == ARGUMENT);
    EXPECT(quorate_store_put(store, NULL, 1, text("v"), 1) == ARGUMENT);
    EXPECT(quorate_store_put(store, text("k"), SIZE_MAX, text("v"), 1) == ARGUMENT);
    EXPECT(quorate_store_get(store, text("k"), 1, NULL, &length) == ARGUMENT);
    EXPECT(quorate_store_get(store, text("k"), 1, &value, NULL) == ARGUMENT && value == NULL);
    EXPECT(quorate_store_delete(NULL, text("k"), 1) == ARGUMENT);
    EXPECT(quorate_store_sync(NULL) == ARGUMENT);
    EXPECT(quorate_store_checkpoint(NULL) == ARGUMENT);
    EXPECT(quorate_store_write(store, NULL) == ARGUMENT);
    EXPECT(quorate_store_batch_put(NULL, text("k"), 1, text("v"), 1) == ARGUMENT);
    EXPECT(quorate_store_snapshot(store, NULL) == ARGUMENT);
    EXPECT(quorate_store_snapshot(NULL, &snapshot) == ARGUMENT && snapshot == NULL);
    EXPECT(quorate_store_iterate(NULL, &iterator) == ARGUMENT && iterator == NULL);
    EXPECT(quorate_store_iterator_next(NULL, &item) == ARGUMENT);
    EXPECT(quorate_store_statistics(store, NULL) == ARGUMENT);
    quorate_store_close(NULL);
    quorate_store_free(NULL, 0);
    quorate_store_batch_free(NULL);
    quorate_store_snapshot_free(NULL);
    quorate_store_iterator_free(NULL);
}

static void items(QuorateStore *store) {
    uint8_t *value = NULL;
    size_t length = 1;
    EXPECT(quorate_store_get(store, text("none"), 4, &value, &length) == NOT_FOUND);
    EXPECT(value == NULL && length == 1);
    EXPECT(quorate_store_put(store, NULL, 0, NULL, 0) == OK);
    EXPECT(quorate_store_get(store, NULL, 0, &value, &length) == OK && length == 0);
    quorate_store_free(value, length);
    EXPECT(quorate_store_delete(store, NULL, 0) == OK);
    EXPECT(quorate_store_delete(store, NULL, 0) == NOT_FOUND);

    /* Zeros within, and a limit. */
    EXPECT(quorate_store_put(store, text("a\0b"), 3, text("\0\0"), 2) == OK);
    EXPECT(quorate_store_get(store, text("a\0b"), 3, &value, &length) == OK && length == 2);
    quorate_store_free(value, length);
    uint8_t *long_key = calloc(1, 70000);
    EXPECT(long_key != NULL);
    EXPECT(quorate_store_put(store, long_key, 70000, NULL, 0) == QUORATE_STORE_STATUS_LIMIT);
    EXPECT(strstr(quorate_store_error_message(), "70000 bytes") != NULL);
    free(long_key);
}

static void snapshots_outlive_the_store(QuorateStore *store) {
    QuorateStoreBatch *batch = quorate_store_batch_new();
    QuorateStoreSnapshot *snapshot = NULL;
    QuorateStoreIterator *iterator = NULL;
    QuorateStoreStatistics statistics;
    QuorateStoreItem item, last;
    QuorateStore *second = NULL;
    char name[16];
    int found = 0;
    for (int i = 0; i < 1000; i++) {
        int length = snprintf(name, sizeof name, "item %d", i);
        EXPECT(quorate_store_batch_put(batch, text(name), (size_t)length, text(name), (size_t)length) == OK);
    }
    EXPECT(quorate_store_batch_delete(batch, text("item 7"), 6) == OK);
    EXPECT(quorate_store_write(store, batch) == OK);
    quorate_store_batch_free(batch);
    EXPECT(quorate_store_snapshot(store, &snapshot) == OK);
    EXPECT(quorate_store_delete(store, text("item 8"), 6) == OK);
    EXPECT(quorate_store_statistics(store, &statistics) == OK);
    EXPECT(statistics.items == 999 && statistics.snapshots == 1); /* 998, and a\0b */
    EXPECT(quorate_store_checkpoint(store) == OK);
    EXPECT(quorate_store_iterate(snapshot, &iterator) == OK);
    quorate_store_close(store);
    quorate_store_snapshot_free(snapshot);

    memset(&last, 0, sizeof last);
    while (quorate_store_iterator_next(iterator, &item) == OK) {
        EXPECT(memcmp(last.hash, item.hash, sizeof item.hash) < 0);
        EXPECT(item.key != NULL && (item.key_bytes == 3 || memcmp(item.key, item.value, item.key_bytes) == 0));
        last = item;
        found++;
    }
    EXPECT(found == 1000); /* 999, and a\0b */
    EXPECT(quorate_store_iterator_next(iterator, &item) == NOT_FOUND);
    EXPECT(quorate_store_open("store", NULL, &second) == QUORATE_STORE_STATUS_LOCKED);
    quorate_store_iterator_free(iterator);
    EXPECT(quorate_store_open("store", NULL, &second) == OK);
    quorate_store_close(second);
}

static void damage_is_told(void) {
    QuorateStore *store = NULL;
    FILE *head = fopen("store/store.head", "r+b");
    EXPECT(head != NULL && fseek(head, 20, SEEK_SET) == 0 && fputc(0xaa, head) == 0xaa && fclose(head) == 0);
    EXPECT(quorate_store_open("store", NULL, &store) == QUORATE_STORE_STATUS_DAMAGED && store == NULL);
    EXPECT(strstr(quorate_store_error_message(), "store.head is damaged at offset 0") != NULL);
    head = fopen("store/store.head", "r+b");
    EXPECT(head != NULL && fputc('x', head) == 'x' && fclose(head) == 0);
    EXPECT(quorate_store_open("store", NULL, &store) == QUORATE_STORE_STATUS_FOREIGN);
}

int main(void) {
    QuorateStore *store = NULL;
    QuorateStoreOptions options = {QUORATE_STORE_DURABILITY_OS, QUORATE_STORE_RECOVERY_STRICT, 0, 0};
    EXPECT(quorate_store_error_message()[0] == 0);
    EXPECT(quorate_store_open("store", &options, &store) == OK);
    arguments_that_cannot_be(store);
    items(store);
    EXPECT(quorate_store_sync(store) == OK);
    snapshots_outlive_the_store(store);
    damage_is_told();
    puts("all rules hold");
    return 0;
}
