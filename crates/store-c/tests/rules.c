/* What the header promises, and what it does with arguments that cannot be. */
#define _XOPEN_SOURCE 700
#include "quorate_store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void items_by_hash(QuorateStore *store) {
    uint8_t planet[32], other[32];
    uint8_t *value = NULL;
    const uint8_t *seen = NULL;
    size_t length = 0;
    QuorateStoreBatch *batch = quorate_store_batch_new();
    QuorateStoreSnapshot *snapshot = NULL;
    QuorateStoreIterator *iterator = NULL;
    QuorateStoreItem item;
    memset(other, 7, sizeof other);
    EXPECT(quorate_store_put(store, text("planet"), 6, text("Uranus"), 6) == OK);
    EXPECT(quorate_store_snapshot(store, &snapshot) == OK && quorate_store_iterate(snapshot, &iterator) == OK);
    do {
        EXPECT(quorate_store_iterator_next(iterator, &item) == OK);
    } while (item.key_bytes != 6);
    memcpy(planet, item.hash, sizeof planet);
    quorate_store_iterator_free(iterator);
    quorate_store_snapshot_free(snapshot);
    EXPECT(quorate_store_get_by_hash(store, planet, &value, &length) == OK);
    EXPECT(length == 6 && memcmp(value, "Uranus", 6) == 0);
    quorate_store_free(value, length);
    EXPECT(quorate_store_get_by_hash(store, other, &value, &length) == NOT_FOUND);
    EXPECT(quorate_store_put_by_hash(store, planet, text("Neptune"), 7) == OK);
    EXPECT(quorate_store_get(store, text("planet"), 6, &value, &length) == OK && length == 7);
    quorate_store_free(value, length);

    EXPECT(quorate_store_batch_put_by_hash(batch, other, NULL, 0) == OK);
    EXPECT(quorate_store_batch_delete_by_hash(batch, planet) == OK);
    EXPECT(quorate_store_write(store, batch) == OK);
    quorate_store_batch_free(batch);
    EXPECT(quorate_store_snapshot(store, &snapshot) == OK);
    EXPECT(quorate_store_snapshot_get_by_hash(snapshot, other, &seen, &length) == OK && length == 0);
    EXPECT(quorate_store_snapshot_get_by_hash(snapshot, planet, &seen, &length) == NOT_FOUND);
    quorate_store_snapshot_free(snapshot);
    EXPECT(quorate_store_delete_by_hash(store, other) == OK);
    EXPECT(quorate_store_delete_by_hash(store, other) == NOT_FOUND);
    EXPECT(quorate_store_get(store, text("planet"), 6, &value, &length) == NOT_FOUND);

    EXPECT(quorate_store_get_by_hash(store, NULL, &value, &length) == ARGUMENT);
    EXPECT(strstr(quorate_store_error_message(), "hash is NULL") != NULL);
    EXPECT(quorate_store_get_by_hash(store, other, NULL, &length) == ARGUMENT);
    EXPECT(quorate_store_put_by_hash(NULL, other, NULL, 0) == ARGUMENT);
    EXPECT(quorate_store_put_by_hash(store, NULL, NULL, 0) == ARGUMENT);
    EXPECT(quorate_store_put_by_hash(store, other, NULL, 1) == ARGUMENT);
    EXPECT(quorate_store_delete_by_hash(store, NULL) == ARGUMENT);
    EXPECT(quorate_store_batch_put_by_hash(NULL, other, NULL, 0) == ARGUMENT);
    EXPECT(quorate_store_batch_delete_by_hash(NULL, other) == ARGUMENT);
    EXPECT(quorate_store_snapshot_get_by_hash(NULL, other, &seen, &length) == ARGUMENT);
}

/* A handler that was there before, which ends the process in its own way. */
static void before(int signal) { _exit(40 + (signal == SIGBUS)); }

/* How a process ends that reads a store whose region was shortened, and what it says. */
static int bus_error(const char *folder, int explained, int chained, char *said, size_t room) {
    QuorateStore *store = NULL;
    char region[64];
    int ends[2], status = 0;
    size_t length = 0;
    ssize_t got;
    pid_t child;
    EXPECT(quorate_store_open(folder, NULL, &store) == OK);
    EXPECT(quorate_store_put(store, text("k"), 1, text("v"), 1) == OK && quorate_store_checkpoint(store) == OK);
    quorate_store_close(store);
    snprintf(region, sizeof region, "%s/000000.space", folder);
    EXPECT(pipe(ends) == 0);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        uint8_t *value = NULL;
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = chained ? before : SIG_DFL;
        EXPECT(dup2(ends[1], 2) == 2 && sigaction(SIGBUS, &action, NULL) == 0);
        EXPECT(!explained || quorate_store_explain_bus_errors() == OK);
        EXPECT(quorate_store_open(folder, NULL, &store) == OK);
        EXPECT(truncate(region, 4096) == 0);
        quorate_store_get(store, text("k"), 1, &value, &length);
        _exit(1);
    }
    close(ends[1]);
    while ((got = read(ends[0], said + length, room - 1 - length)) > 0) length += (size_t)got;
    said[length] = 0;
    close(ends[0]);
    EXPECT(waitpid(child, &status, 0) == child);
    return status;
}

static void bus_errors_are_explained(void) {
    char said[4096];
    int status = bus_error("silent", 0, 0, said, sizeof said);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS && said[0] == 0);
    status = bus_error("told", 1, 0, said, sizeof said);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    EXPECT(strstr(said, "error: SIGBUS: cannot read ") == said);
    EXPECT(strstr(said, "told/000000.space at offset ") != NULL);
    EXPECT(strstr(said, "the file was shortened to 4096 bytes") != NULL);
    status = bus_error("chained", 1, 1, said, sizeof said);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 41);
    EXPECT(strstr(said, "chained/000000.space at offset ") != NULL);
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
    /* A byte of the store's identity, which is drawn by chance: any value may be there. */
    int byte = head != NULL && fseek(head, 20, SEEK_SET) == 0 ? fgetc(head) : EOF;
    EXPECT(byte != EOF && fseek(head, 20, SEEK_SET) == 0);
    EXPECT(fputc(byte ^ 0xff, head) == (byte ^ 0xff) && fclose(head) == 0);
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
    items_by_hash(store);
    EXPECT(quorate_store_sync(store) == OK);
    snapshots_outlive_the_store(store);
    damage_is_told();
    bus_errors_are_explained();
    puts("all rules hold");
    return 0;
}
