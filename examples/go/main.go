// The lazy-trie store from Go.
//
//	cargo build --release -p quorate-store-c
//	cd examples/go && CGO_LDFLAGS=-L$PWD/../../target/release go run . FOLDER
package main

import (
	"fmt"
	"log"
	"os"

	"quorate/store"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: planets FOLDER")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(folder string) error {
	planets, err := store.Open(folder, nil)
	if err != nil {
		return err
	}
	defer planets.Close()
	if err := planets.Put([]byte("planet"), []byte("Uranus")); err != nil {
		return err
	}
	before, err := planets.Snapshot()
	if err != nil {
		return err
	}
	defer before.Close()

	// All of a batch or nothing; the snapshot stays as it is.
	batch := store.NewBatch()
	defer batch.Close()
	for key, value := range map[string]string{"planet": "Neptune", "moon": "Triton"} {
		if err := batch.Put([]byte(key), []byte(value)); err != nil {
			return err
		}
	}
	if err := planets.Write(batch); err != nil {
		return err
	}
	old, err := before.Get([]byte("planet"))
	if err != nil {
		return err
	}
	now, err := planets.Get([]byte("planet"))
	if err != nil {
		return err
	}
	fmt.Printf("in the snapshot: %s, now: %s\n", old, now)
	for item, err := range before.Items() {
		if err != nil {
			return err
		}
		fmt.Printf("%s = %s\n", item.Key, item.Value)
	}
	return nil
}
