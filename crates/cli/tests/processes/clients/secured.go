// go-redis at a gateway with TLS and users: go run secured.go PORT CA.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

func expect(what string, holds bool) {
	if !holds {
		fmt.Fprintln(os.Stderr, "expected: "+what)
		os.Exit(1)
	}
}

func says(err error, words string) bool {
	return err != nil && strings.Contains(err.Error(), words)
}

func main() {
	port, context := os.Args[1], context.Background()
	authority, err := os.ReadFile(os.Args[2])
	expect("an authority", err == nil)
	roots := x509.NewCertPool()
	expect("a certificate", roots.AppendCertsFromPEM(authority))
	client := func(protocol int, password string, config *tls.Config) *redis.Client {
		return redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:" + port, Protocol: protocol, Username: "app", Password: password,
			TLSConfig: config, MaxRetries: -1,
		})
	}
	for _, protocol := range []int{2, 3} {
		app := client(protocol, "secret", &tls.Config{RootCAs: roots})
		expect("SET", app.Set(context, "app:k", "v", 0).Err() == nil)
		value, err := app.Get(context, "app:k").Result()
		expect("GET", err == nil && value == "v")
		var counted, removed *redis.IntCmd
		_, err = app.TxPipelined(context, func(pipe redis.Pipeliner) error {
			counted, removed = pipe.Incr(context, "app:n"), pipe.Del(context, "app:n")
			return nil
		})
		expect("MULTI", err == nil && counted.Val() == 1 && removed.Val() == 1)
		expect("NOPERM of a key", says(app.Set(context, "other", "v", 0).Err(), "NOPERM No permissions to access a key"))
		expect("NOPERM of a command", says(app.FlushAll(context).Err(), "to run the 'flushall' command"))
		wrong := client(protocol, "wrong", &tls.Config{RootCAs: roots})
		expect("WRONGPASS", says(wrong.Ping(context).Err(), "WRONGPASS"))
	}
	// The port speaks TLS alone, and its certificate is of an authority that the system does not know.
	expect("no answer in the clear", client(3, "secret", nil).Ping(context).Err() != nil)
	var unknown x509.UnknownAuthorityError
	expect("an unknown authority", errors.As(client(3, "secret", &tls.Config{}).Ping(context).Err(), &unknown))
}
