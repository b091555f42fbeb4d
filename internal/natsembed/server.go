// Package natsembed runs the NATS server inside the process, with JetStream on
// a directory of ours.
//
// Invariants
//
//  1. One process a directory: the server has no lock of its own, and two would
//     both acknowledge while the data of one vanishes.
//  2. What is acknowledged survives a kill of the process. What it takes for it
//     to survive a power cut too is [Durability].
//  3. The store stays below the free space of its disk: a full disk would leave
//     publishers without an answer, and the stream dead until a restart.
package natsembed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Config is how the server runs. Only Dir has no default.
type Config struct {
	// Dir holds everything that the server stores. It is made if it is not
	// there; it must not be shared with another process.
	Dir string
	// Host and Port are where it listens. Default 127.0.0.1 and any free port
	// (0 or -1).
	Host string
	Port int
	// Durability is what an acknowledgement means. Default
	// DurabilityInterval.
	Durability Durability
	// SyncInterval is how often written data are synced to disk, but for
	// DurabilityAlways. Default 100 ms.
	SyncInterval time.Duration
	// MaxStore bounds the bytes on disk; a full store refuses appends. Default
	// 0: what is stored now and the free space of the disk, but for a reserve of
	// a tenth of that space and at most 2 GiB.
	MaxStore int64
	// MaxMemory bounds streams kept in memory. Default 256 MiB.
	MaxMemory int64
	// MaxPayload bounds one message. Default 1 MiB, at most 64 MiB.
	MaxPayload int32
	// StartTimeout bounds the start, recovery of the store included. Default
	// 2 min; a million messages take 0.7 s after a kill.
	StartTimeout time.Duration

	// User and Password, where set, are asked of every client.
	User     string
	Password string
	// TLSCert and TLSKey are PEM files; with them, TLS is required. TLSCA, where
	// set, must have signed the clients' certificates.
	TLSCert string
	TLSKey  string
	TLSCA   string

	// Logger gets the server's warnings and errors. Default: discarded.
	Logger *slog.Logger
}

// Durability is what an acknowledgement of the server means.
type Durability string

// The values of Durability.
const (
	// DurabilityInterval: written, and synced within SyncInterval. A power cut
	// loses the last tens of events.
	DurabilityInterval Durability = "interval"
	// DurabilityBarrier: the same, and whoever appends waits for [Server.Sync]:
	// one sync of the disk for all that wait. A power cut loses nothing.
	DurabilityBarrier Durability = "barrier"
	// DurabilityAlways: the server syncs each write. A power cut loses nothing;
	// slower than a barrier where many append.
	DurabilityAlways Durability = "always"
)

// Server is a running server. It is an in-process connection provider for
// nats.InProcessServer.
type Server struct {
	ns     *server.Server
	lock   *dirLock
	syncer *syncer
	once   sync.Once
}

// Start locks the directory and runs the server on it. The error of a
// directory in use is a *[LockedError].
func Start(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("natsembed: config: %w", err)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsembed: start: %w", err)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s, err := start(cfg)
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	s.lock = lock
	return s, nil
}

func start(cfg Config) (*Server, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("natsembed: start: %w", err)
	}
	if err := portFree(cfg.Host, cfg.Port); err != nil {
		return nil, err
	}
	disk, err := newSyncer(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("natsembed: start: %w", err)
	}
	ns, err := server.NewServer(options)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("natsembed: start: %w", err), disk.close())
	}
	out := &logger{log: cfg.Logger, fatal: make(chan string, 1)}
	ns.SetLoggerV2(out, false, false, false)
	ready := make(chan bool, 1)
	go func() {
		ns.Start()
		ready <- ns.ReadyForConnections(cfg.StartTimeout)
	}()
	select {
	case ok := <-ready:
		if ok && ns.JetStreamEnabled() {
			return &Server{ns: ns, syncer: disk}, nil
		}
		err = fmt.Errorf("natsembed: start: not ready within %v; raise StartTimeout if the store is large", cfg.StartTimeout)
	case text := <-out.fatal:
		err = fmt.Errorf("natsembed: start: %s", text)
	}
	ns.Shutdown()
	return nil, errors.Join(err, disk.close())
}

// InProcessConn is a connection without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.InProcessConn() }

// ClientURL is where clients of other processes connect.
func (s *Server) ClientURL() string { return s.ns.ClientURL() }

