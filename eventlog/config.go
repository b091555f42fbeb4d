package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Config says where the log lies and how it behaves. The zero value is a log
// on nats://127.0.0.1:4222.
type Config struct {
	// URL of the server, or several separated by commas. Default
	// nats://127.0.0.1:4222, or none where InProcess is set. With InProcess it
	// is used for bulk reads, which are faster over TCP on loopback.
	URL string
	// InProcess connects without a socket where the server is embedded;
	// appends and requests take this way.
	InProcess nats.InProcessConnProvider

	// CredsFile is a NATS credentials file (JWT and seed). At most one of
	// CredsFile, User and Token is set.
	CredsFile string
	User      string
	Password  string
	Token     string
	// TLSCA is a PEM file of authorities to trust; TLSCert and TLSKey are our
	// own certificate, both or none. With any of them set, TLS is required.
	TLSCA   string
	TLSCert string
	TLSKey  string

	// Prefix begins every subject; in upper case, with dots as underscores, it
	// begins the stream names. Tokens of [A-Za-z0-9_-] joined by dots, at most
	// 64 characters; default "loop".
	Prefix string
	// Replicas of each stream: 1 (default), 3 or 5 in a cluster.
	Replicas int
	// Storage is StorageFile (default) or StorageMemory. It cannot be changed
	// on streams that exist.
	Storage Storage
	// Existing only looks the streams up: Open creates and changes nothing. For
	// hosts and readers whose user may not administrate streams.
	Existing bool
	// InboxMaxAge is how long inputs stay in the inbox. Default 0, for ever: an
	// input that no owner took up is all there is of it.
	InboxMaxAge time.Duration
	// FramesMaxAge is how long raw provider bytes stay. Default 7 days; after
	// it, recovery of an operation says response_expired.
	FramesMaxAge time.Duration
	// MaxStreamBytes bounds each stream; a full one refuses appends (ErrFull)
	// and drops nothing. Default 0: the server's own limit alone.
	MaxStreamBytes int64

	// RequestTimeout bounds one request to the server. Default 2 s. An append
	// may take several.
	RequestTimeout time.Duration
	// Attempts bounds how often an append is sent, and a read begun, while the
	// server gives no answer, with a pause that doubles from 50 ms to 2 s between
	// them. Default 10, 9 s of pauses: a cluster that lost its leader takes 4-8 s.
	Attempts int
	// BusyAttempts bounds how often an append is sent again after the server
	// said that another is in flight (clusters; 0.3-1 ms apart). Default 200.
	BusyAttempts int
	// MaxEventBytes bounds an event. Default 0: what the server takes in one
	// message (its max_payload, 1 MiB unless configured).
	MaxEventBytes int
	// ReadBuffer bounds the bytes that one reader holds: twice this, once on
	// the way and once in our queue. Default 8 MiB; raised to what the
	// server's largest messages need.
	ReadBuffer int

	// Barrier, where set, is called after each acknowledged append; the append
	// is done when it returns (durability "barrier": a shared syncfs round).
	Barrier func(ctx context.Context) error
	// Created, where set, is called once by Open after the streams are there
	// and before anything is appended. An embedded server syncs its disk here:
	// a power cut would otherwise lose the streams' own metadata.
	Created func(ctx context.Context) error

	// Logger gets what is not an answer to a call: connections lost and
	// regained, refused permissions. Default: discarded.
	Logger *slog.Logger
}

// Storage is where the server keeps the streams.
type Storage string

// The values of Storage.
const (
	StorageFile   Storage = "file"
	StorageMemory Storage = "memory"
)

func (c Config) withDefaults() Config {
	if c.URL == "" && c.InProcess == nil {
		c.URL = nats.DefaultURL
	}
	if c.Prefix == "" {
		c.Prefix = "loop"
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Storage == "" {
		c.Storage = StorageFile
	}
	if c.FramesMaxAge == 0 {
		c.FramesMaxAge = 7 * 24 * time.Hour
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 2 * time.Second
	}
	if c.Attempts == 0 {
		c.Attempts = 10
	}
	if c.BusyAttempts == 0 {
		c.BusyAttempts = 200
	}
	if c.ReadBuffer == 0 {
		c.ReadBuffer = 8 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	return errors.Join(c.checkAccess(), c.checkStreams(), c.checkLimits())
}

func (c Config) checkAccess() error {
	ways := 0
	for _, way := range []string{c.CredsFile, c.User, c.Token} {
		if way != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("more than one of CredsFile, User and Token is set; keep one")
	case c.Password != "" && c.User == "":
		return errors.New("a Password without a User; set both or none")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("fields TLSCert and TLSKey go together; set both or none")
	}
	return nil
}

func (c Config) checkStreams() error {
	if len(c.Prefix) > 64 {
		return fmt.Errorf("field Prefix has %d characters; at most 64", len(c.Prefix))
	}
	for token := range strings.SplitSeq(c.Prefix, ".") {
		if !plainToken(token) {
			return fmt.Errorf("field Prefix is %q: want tokens of A-Z a-z 0-9 _ - joined by dots", c.Prefix)
		}
	}
	switch {
	case c.Replicas < 1 || c.Replicas > 5:
		return fmt.Errorf("field Replicas is %d; want 1 to 5", c.Replicas)
	case c.Storage != StorageFile && c.Storage != StorageMemory:
		return fmt.Errorf("field Storage is %q, not one of file, memory", c.Storage)
	case c.InboxMaxAge < 0 || c.FramesMaxAge < 0 || c.MaxStreamBytes < 0:
		return errors.New("fields InboxMaxAge, FramesMaxAge and MaxStreamBytes must not be negative")
	}
	return nil
}

func (c Config) checkLimits() error {
	switch {
	case c.RequestTimeout < 10*time.Millisecond:
		return fmt.Errorf("field RequestTimeout is %v; want 10ms or more", c.RequestTimeout)
	case c.Attempts < 1 || c.BusyAttempts < 1:
		return errors.New("fields Attempts and BusyAttempts must be 1 or more")
	case c.MaxEventBytes < 0 || c.ReadBuffer < 0:
		return errors.New("fields MaxEventBytes and ReadBuffer must not be negative")
	}
	return nil
}
