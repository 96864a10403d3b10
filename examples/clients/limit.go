//go:build ignore

// Limits the users whose names are read from standard input. Needs go-redis 9: go get github.com/redis/go-redis/v9
//
// The client gets the leader from the cluster port of the nodes, and repeats calls while there is no leader.
package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                      strings.Split(cmp.Or(os.Getenv("THROTTLED_NODES"), "127.0.0.1:6384"), ","),
		Password:                   os.Getenv("THROTTLED_PASSWORD"),
		MaxRedirects:               8, // the default of 3 quick attempts takes less time than an election
		ClusterStateReloadInterval: time.Second,
	})
	for names := bufio.NewScanner(os.Stdin); names.Scan(); {
		// Bursts of up to 16, and 30 calls an hour.
		reply, err := client.Do(context.Background(), "CL.THROTTLE", "user:"+names.Text(), 15, 30, 3600).Int64Slice()
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
