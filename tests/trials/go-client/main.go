// A client of etcd's own Go library that asks more of a server than a
// well-behaved program would, and says in one line of JSON what became of it.
//
//	go-client leases  ENDPOINT COUNT TTL_SECONDS SECONDS
//	go-client watches ENDPOINT COUNT
//	go-client large   ENDPOINT transaction|deletion|range OTHER_CLIENTS
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

func main() {
	if len(os.Args) < 3 {
		fail(fmt.Errorf("usage: go-client leases|watches|large ENDPOINT ..."))
	}
	var report any
	switch verb, endpoint := os.Args[1], os.Args[2]; verb {
	case "leases":
		report = leases(endpoint, number(3), int64(number(4)), time.Duration(number(5))*time.Second)
	case "watches":
		report = watches(endpoint, number(3))
	case "large":
		report = large(endpoint, word(3), number(4))
	default:
		fail(fmt.Errorf("%q is none of leases, watches, large", verb))
	}
	text, err := json.Marshal(report)
	check(err)
	fmt.Println(string(text))
}

// A client with one connection, that takes answers of any size.
func dial(endpoint string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:          []string{endpoint},
		DialTimeout:        30 * time.Second,
		MaxCallSendMsgSize: math.MaxInt32,
		MaxCallRecvMsgSize: math.MaxInt32,
		DialOptions:        []grpc.DialOption{grpc.WithBlock()},
	})
	check(err)
	return client
}

func word(index int) string {
	if len(os.Args) <= index {
		fail(fmt.Errorf("argument %d is missing", index))
	}
	return os.Args[index]
}

func number(index int) int {
	value, err := strconv.Atoi(word(index))
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "go-client:", err)
	os.Exit(1)
}