// Port is the port that it listens on.
func (s *Server) Port() int {
	if a, ok := s.ns.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// Sync returns when everything that was acknowledged before the call is on
// disk. Callers share rounds: one sync serves all that wait for it. It also
// makes new streams durable; call it once after they are created.
func (s *Server) Sync(ctx context.Context) error { return s.syncer.wait(ctx) }

// Shutdown ends the server in order: it writes its index, so that the next
// start is fast, and then frees the directory. It may be called twice.
func (s *Server) Shutdown() {
	s.once.Do(func() {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		_ = s.syncer.close() // read only: nothing of it can be lost
		_ = s.lock.release() // the end of the process frees it at the latest
	})
}

func (c Config) withDefaults() Config {
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if c.Port == 0 {
		c.Port = server.RANDOM_PORT
	}
	if c.Durability == "" {
		c.Durability = DurabilityInterval
	}
	if c.SyncInterval == 0 {
		c.SyncInterval = defaultSyncInterval
	}
	if c.MaxMemory == 0 {
		c.MaxMemory = 256 << 20
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = 1 << 20
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 2 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Dir == "":
		return errors.New("field Dir is empty; name the directory that holds the log")
	case c.Durability != DurabilityInterval && c.Durability != DurabilityBarrier && c.Durability != DurabilityAlways:
		return fmt.Errorf("field Durability is %q, not one of interval, barrier, always", c.Durability)
	case c.Port < -1 || c.Port > 65535:
		return fmt.Errorf("field Port is %d; want 1 to 65535, or 0 for any", c.Port)
	case c.SyncInterval < 0 || c.MaxStore < 0 || c.MaxMemory < 0 || c.StartTimeout < 0:
		return errors.New("fields SyncInterval, MaxStore, MaxMemory and StartTimeout must not be negative")
	case c.MaxPayload < 0 || c.MaxPayload > 64<<20:
		return fmt.Errorf("field MaxPayload is %d; want at most 64 MiB", c.MaxPayload)
	case (c.User == "") != (c.Password == ""):
		return errors.New("fields User and Password go together; set both or none")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("fields TLSCert and TLSKey go together; set both or none")
	case c.TLSCA != "" && c.TLSCert == "":
		return errors.New("field TLSCA without TLSCert; a server that checks certificates needs one")
	}
	return nil
}

func (c Config) options() (*server.Options, error) {
	if c.MaxStore == 0 {
		most, err := maxStore(c.Dir)
		if err != nil {
			return nil, err
		}
		c.MaxStore = most
	}
	o := &server.Options{
		ServerName:             "loopd",
		Host:                   c.Host,
		Port:                   c.Port,
		JetStream:              true,
		StoreDir:               c.Dir,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
		JetStreamMaxStore:      c.MaxStore,
		JetStreamMaxMemory:     c.MaxMemory,
		MaxPayload:             c.MaxPayload,
		SyncInterval:           c.SyncInterval,
		SyncAlways:             c.Durability == DurabilityAlways,
		Username:               c.User,
		Password:               c.Password,
	}
	if c.TLSCert == "" {
		return o, nil
	}
	tls, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: c.TLSCert, KeyFile: c.TLSKey, CaFile: c.TLSCA, Verify: c.TLSCA != ""})
	if err != nil {
		return nil, err
	}
	o.TLS, o.TLSVerify, o.TLSConfig, o.TLSTimeout = true, c.TLSCA != "", tls, 5
	return o, nil
}

// portFree says at once what the server would only say by never being ready.
func portFree(host string, port int) error {
	if port <= 0 {
		return nil
	}
	address := net.JoinHostPort(host, strconv.Itoa(port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("natsembed: start: listen on %s: %w; choose another port, or 0 for any", address, err)
	}
	return listener.Close()
}

// stored is the bytes of all files below a directory.
func stored(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		sum += info.Size()
		return nil
	})
	return sum, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// maxReserve is the most of a disk that the store leaves to others.
const maxReserve = 2 << 30

func maxStore(dir string) (int64, error) {
	used, err := stored(dir)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", dir, err)
	}
	free, err := freeBytes(dir)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return max(used+free-min(free/10, maxReserve), 1), nil
}

// logger passes the server's warnings and errors on. A fatal error of its is
// how a start fails.
type logger struct {
	log   *slog.Logger
	fatal chan string
}

func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error("server: " + text)
	select {
	case l.fatal <- text:
	default:
	}
}

func (l *logger) Errorf(format string, v ...any) { l.log.Error("server: " + line(format, v)) }
func (l *logger) Warnf(format string, v ...any)  { l.log.Warn("server: " + line(format, v)) }
func (*logger) Noticef(string, ...any)           {}
func (*logger) Debugf(string, ...any)            {}
func (*logger) Tracef(string, ...any)            {}

func line(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }
