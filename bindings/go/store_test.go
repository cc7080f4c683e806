package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func open(t *testing.T, folder string) *Store {
	t.Helper()
	store, err := Open(folder, &Options{Durability: OS})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func status(err error) Status {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Status
	}
	return 0
}

func TestItems(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "s")
	store := open(t, folder)
	if _, err := store.Get([]byte("planet")); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	must(t, store.Put([]byte("planet"), []byte("Uranus")))
	must(t, store.Put([]byte("planet"), []byte("Neptune")))
	must(t, store.Put(nil, nil))
	must(t, store.Put([]byte("a\x00b"), []byte{0, 255}))
	store.Close()
	store = open(t, folder)
	for key, want := range map[string]string{"planet": "Neptune", "": "", "a\x00b": "\x00\xff"} {
		value, err := store.Get([]byte(key))
		must(t, err)
		if value == nil || string(value) != want {
			t.Fatalf("%q: %q", key, value)
		}
	}
	must(t, store.Delete([]byte("planet")))
	if err := store.Delete([]byte("planet")); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	must(t, store.Sync())
	must(t, store.Checkpoint())
	statistics, err := store.Statistics()
	must(t, err)
	// What removed nothing is a commit, too.
	if statistics.Items != 2 || statistics.Checkpoints != 1 || statistics.Commits != 2 {
		t.Fatalf("%+v", statistics)
	}
}

func TestBatchAndSnapshot(t *testing.T) {
	store := open(t, t.TempDir())
	batch := NewBatch()
	for i := 0; i < 1000; i++ {
		must(t, batch.Put(fmt.Appendf(nil, "item %d", i), fmt.Appendf(nil, "value %d", i)))
	}
	must(t, batch.Delete([]byte("item 7")))
	must(t, store.Write(batch))
	before, err := store.Snapshot()
	must(t, err)
	must(t, batch.Clear())
	must(t, batch.Put([]byte("item 8"), []byte("new")))
	must(t, store.Write(batch))
	batch.Close()
	if err := batch.Put(nil, nil); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := store.Write(batch); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	old, err := before.Get([]byte("item 8"))
	must(t, err)
	now, err := store.Get([]byte("item 8"))
	must(t, err)
	if string(old) != "value 8" || string(now) != "new" {
		t.Fatalf("%q %q", old, now)
	}

	// A snapshot outlives the store, and an iteration the snapshot.
	store.Close()
	var last [32]byte
	count := 0
	for item, err := range before.Items() {
		must(t, err)
		if bytes.Compare(last[:], item.Hash[:]) >= 0 {
			t.Fatal("the order of hashes")
		}
		if string(item.Value) != strings.Replace(string(item.Key), "item", "value", 1) {
			t.Fatalf("%q: %q", item.Key, item.Value)
		}
		last = item.Hash
		count++
		if count == 500 {
			before.Close()
		}
	}
	if count != 999 {
		t.Fatal(count)
	}
	for _, err := range before.Items() {
		if !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
	if _, err := before.Get(nil); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestByHash(t *testing.T) {
	store := open(t, t.TempDir())
	must(t, store.Put([]byte("planet"), []byte("Uranus")))
	first, err := store.Snapshot()
	must(t, err)
	defer first.Close()
	var planet Hash
	for item, err := range first.Items() {
		must(t, err)
		planet = item.Hash
	}
	expect := func(want string, value []byte, err error) {
		t.Helper()
		must(t, err)
		if string(value) != want {
			t.Fatalf("%q, not %q", value, want)
		}
	}
	value, err := store.GetByHash(planet)
	expect("Uranus", value, err)
	must(t, store.PutByHash(planet, []byte("Neptune")))
	value, err = store.Get([]byte("planet"))
	expect("Neptune", value, err)
	value, err = first.GetByHash(planet)
	expect("Uranus", value, err)

	other := Hash{7, 7}
	if _, err := store.GetByHash(other); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	batch := NewBatch()
	defer batch.Close()
	must(t, batch.PutByHash(other, nil))
	must(t, batch.DeleteByHash(planet))
	must(t, store.Write(batch))
	value, err = store.GetByHash(other)
	expect("", value, err)
	if _, err := store.Get([]byte("planet")); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	second, err := store.Snapshot()
	must(t, err)
	defer second.Close()
	for item, err := range second.Items() {
		must(t, err)
		if item.Key != nil || item.Hash != other {
			t.Fatalf("%+v", item)
		}
	}
	must(t, store.DeleteByHash(other))
	if err := store.DeleteByHash(other); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := first.GetByHash(other); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

// busErrorFolder is set for the process that reads a region that was shortened.
const busErrorFolder = "QUORATE_STORE_BUS_ERROR"

func TestBusErrorsAreExplained(t *testing.T) {
	if folder := os.Getenv(busErrorFolder); folder != "" {
		must(t, ExplainBusErrors())
		store := open(t, folder)
		must(t, os.Truncate(filepath.Join(folder, "000000.space"), 4096))
		value, err := store.Get([]byte("k"))
		t.Fatalf("%q, %v", value, err)
	}
	folder := t.TempDir()
	store := open(t, folder)
	must(t, store.Put([]byte("k"), []byte("v")))
	must(t, store.Checkpoint())
	store.Close()
	command := exec.Command(os.Args[0], "-test.run=^TestBusErrorsAreExplained$")
	command.Env = append(os.Environ(), busErrorFolder+"="+folder)
	told, err := command.CombinedOutput()
	if err == nil {
		t.Fatal("it did not end by the signal")
	}
	for _, want := range []string{
		"error: SIGBUS: cannot read ", "000000.space at offset ", "the file was shortened to 4096 bytes", "goroutine ",
	} {
		if !strings.Contains(string(told), want) {
			t.Fatalf("%q is not in\n%s", want, told)
		}
	}
}

func TestStoppingAnIterationFreesIt(t *testing.T) {
	folder := t.TempDir()
	store := open(t, folder)
	must(t, store.Put([]byte("a"), nil))
	must(t, store.Put([]byte("b"), nil))
	snapshot, err := store.Snapshot()
	must(t, err)
	for _, err := range snapshot.Items() {
		must(t, err)
		break
	}
	snapshot.Close()
	store.Close()
	// The folder is free, so nothing is held.
	open(t, folder)
}

func TestErrors(t *testing.T) {
	folder := t.TempDir()
	store := open(t, folder)
	_, err := Open(folder, nil)
	if status(err) != StatusLocked || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatal(err)
	}
	if !errors.Is(err, &Error{Status: StatusLocked}) || errors.Is(err, &Error{Status: StatusDamaged}) {
		t.Fatal("what the error is")
	}
	if _, err := Open("a\x00b", nil); status(err) != StatusArgument {
		t.Fatal(err)
	}
	if _, err := Open(t.TempDir(), &Options{Durability: 7}); status(err) != StatusArgument {
		t.Fatal(err)
	}
	store.Close()
	store.Close()
	if err := store.Put(nil, nil); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := store.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}

	head := filepath.Join(folder, "store.head")
	content, err := os.ReadFile(head)
	must(t, err)
	content[20] ^= 1
	must(t, os.WriteFile(head, content, 0o600))
	_, err = Open(folder, nil)
	if status(err) != StatusDamaged || !strings.Contains(err.Error(), "store.head is damaged at offset 0") {
		t.Fatal(err)
	}
	must(t, os.WriteFile(head, []byte("another tool's file"), 0o600))
	if _, err = Open(folder, nil); status(err) != StatusForeign {
		t.Fatal(err)
	}
}

// Messages are kept by thread, and goroutines change threads.
func TestEachGoroutineGetsItsOwnMessage(t *testing.T) {
	store := open(t, t.TempDir())
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			length := 70_000 + worker
			key := make([]byte, length)
			name := fmt.Appendf(nil, "worker %d", worker)
			for round := 0; round < 200; round++ {
				err := store.Put(key, nil)
				if status(err) != StatusLimit || !strings.Contains(err.Error(), fmt.Sprint(length)) {
					t.Errorf("worker %d: %v", worker, err)
				}
				if err := store.Put(name, fmt.Append(nil, round)); err != nil {
					t.Error(err)
				}
				value, err := store.Get(name)
				if err != nil || string(value) != fmt.Sprint(round) {
					t.Errorf("worker %d: %q, %v", worker, value, err)
				}
			}
		}()
	}
	group.Wait()
}
