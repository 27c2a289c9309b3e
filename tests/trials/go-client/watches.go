package main

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

type watchesReport struct {
	Asked int `json:"asked"`
	// Watches that the server said it has created.
	Taken   int     `json:"taken"`
	Seconds float64 `json:"seconds"`
	// Why there were not more.
	Error string `json:"error"`
}

// Many watches are asked for on one stream, without waiting for an answer to any.
func watches(endpoint string, count int) watchesReport {
	client := dial(endpoint)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	stream, err := pb.NewWatchClient(client.ActiveConnection()).Watch(ctx)
	check(err)
	begun := time.Now()
	go func() {
		for index := range count {
			create := &pb.WatchCreateRequest{Key: fmt.Appendf(nil, "watched/%07d", index)}
			request := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
			if stream.Send(request) != nil {
				// The other half says why.
				return
			}
		}
	}()
	report := watchesReport{Asked: count}
	for report.Taken < count {
		answer, err := stream.Recv()
		if err != nil {
			report.Error = err.Error()
			break
		}
		if answer.Created {
			report.Taken++
		}
	}
	report.Seconds = time.Since(begun).Seconds()
	return report
}
