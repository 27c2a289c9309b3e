package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// Of the values that a large transaction or range reads.
	valueBytes       = 1 << 20
	transactionReads = 300
	rangeReads       = 400
	// A little below what one deletion may cover, of keys of this length.
	deletedKeys = 400_000
	// Others are looked at for so long before the large request, and after it.
	quiet = 5 * time.Second
)

type largeReport struct {
	// What the large request was answered with; empty: it was done.
	Refused string  `json:"refused"`
	Seconds float64 `json:"seconds"`
	Term    uint64  `json:"term_before"`
	// Differs where the members have elected again.
	TermAfter uint64 `json:"term_after"`
	// Of other clients' puts and reads, in milliseconds.
	Normal latencies `json:"normal"`
	During latencies `json:"during"`
}

type latencies struct {
	Count  int     `json:"count"`
	Failed int     `json:"failed"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`
}

// One client sends one large request, while others, each on a connection of
// its own, put and read small values.
func large(endpoint, kind string, others int) largeReport {
	client := dial(endpoint)
	defer client.Close()
	request := prepare(client, kind)
	report := largeReport{Term: term(client, endpoint)}
	report.Normal = watchOthers(endpoint, others, func() { time.Sleep(quiet) })
	report.During = watchOthers(endpoint, others, func() {
		begun := time.Now()
		if err := request(); err != nil {
			report.Refused = err.Error()
		}
		report.Seconds = time.Since(begun).Seconds()
		// What was set off may still be at work after the answer.
		if report.Seconds < 1 {
			time.Sleep(time.Second)
		}
	})
	report.TermAfter = term(client, endpoint)
	return report
}

// Fills the store with what the request needs; the request.
func prepare(client *clientv3.Client, kind string) func() error {
	ctx := context.Background()
	switch kind {
	case "transaction":
		fill(client, "large/", transactionReads)
		read := clientv3.OpGet("large/", clientv3.WithPrefix())
		operations := []clientv3.Op{clientv3.OpPut("mark", "1"), read, read, read, read}
		return func() error {
			_, err := client.Txn(ctx).Then(operations...).Commit()
			return err
		}
	case "range":
		fill(client, "large/", rangeReads)
		return func() error {
			answer, err := client.Get(ctx, "large/", clientv3.WithPrefix())
			if err == nil && len(answer.Kvs) != rangeReads {
				err = fmt.Errorf("%d values instead of %d", len(answer.Kvs), rangeReads)
			}
			return err
		}
	case "deletion":
		fillKeys(client, deletedKeys)
		return func() error {
			answer, err := client.Delete(ctx, "deleted/", clientv3.WithPrefix())
			if err == nil && answer.Deleted != deletedKeys {
				err = fmt.Errorf("%d keys deleted instead of %d", answer.Deleted, deletedKeys)
			}
			return err
		}
	}
	fail(fmt.Errorf("%q is none of transaction, deletion, range", kind))
	return nil
}

func fill(client *clientv3.Client, prefix string, count int) {
	value := string(make([]byte, valueBytes))
	inParallel(count, 4, func(index int) {
		_, err := client.Put(context.Background(), fmt.Sprintf("%s%06d", prefix, index), value)
		check(err)
	})
}

func fillKeys(client *clientv3.Client, count int) {
	const perTransaction = 100
	inParallel(count/perTransaction, 32, func(index int) {
		puts := make([]clientv3.Op, 0, perTransaction)
		for sub := range perTransaction {
			key := fmt.Sprintf("deleted/%08d", index*perTransaction+sub)
			puts = append(puts, clientv3.OpPut(key, "a value of some bytes"))
		}
		_, err := client.Txn(context.Background()).Then(puts...).Commit()
		check(err)
	})
}

func term(client *clientv3.Client, endpoint string) uint64 {
	status, err := client.Status(context.Background(), endpoint)
	check(err)
	return status.RaftTerm
}

// What other clients' small requests take while something goes on.
func watchOthers(endpoint string, count int, something func()) latencies {
	stop := make(chan struct{})
	var group sync.WaitGroup
	var lock sync.Mutex
	var taken []float64
	failed := 0
	for index := range count {
		other := dial(endpoint)
		group.Go(func() {
			defer other.Close()
			mine, wrong := smallRequests(other, index, stop)
			lock.Lock()
			defer lock.Unlock()
			taken, failed = append(taken, mine...), failed+wrong
		})
	}
	something()
	close(stop)
	group.Wait()
	slices.Sort(taken)
	at := func(share float64) float64 {
		if len(taken) == 0 {
			return 0
		}
		return taken[min(int(share*float64(len(taken))), len(taken)-1)]
	}
	return latencies{Count: len(taken), Failed: failed, P50: at(0.5), P99: at(0.99), Max: at(1)}
}

// Puts and reads a small value in turn, one request every 2 ms at most; how long each took.
func smallRequests(client *clientv3.Client, index int, stop chan struct{}) (taken []float64, failed int) {
	key := fmt.Sprintf("small/%d", index)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-stop:
			return taken, failed
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		begun := time.Now()
		var err error
		if turn%2 == 0 {
			_, err = client.Put(ctx, key, "small")
		} else {
			_, err = client.Get(ctx, key)
		}
		taken = append(taken, float64(time.Since(begun).Microseconds())/1000)
		cancel()
		if err != nil {
			failed++
		}
	}
}
