package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

type leasesReport struct {
	Leases int `json:"leases"`
	// Of those, the ones that the server let expire although they were renewed.
	Lost int `json:"lost"`
	// Times that the connection stopped being ready.
	Cuts int `json:"cuts"`
	// Renewals that were answered.
	Renewed int64 `json:"renewed"`
}

// One client grants many leases, renews all of them on its one stream for a
// while, and then asks for each whether it still lives.
func leases(endpoint string, count int, ttl int64, lasting time.Duration) leasesReport {
	client := dial(endpoint)
	defer client.Close()
	ctx := context.Background()
	granted := make([]clientv3.LeaseID, count)
	var renewed atomic.Int64
	inParallel(count, 64, func(index int) {
		lease, err := client.Grant(ctx, ttl)
		check(err)
		granted[index] = lease.ID
		answers, err := client.KeepAlive(ctx, lease.ID)
		check(err)
		go func() {
			for range answers {
				renewed.Add(1)
			}
		}()
	})
	cuts := countCuts(client, lasting)
	var lost atomic.Int64
	inParallel(count, 64, func(index int) {
		answer, err := client.TimeToLive(ctx, granted[index])
		check(err)
		if answer.TTL < 0 {
			lost.Add(1)
		}
	})
	return leasesReport{Leases: count, Lost: int(lost.Load()), Cuts: cuts, Renewed: renewed.Load()}
}

// How often the connection stops being ready within a time.
func countCuts(client *clientv3.Client, lasting time.Duration) int {
	ctx, cancel := context.WithTimeout(context.Background(), lasting)
	defer cancel()
	connection, cuts := client.ActiveConnection(), 0
	for {
		state := connection.GetState()
		if !connection.WaitForStateChange(ctx, state) {
			return cuts
		}
		if state == connectivity.Ready {
			cuts++
		}
	}
}

// Does the work for each index below count, so many at a time.
func inParallel(count, workers int, work func(index int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for index := next.Add(1) - 1; index < int64(count); index = next.Add(1) - 1 {
				work(int(index))
			}
		})
	}
	group.Wait()
}
