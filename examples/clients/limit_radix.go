//go:build ignore

// Limits the users whose names are read from standard input. Needs radix 4: go get github.com/mediocregopher/radix/v4
//
// The client gets the leader from the cluster port of the nodes. It does not repeat calls, so the program repeats calls without a
// reply. A repeated call may charge twice.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/mediocregopher/radix/v4"
	"github.com/mediocregopher/radix/v4/resp/resp3"
)

func main() {
	config := radix.ClusterConfig{
		PoolConfig: radix.PoolConfig{Dialer: radix.Dialer{AuthPass: os.Getenv("THROTTLED_PASSWORD")}},
		SyncEvery:  250 * time.Millisecond, // reads the topology, by default every 5 s
	}
	client, err := config.New(context.Background(), strings.Split(cmp.Or(os.Getenv("THROTTLED_NODES"), "127.0.0.1:6384"), ","))
	if err != nil {
		log.Fatal(err)
	}
	for names := bufio.NewScanner(os.Stdin); names.Scan(); {
		// Bursts of up to 16, and 30 calls an hour.
		var reply []int64
		err := repeat(client, radix.FlatCmd(&reply, "CL.THROTTLE", "user:"+names.Text(), 15, 30, 3600))
		switch {
		case err != nil:
			log.Print(err) // the program chooses whether the request is admitted
		case reply[0] == 1:
			fmt.Printf("refused; retry after %d s\n", reply[3])
		default:
			fmt.Printf("admitted; %d remain\n", reply[2])
		}
	}
}

// repeat makes a call, and repeats it for up to 5 s while it fails without a reply of the server. Each attempt has a
// timeout, since a call to a node that is down otherwise waits for its context.
func repeat(client radix.MultiClient, call radix.Action) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := client.Do(attempt, call)
		cancel()
		var refused resp3.SimpleError
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // the pause between two attempts
	}
}
