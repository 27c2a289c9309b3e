// Package testserver takes the place of the package of this name in k8s.io/apiserver: it starts
// Inkstone where that one starts etcd. The variable INKSTONE names the program.
package testserver

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

var oneStartAtATime sync.Mutex

// NewTestConfig chooses a directory and a free port.
func NewTestConfig(t testing.TB) *embed.Config {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	cfg := embed.NewConfig()
	own := url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	cfg.ListenClientUrls = []url.URL{own}
	cfg.AdvertiseClientUrls = []url.URL{own}
	cfg.Dir = t.TempDir()
	return cfg
}

// RunEtcd starts a server and returns a client of it; the server ends with the test.
func RunEtcd(t testing.TB, cfg *embed.Config) *kubernetes.Client {
	t.Helper()
	oneStartAtATime.Lock()
	defer oneStartAtATime.Unlock()
	if cfg == nil {
		cfg = NewTestConfig(t)
	}
	client, err := kubernetes.New(clientv3.Config{
		Endpoints:   []string{start(t, cfg)},
		DialTimeout: 10 * time.Second,
		Logger:      zaptest.NewLogger(t, zaptest.Level(zapcore.ErrorLevel)),
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder := storagetesting.NewKubernetesRecorder(client.Kubernetes)
	client.KV = storagetesting.NewKVRecorder(client.KV, recorder)
	client.Kubernetes = recorder
	return client
}

// start returns the server's URL when it is ready.
func start(t testing.TB, cfg *embed.Config) string {
	own := cfg.ListenClientUrls[0].String()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Getenv("INKSTONE"), "serve", "--data-dir="+filepath.Join(cfg.Dir, "data"),
		"--listen-client-urls="+own, "--advertise-client-urls="+own,
		"--watch-progress-notify-interval="+cfg.WatchProgressNotifyInterval.String())
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	for i := 0; i < 600; i++ {
		text, _ := os.ReadFile(log.Name())
		if bytes.Contains(text, []byte("ready to serve client requests")) {
			return own
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	t.Fatalf("the server is not ready: %s", text)
	return ""
}
