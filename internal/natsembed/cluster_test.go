package natsembed_test

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/logtest"
)

// TestSuiteCluster runs the suite that any log must pass over three servers
// with three replicas; a restart takes the leader of the events away.
func TestSuiteCluster(t *testing.T) {
	c := startCluster(t)
	var logs atomic.Int32
	logtest.Run(t, func(t *testing.T) logtest.Server {
		prefix := fmt.Sprint("loop", logs.Add(1))
		return logtest.Server{
			Open: func(t testing.TB, change func(*eventlog.Config)) *eventlog.Log {
				config := eventlog.Config{URL: c.urls(), Prefix: prefix, Replicas: 3}
				if change != nil {
					change(&config)
				}
				l, err := eventlog.Open(logtest.Context(t), config)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(l.Close)
				return l
			},
			Restart: func(t testing.TB) { c.restartLeader(t, strings.ToUpper(prefix)+"_EVENTS") },
		}
	})
}

type cluster struct {
	options [3]*server.Options
	nodes   [3]*server.Server
}

func startCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{}
	var routes []*url.URL
	var ports [3]int
	for i := range ports {
		ports[i] = freePort(t)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", ports[i])})
	}
	for i := range c.nodes {
		c.options[i] = &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: freePort(t),
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 64 << 20,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[i], PoolSize: -1},
			Routes:  routes, NoSigs: true, NoLog: true,
		}
		c.start(t, i)
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.Shutdown()
			n.WaitForShutdown()
		}
	})
	c.await(t, c.current)
	return c
}

// current reports whether every server knows all that the cluster knows.
func (c *cluster) current() bool {
	for _, n := range c.nodes {
		if !n.JetStreamIsCurrent() {
			return false
		}
	}
	return true
}

func (c *cluster) start(t testing.TB, i int) {
	t.Helper()
	n, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	if !n.ReadyForConnections(20 * time.Second) {
		t.Fatalf("server %d is not ready", i)
	}
	c.nodes[i] = n
}

func (c *cluster) urls() string {
	var urls []string
	for _, o := range c.options {
		urls = append(urls, fmt.Sprint("nats://127.0.0.1:", o.Port))
	}
	return strings.Join(urls, ",")
}

func (c *cluster) restartLeader(t testing.TB, stream string) {
	t.Helper()
	nc, err := nats.Connect(c.urls())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(logtest.Context(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	leader := s.CachedInfo().Cluster.Leader
	for i, o := range c.options {
		if o.ServerName == leader {
			c.nodes[i].Shutdown()
			c.nodes[i].WaitForShutdown()
			c.start(t, i)
			c.await(t, c.current)
			return
		}
	}
	t.Fatalf("stream %s has the leader %q", stream, leader)
}

// await polls what has no signal.
func (c *cluster) await(t testing.TB, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx := logtest.Context(t)
	for !ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the cluster did not become ready")
		}
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
